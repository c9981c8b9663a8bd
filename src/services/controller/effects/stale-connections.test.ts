import { describe, expect, it } from 'vitest';
import { parseIp } from '../../../base/net/ip.ts';
import { nodePortAddress } from '../../../dataplane/pipeline/well-known.ts';
import type { ServiceEndpoint, ServiceIntent } from '../../compile/service-intent.ts';
import { type Stale, type StaleOptions, staleAfter } from './stale-connections.ts';

const udp: StaleOptions = { transports: ['udp', 'sctp'], newServices: 'flushed' };
const one: ServiceEndpoint = { ip: parseIp('10.10.0.5'), port: 5353 };
const two: ServiceEndpoint = { ip: parseIp('10.10.1.5'), port: 5353 };

const dns: ServiceIntent = {
  name: 'dns/ipv4',
  family: 'ipv4',
  transport: 'udp',
  port: 53,
  addresses: [
    { kind: 'cluster', ip: parseIp('10.96.0.10'), port: 53 },
    { kind: 'nodePort', ip: nodePortAddress.ipv4, port: 30053 },
  ],
  internalPolicy: 'Cluster',
  externalPolicy: 'Cluster',
  translation: 'endpoint',
  sourceRanges: [],
  cluster: [one, two],
  local: [one],
  anyEndpoint: true,
  objections: [],
};

/** Returns `ADDRESS:PORT`, with ` > ENDPOINT` if only connections to that are meant. */
function reported({ bridge, host }: Stale) {
  const address = (each: { readonly address: { readonly ip: { readonly text: string }; readonly port: number } }) =>
    `${each.address.ip.text}:${each.address.port}`;
  return {
    bridge: bridge.map((each) => address(each) + (each.endpoint ? ` > ${each.endpoint.ip.text}` : '')),
    host: host.map(address),
  };
}

const both = ['10.96.0.10:53', '169.254.0.252:30053'];

describe('stale connections of a change', () => {
  it('are those to exactly the removed endpoint, at every address', () => {
    const stale = staleAfter(dns, { ...dns, cluster: [two], local: [] }, udp);
    expect(reported(stale)).toEqual({ bridge: both.map((address) => `${address} > 10.10.0.5`), host: [] });
    expect(stale.bridge[0]).toMatchObject({ zone: 65_520, ipProtocol: 17 });
  });
  it('are none if an endpoint is added', () => {
    expect(reported(staleAfter({ ...dns, cluster: [one] }, dns, udp))).toEqual({ bridge: [], host: [] });
  });
  it('are all of a Service that gets its first endpoint: they were forwarded untranslated, or end nowhere', () => {
    const empty = { ...dns, cluster: [], local: [], anyEndpoint: false };
    expect(reported(staleAfter(empty, dns, udp))).toEqual({ bridge: both, host: [] });
    expect(reported(staleAfter(dns, empty, udp)).bridge).toEqual(
      both.flatMap((address) => [`${address} > 10.10.0.5`, `${address} > 10.10.1.5`]),
    );
  });
  it('are all of a Service or an address that is added or removed, for the node as well', () => {
    expect(reported(staleAfter(undefined, dns, udp))).toEqual({ bridge: both, host: both });
    expect(reported(staleAfter(dns, undefined, udp))).toEqual({ bridge: both, host: both });
    expect(reported(staleAfter(dns, { ...dns, addresses: dns.addresses.slice(0, 1) }, udp))).toEqual({
      bridge: [both[1]],
      host: [both[1]],
    });
  });
  it('exclude those of Services that an agent finds when it starts', () => {
    expect(reported(staleAfter(undefined, dns, { ...udp, newServices: 'kept' }))).toEqual({ bridge: [], host: [] });
  });
  it('are those of external clients to other nodes once that is no longer allowed', () => {
    expect(reported(staleAfter(dns, { ...dns, externalPolicy: 'Local' }, udp)).bridge).toEqual(['169.254.0.252:30053 > 10.10.1.5']);
    const local: ServiceIntent = { ...dns, externalPolicy: 'Local' };
    expect(reported(staleAfter(local, { ...local, objections: ['x'] }, udp)).bridge).toEqual([]);
  });
  it('exclude those of TCP, unless requested', () => {
    const tcp: ServiceIntent = { ...dns, transport: 'tcp' };
    expect(reported(staleAfter(tcp, undefined, udp)).bridge).toEqual([]);
    expect(staleAfter(tcp, undefined, { ...udp, transports: ['tcp'] }).bridge[0]?.ipProtocol).toBe(6);
  });
});
