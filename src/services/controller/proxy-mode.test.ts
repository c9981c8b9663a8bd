import { expect, it } from 'vitest';
import { parseConfig } from '../../agent/config/agent-config.ts';
import { silentLog } from '../../base/log/log.ts';
import { type KubeProxySigns, noSigns } from './kube-proxy.ts';
import { ProxyMode } from './proxy-mode.ts';

const rules: KubeProxySigns = { found: ['nftables table ip kube-proxy'] };

function mode(text: string) {
  let signs = noSigns;
  const made = new ProxyMode({ config: parseConfig(text, {}).proxy, look: () => signs, log: silentLog });
  return { mode: made, find: (found: KubeProxySigns) => (signs = found) };
}

it('serves everything without a kube-proxy, and leaves it the rest otherwise, as it starts and stops', () => {
  const t = mode('');
  expect(t.mode.look()).toBe(false);
  expect([t.mode.proxyAll, t.mode.sentence]).toEqual([true, 'on']);
  t.find(rules);
  expect(t.mode.look()).toBe(true);
  expect(t.mode.config.proxyAll).toBe(false);
  expect(t.mode.sentence).toBe(
    'off: kube-proxy serves node ports, external addresses and what the node itself sends (nftables table ip kube-proxy)',
  );
  t.find({ found: ['a process of root listens on port 10256'] });
  expect(t.mode.look()).toBe(false);
  expect(t.mode.sentence).toContain('(a process of root listens on port 10256)');
  t.find(noSigns);
  expect(t.mode.look()).toBe(true);
  expect(t.mode.proxyAll).toBe(true);
});

it('follows its configuration, and reports what a kube-proxy takes', () => {
  const [on, off] = [mode('proxy: { proxyAll: true }'), mode('proxy: { proxyAll: false }')];
  on.find(rules);
  expect(on.mode.look()).toBe(false);
  expect([on.mode.proxyAll, on.mode.sentence]).toEqual([true, expect.stringContaining('handled by kube-proxy')]);
  expect([off.mode.proxyAll, off.mode.sentence]).toEqual([false, 'off: proxy.proxyAll is false, and no kube-proxy was found']);
});

it('forwards the configuration', () => {
  const { config } = mode(
    'proxy: { skipServices: [a/b], proxyLoadBalancerIPs: false, serviceProxyName: x, externalIPRanges: [192.0.2.0/24] }',
  ).mode;
  expect(config).toMatchObject({
    skipServices: new Set(['a/b']),
    proxyLoadBalancerIps: false,
    serviceProxyName: 'x',
    externalIpRanges: [{ text: '192.0.2.0/24' }],
  });
});
