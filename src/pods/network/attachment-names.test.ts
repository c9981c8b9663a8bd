import { describe, expect, it } from 'vitest';
import { hostInterfaceAlias, parseHostInterfaceAlias } from './attachment-names.ts';

const key = { network: 'seine', containerId: 'c'.repeat(64), ifName: 'eth0' };

describe('the alias of a pod’s interface', () => {
  it('names the owner, with everything that identifies the pod', () => {
    const alias = hostInterfaceAlias(key, { namespace: 'default', name: 'web-0', uid: 'u' });
    expect(alias).toBe(`default/web-0 seine ${key.containerId}`);
    expect(parseHostInterfaceAlias(alias)).toEqual({
      network: 'seine',
      containerId: key.containerId,
      pod: { namespace: 'default', name: 'web-0', uid: '' },
    });
  });
  it('is that of a container without a pod too', () =>
    expect(parseHostInterfaceAlias(hostInterfaceAlias(key, undefined))).toEqual({ network: 'seine', containerId: key.containerId }));
  it('names the owner if there is no room for more', () => {
    const alias = hostInterfaceAlias(key, { namespace: 'n'.repeat(63), name: 'p'.repeat(253), uid: '' });
    expect(alias).toHaveLength(255);
    expect(alias.startsWith(`${'n'.repeat(63)}/ppp`)).toBe(true);
    expect(parseHostInterfaceAlias(alias)).toBeUndefined();
  });
  it.each([undefined, '', 'uplink', 'default/web-0', 'a b c d', '/ x y', 'a/b/c x y'])('has no owner: %j', (alias) =>
    expect(parseHostInterfaceAlias(alias)).toBeUndefined(),
  );
});
