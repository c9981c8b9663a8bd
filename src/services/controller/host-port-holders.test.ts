import { describe, expect, it } from 'vitest';
import { type Ip, parseCidr, parseIp } from '../../base/net/ip.ts';
import { type HostPort, rejectionText } from '../../dataplane/compile/host-port.ts';
import type { Service } from '../../kubernetes/resources/service.ts';
import type { ListeningSocket } from '../../netlink/sockets/listening-sockets.ts';
import { HostPortHolders } from './host-port-holders.ts';

const ownTexts = ['192.0.2.1', '2001:db8::1', '10.96.0.77'];
const listener = (address: string, isIpv6Only = false): ListeningSocket => {
  const ip = parseIp(address);
  return { family: ip.family, address: ip, isIpv6Only, user: 0, backlog: 511 };
};

function setUp(sockets: readonly ListeningSocket[] = []) {
  const services = new Map<string, Pick<Service, 'ports' | 'healthCheckNodePort' | 'clusterIps'>>();
  let changed = (): void => undefined;
  const own = ownTexts.map(parseIp);
  const holders = new HostPortHolders(
    {
      services: {
        entries: () => services.entries() as IterableIterator<readonly [string, Service]>,
        subscribe: (listener) => {
          changed = () => listener(new Set());
          return () => undefined;
        },
      },
      host: {
        portHolder: (ip: Ip | undefined, transport, port) =>
          transport === 'tcp' && port === 10_250
            ? 'the kubelet'
            : ip?.text === '192.0.2.1' && port === 6_443
              ? 'the API server'
              : undefined,
        isNodeAddress: ({ text }) => text === '192.0.2.9',
      },
      apiServer: { ip: parseIp('203.0.113.6'), port: 443 },
      holders: { holderOf: ({ text }) => (text.startsWith('10.10.') || text.startsWith('fd00:10:') ? 'pods of node node-2' : undefined) },
      environment: () => ({ serviceCidrs: ['10.96.0.0/12', 'fd00:96::/112'].map(parseCidr) }),
      own: () => own,
      agentPorts: new Map([[10_256, 'the health check of the Service proxy']]),
      listeners: () => sockets,
    },
    new AbortController().signal,
  );
  const set = (name: string, service: Partial<Service>): void => {
    services.set(name, { ports: [], clusterIps: [], ...service });
    changed();
  };
  return { holders, set };
}

const at = (hostIp: string | undefined, hostPort = 8_080, transport: HostPort['transport'] = 'tcp'): HostPort => ({
  transport,
  hostPort,
  containerPort: 80,
  ...(hostIp === undefined ? {} : { hostIp: parseIp(hostIp) }),
});

describe('the address of a host port', () => {
  it.each([
    ['10.96.0.1', 'is in the network of Services'],
    ['fd00:96::1', 'is in the network of Services'],
    // Like kube-proxy's mode ipvs, which gives the node the addresses of Services.
    ['10.96.0.77', 'is in the network of Services'],
    ['10.10.2.5', 'belongs to pods of node node-2'],
    ['fd00:10::2:5', 'belongs to pods of node node-2'],
    ['192.0.2.9', 'belongs to another node'],
    ['203.0.113.6', 'is the address of the API server'],
    ['169.254.169.254', 'is link-local'],
    ['fe80::1', 'is link-local'],
    ['169.254.0.252', 'is a virtual address of Seine'],
    ['fc01::aabb:ccdd:eeff', 'is a virtual address of Seine'],
    ['224.0.0.1', 'is a multicast address'],
    ['ff02::1', 'is a multicast address'],
    ['255.255.255.255', 'is a special-purpose address'],
    ['::ffff:10.0.0.1', 'is a special-purpose address'],
  ])('%s is rejected: it %s', (hostIp, reason) => {
    const wanted = at(hostIp);
    const { forbidden } = setUp().holders.stateOf(wanted);
    expect(forbidden?.field).toBe('hostIP');
    expect(forbidden && rejectionText(wanted, forbidden)).toBe(`${wanted.hostIp?.text} ${reason}, not an address of this node`);
  });

  it('is rejected as the cluster address of a Service outside of the known networks', () => {
    const { holders, set } = setUp();
    expect(holders.stateOf(at('198.51.100.3')).forbidden).toBeUndefined();
    set('demo/db', { clusterIps: ['198.51.100.3'] });
    expect(holders.stateOf(at('198.51.100.3')).forbidden?.reason).toContain('is the cluster address of Service demo/db');
  });

  it.each([undefined, '0.0.0.0', '::', '127.0.0.1', '::1', '192.0.2.1', '2001:db8::1'])('%s is served immediately', (hostIp) => {
    expect(setUp().holders.stateOf(at(hostIp))).toEqual({ isWaiting: false, kept: [] });
  });

  it.each(['198.51.100.3', '2001:db8::7'])('%s, which the node may get, is awaited', (hostIp) => {
    expect(setUp().holders.stateOf(at(hostIp))).toEqual({ isWaiting: true, kept: [] });
  });
});

describe('the port of a host port', () => {
  it('is rejected if the node serves it, at any address', () => {
    const { holders, set } = setUp();
    set('demo/web', {
      ports: [{ name: '', protocol: 'UDP', port: 53, targetPort: 53, nodePort: 30_053 }],
      healthCheckNodePort: 31_000,
    });
    const reason = (...args: Parameters<typeof at>) => holders.stateOf(at(...args)).forbidden?.reason;
    for (const hostIp of [undefined, '127.0.0.1', '::', '192.0.2.1', '198.51.100.3']) {
      expect(reason(hostIp, 10_256)).toBe('belongs to the health check of the Service proxy');
      expect(reason(hostIp, 10_250)).toBe('belongs to the kubelet');
      expect(reason(hostIp, 31_000)).toBe('belongs to Service demo/web, whose health check node port it is');
      expect(reason(hostIp, 30_053, 'udp')).toBe('belongs to Service demo/web, whose node port it is');
      for (const port of [10_256, 10_250, 31_000]) expect(reason(hostIp, port, 'udp')).toBeUndefined();
    }
    expect(reason(undefined, 6_443)).toBe('belongs to the API server');
    expect(reason('127.0.0.1', 6_443)).toBeUndefined();
  });

  it('becomes a Service’s when the Service gets it later', () => {
    const { holders, set } = setUp();
    expect(holders.stateOf(at(undefined, 31_000)).forbidden).toBeUndefined();
    set('demo/web', { healthCheckNodePort: 31_000 });
    expect(holders.stateOf(at(undefined, 31_000)).forbidden?.reason).toContain('Service demo/web');
  });

  it.each([
    ['0.0.0.0', undefined, true],
    ['0.0.0.0', '127.0.0.1', true],
    ['0.0.0.0', '2001:db8::1', false],
    ['::', '192.0.2.1', true],
    ['::', '2001:db8::1', true],
    ['192.0.2.1', '192.0.2.1', true],
    ['192.0.2.1', '127.0.0.1', false],
    ['127.0.0.53', undefined, false],
    ['2001:db8::1', '::', false],
  ])("with a process that listens at %s, and the pod's request for %s, is in use: %s", (address, hostIp, isInUse) => {
    const { occupied } = setUp([listener(address)]).holders.stateOf(at(hostIp));
    expect(occupied !== undefined).toBe(isInUse);
  });

  it('is free in IPv4 if a process listens in IPv6 alone', () => {
    expect(setUp([listener('::', true)]).holders.stateOf(at('192.0.2.1')).occupied).toBeUndefined();
  });

  it('stays with a process that listens at one address, and with the API server at its own', () => {
    const { holders } = setUp([listener('127.0.0.53'), listener('::1')]);
    expect(holders.stateOf(at(undefined)).kept.map(({ text }) => text)).toEqual(['127.0.0.53', '::1']);
    expect(holders.stateOf(at('0.0.0.0', 443)).kept.map(({ text }) => text)).toEqual(['127.0.0.53', '203.0.113.6']);
    expect(holders.stateOf(at('192.0.2.1')).kept).toEqual([]);
  });
});
