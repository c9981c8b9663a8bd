import { describe, expect, it } from 'vitest';
import { parseIp } from '../../base/net/ip.ts';
import { ownerOf } from '../../dataplane/pipeline/cookie.ts';
import type { ServiceIntent } from '../compile/service-intent.ts';
import { ClusterAddresses } from './cluster-addresses.ts';

const [clusterIp, external] = [parseIp('10.96.0.10'), parseIp('198.51.100.1')];

function portOf(port: number): ServiceIntent {
  return {
    name: `${port}/ipv4`,
    family: 'ipv4',
    transport: 'tcp',
    port,
    addresses: [
      { kind: 'cluster', ip: clusterIp, port },
      { kind: 'loadBalancer', ip: external, port },
    ],
    internalPolicy: 'Cluster',
    externalPolicy: 'Cluster',
    translation: 'bucket',
    sourceRanges: [],
    cluster: [],
    local: [],
    anyEndpoint: false,
    objections: [],
  };
}

function change(was: ServiceIntent | undefined, is: ServiceIntent | undefined) {
  return { key: 'default/web', ports: [{ owner: ownerOf('service', `default/web:${(is ?? was)?.name}`), was, is }], hasMore: false };
}

describe('a port of a cluster address', () => {
  const at = (port: number, transport: 'tcp' | 'udp' = 'tcp', ip = clusterIp) => ({ ip, transport, port });

  it('is unserved if the Service has others: another number, another protocol', () => {
    const addresses = new ClusterAddresses();
    addresses.changed(change(undefined, portOf(80)));
    expect([at(80), at(81), at(80, 'udp')].map((each) => addresses.isUnservedPort(each))).toEqual([false, true, true]);
  });

  it('is not unserved at an address without any port, nor at a load balancer', () => {
    const addresses = new ClusterAddresses();
    expect(addresses.isUnservedPort(at(81))).toBe(false);
    addresses.changed(change(undefined, portOf(80)));
    expect(addresses.isUnservedPort(at(81, 'tcp', external))).toBe(false);
  });

  it('is not unserved while other ports of its Service are pending', () => {
    const addresses = new ClusterAddresses();
    addresses.changed({ ...change(undefined, portOf(80)), hasMore: true });
    expect([at(80), at(81)].map((each) => addresses.isUnservedPort(each))).toEqual([false, false]);
    addresses.changed(change(undefined, portOf(82)));
    expect([at(80), at(81), at(82)].map((each) => addresses.isUnservedPort(each))).toEqual([false, true, false]);
  });

  it('follows ports that are added, changed and removed', () => {
    const addresses = new ClusterAddresses();
    addresses.changed(change(undefined, portOf(80)));
    addresses.changed(change(undefined, portOf(81)));
    addresses.changed(change(portOf(80), undefined));
    expect([at(80), at(81)].map((each) => addresses.isUnservedPort(each))).toEqual([true, false]);
    addresses.changed(change(portOf(81), portOf(82)));
    expect([at(81), at(82)].map((each) => addresses.isUnservedPort(each))).toEqual([true, false]);
    addresses.changed(change(portOf(82), undefined));
    expect(addresses.isUnservedPort(at(81))).toBe(false);
  });
});
