import { describe, expect, it } from 'vitest';
import { parseIp } from '../../base/net/ip.ts';
import { parseMac } from '../../base/net/mac.ts';
import type { PortMapping } from '../../cni/network-conf.ts';
import { type HostPortState, openHostPort } from '../../dataplane/compile/host-port.ts';
import type { Lease } from '../ipam/lease.ts';
import { assertReached, HostPortClaims } from './host-ports.ts';

const mapping = (more: Partial<PortMapping> = {}): PortMapping => ({
  hostPort: 8_080,
  containerPort: 80,
  protocol: 'tcp',
  hostIp: '',
  ...more,
});
const asking = (containerId: string, ...portMappings: readonly PortMapping[]) => ({
  attachment: { network: 'seine', containerId, ifName: 'eth0' },
  pod: { namespace: 'demo', name: containerId, uid: '' },
  portMappings,
});
const holder = (state: Lease['state'], hostIp?: string): Lease => ({
  serial: 9,
  state,
  network: 'seine',
  containerId: 'c9',
  ifName: 'eth0',
  netns: '/run/netns/c9',
  mac: parseMac('02:00:00:00:00:09'),
  addresses: [],
  pod: { namespace: 'demo', name: 'web', uid: '' },
  hostPorts: [{ transport: 'tcp', hostPort: 8_080, containerPort: 1, ...(hostIp ? { hostIp: parseIp(hostIp) } : {}) }],
});
const claims = (leases: readonly Lease[] = [], state: Partial<HostPortState> = {}) =>
  new HostPortClaims(
    () => leases,
    () => ({ ...openHostPort, ...state }),
  );
const refusal = (work: () => unknown): string => {
  try {
    work();
  } catch (thrown) {
    return String(thrown instanceof Error ? thrown.message : thrown);
  }
  return 'taken';
};

describe('a host port', () => {
  it('is rejected with field, value and owner', () => {
    const ask = (...mappings: readonly PortMapping[]) => asking('a', ...mappings);
    const free = mapping({ hostPort: 1 });
    expect(refusal(() => claims([holder('allocated')]).claim(ask(free, mapping())))).toBe(
      'runtimeConfig.portMappings[1].hostPort: 8080/tcp belongs to pod demo/web',
    );
    expect(
      refusal(() =>
        claims([], { forbidden: { field: 'hostPort', reason: 'belongs to Service demo/db' } }).claim(ask(mapping({ hostIp: '192.0.2.1' }))),
      ),
    ).toBe('runtimeConfig.portMappings[0].hostPort: 192.0.2.1:8080/tcp belongs to Service demo/db');
    const foreign: HostPortState = {
      ...openHostPort,
      forbidden: { field: 'hostIP', reason: 'is link-local, not an address of this node' },
    };
    expect(refusal(() => claims([], foreign).claim(ask(mapping({ hostIp: '169.254.1.1' }))))).toBe(
      'runtimeConfig.portMappings[0].hostIP: 169.254.1.1 is link-local, not an address of this node',
    );
    const inUse: HostPortState = { ...openHostPort, occupied: { field: 'hostPort', reason: 'is in use' } };
    expect(refusal(() => claims([], inUse).claim(ask(mapping())))).toBe('runtimeConfig.portMappings[0].hostPort: 8080/tcp is in use');
    expect(refusal(() => claims().claim(ask(mapping(), mapping({ containerPort: 81 }))))).toBe(
      'runtimeConfig.portMappings[1].hostPort: 8080/tcp belongs to this pod already',
    );
    expect(refusal(() => claims().claim(ask(mapping({ hostIp: 'here' }))))).toBe(
      'runtimeConfig.portMappings[0].hostIP: "here" is not an IP address',
    );
    expect(refusal(() => claims().claim(ask(mapping({ containerPort: 0 }))))).toBe(
      'runtimeConfig.portMappings[0].containerPort: 0 is not a port of a pod',
    );
  });

  it('is free if no packet matches both', () => {
    expect(refusal(() => claims([holder('quarantined')]).claim(asking('a', mapping())))).toBe('taken');
    expect(refusal(() => claims([holder('allocated')]).claim(asking('a', mapping({ protocol: 'udp' }))))).toBe('taken');
    expect(refusal(() => claims([holder('allocated', '192.0.2.1')]).claim(asking('a', mapping({ hostIp: '192.0.2.2' }))))).toBe('taken');
    expect(refusal(() => claims([holder('allocated', '192.0.2.1')]).claim(asking('a', mapping({ hostIp: '::' }))))).toBe('taken');
    expect(refusal(() => claims([holder('allocated', '192.0.2.1')]).claim(asking('a', mapping())))).toContain('belongs to');
  });

  it('belongs to the first of two pods, until that has failed', () => {
    const both = claims();
    const first = both.claim(asking('a', mapping()));
    expect(refusal(() => both.claim(asking('b', mapping())))).toContain('belongs to pod demo/a');
    first.end();
    expect(refusal(() => both.claim(asking('b', mapping())))).toBe('taken');
  });

  it('that is named twice is one, and 0 is none', () => {
    expect(claims().claim(asking('a', mapping(), mapping(), mapping({ hostPort: 0 }))).hostPorts).toHaveLength(1);
  });

  it('needs an address of its family', () => {
    const addresses = [{ ip: parseIp('10.1.0.5'), prefixLength: 22, gateway: parseIp('10.1.0.1') }];
    const { hostPorts } = claims().claim(asking('a', mapping({ hostIp: '2001:db8::1' })));
    expect(refusal(() => assertReached(hostPorts, addresses))).toBe(
      'runtimeConfig.portMappings: [2001:db8::1]:8080/tcp is IPv6, and the pod has no address of this family',
    );
    expect(refusal(() => assertReached(claims().claim(asking('b', mapping({ hostIp: '::' }))).hostPorts, addresses))).toBe('taken');
  });
});
