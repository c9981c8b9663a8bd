import { describe, expect, it } from 'vitest';
import { parseIp } from '../../../base/net/ip.ts';
import { nodePortAddress, zones } from '../../../dataplane/pipeline/well-known.ts';
import type { TrackedConnection } from '../../../netlink/conntrack.ts';
import type { ServiceIntent } from '../../compile/service-intent.ts';
import { ipProtocols, servedKey } from './stale-connections.ts';
import { assessConnection } from './tracked-connections.ts';

const dns: ServiceIntent = {
  name: 'dns/ipv4',
  family: 'ipv4',
  transport: 'udp',
  port: 53,
  addresses: [
    { kind: 'cluster', ip: parseIp('10.96.0.10'), port: 53 },
    { kind: 'nodePort', ip: nodePortAddress.ipv4, port: 30_053 },
  ],
  internalPolicy: 'Cluster',
  externalPolicy: 'Cluster',
  translation: 'endpoint',
  sourceRanges: [],
  cluster: [{ ip: parseIp('10.10.0.5'), port: 5353 }],
  local: [],
  anyEndpoint: true,
  objections: [],
};
const empty: ServiceIntent = { ...dns, addresses: [{ kind: 'cluster', ip: parseIp('10.96.0.11'), port: 53 }], cluster: [] };
const itself: ServiceIntent = {
  ...dns,
  addresses: [{ kind: 'external', ip: parseIp('198.51.100.7'), port: 53 }],
  cluster: [{ ip: parseIp('198.51.100.7'), port: 53 }],
};
const served = new Map(
  [dns, empty, itself].flatMap((intent) => intent.addresses.map((address) => [servedKey(ipProtocols.udp, address), intent] as const)),
);

/** Connection `DESTINATION PORT > REPLY-SOURCE PORT`, optionally preceded by its client. */
function connection(text: string, zone: number = zones.ipv4.main): TrackedConnection {
  const [, src = '10.10.0.9', dst = '', dstPort, by = '', byPort] = /^(?:(\S+): )?(\S+) (\d+) > (\S+) (\d+)$/.exec(text) ?? [];
  const client = { ip: parseIp(src), port: 40_000 };
  return {
    family: 'ipv4',
    ipProtocol: ipProtocols.udp,
    zone,
    id: 1,
    original: { src: client.ip, srcPort: client.port, dst: parseIp(dst), dstPort: Number(dstPort) },
    reply: { src: parseIp(by), srcPort: Number(byPort), dst: client.ip, dstPort: client.port },
  };
}

describe('a connection in the kernel’s conntrack', () => {
  it.each([
    ['to an endpoint that serves', '10.96.0.10 53 > 10.10.0.5 5353', 'well'],
    ['to an endpoint that is gone', '10.96.0.10 53 > 10.10.0.6 5353', 'astray'],
    ['to another port of an endpoint', '10.96.0.10 53 > 10.10.0.5 5354', 'astray'],
    ['to a Service that is gone', '10.96.0.99 53 > 10.10.0.5 5353', 'astray'],
    ['past a Service', '10.96.0.10 53 > 10.96.0.10 53', 'astray'],
    ['to a Service that has no endpoint', '10.96.0.11 53 > 10.96.0.11 53', 'well'],
    ['to an endpoint by its own address, which is the Service’s', '198.51.100.7 53 > 198.51.100.7 53', 'well'],
    ['from an address to itself', '10.96.0.10: 10.96.0.10 53 > 10.96.0.10 53', 'well'],
    ['between pods', '10.10.0.7 53 > 10.10.0.7 53', 'other'],
  ])('%s', (_, text, verdict) => {
    expect(assessConnection(connection(text), served)).toBe(verdict);
  });

  it.each([
    ['to a node port that serves', '192.0.2.1 30053 > 169.254.0.252 30053', 'well'],
    ['to a node port that is gone', '192.0.2.1 30054 > 169.254.0.252 30054', 'astray'],
    ['of the node’s own', '192.0.2.1 30053 > 192.0.2.1 30053', 'other'],
    ['translated by others', '192.0.2.1 80 > 172.17.0.2 8080', 'other'],
  ])('%s, in the node’s zone', (_, text, verdict) => {
    expect(assessConnection(connection(text, 0), served)).toBe(verdict);
  });

  it('of another zone is foreign', () => {
    expect(assessConnection(connection('10.96.0.99 53 > 10.10.0.5 5353', 7), served)).toBe('other');
  });
});
