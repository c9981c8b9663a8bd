import { describe, expect, it } from 'vitest';
import { parseIp } from '../../../base/net/ip.ts';
import { flowFilter, flowFilterNames } from './flow-filter.ts';
import type { FlowRecord } from './flow-record.ts';

const flow: FlowRecord = {
  timeMs: 0,
  event: 'opened',
  verdict: 'allowed',
  reporter: 'source',
  protocol: 6,
  source: { ip: parseIp('10.0.0.5'), port: 40_000, kind: 'pod', name: 'shop/web-1' },
  destination: { ip: parseIp('10.0.1.9'), port: 5_432, kind: 'pod', name: 'data/db-0' },
  service: { ip: parseIp('10.96.0.20'), port: 5_432, name: 'data/db' },
};

describe('a filter of flows', () => {
  it.each([
    ['namespace=shop', true],
    ['namespace=data,other', true],
    ['namespace=sho', false],
    ['from-namespace=data', false],
    ['to-namespace=data', true],
    ['pod=shop/web', true],
    ['pod=web', false],
    ['from-pod=shop/web-1', true],
    ['to-pod=shop/web-1', false],
    ['ip=10.0.1.9', true],
    ['from-ip=10.0.1.9', false],
    ['to-ip=10.0.1.9', true],
    ['port=5432', true],
    ['from-port=5432', false],
    ['to-port=80,5432', true],
    ['service=data/db', true],
    ['service=db', false],
    ['verdict=denied,REFUSED', false],
    ['verdict=allowed', true],
    ['event=opened', true],
    ['protocol=tcp', true],
    ['protocol=17', false],
    ['namespace=shop&to-port=80', false],
    ['last=3', true],
  ])('%s matches: %s', (query, expected) => {
    expect(flowFilter(new URLSearchParams(query))(flow)).toBe(expected);
  });

  it('never hides a gap', () => {
    expect(flowFilter(new URLSearchParams('pod=a/b'))({ ...flow, event: 'gap' })).toBe(true);
  });

  it.each([
    ['port=http', 'port: "http" is not a port (0 to 65535)'],
    ['verdict=dropped', 'verdict: "dropped" is not one of allowed, denied, would-deny, refused'],
    ['ip=10.0.0', 'ip: "10.0.0" is not an IP address'],
    ['pod=a/b/c', 'pod: "a/b/c" is not NAME or NAMESPACE/NAME'],
    ['protocol=tpc', 'protocol: "tpc" is not a protocol, e.g. tcp, udp, icmp or 47'],
    ['pod=', 'pod: "" must have 1 to 320 characters'],
    [`port=${new Array(17).fill('1').join()}`, 'port: at most 16 values'],
  ])('%s is refused: %s', (query, message) => {
    expect(() => flowFilter(new URLSearchParams(query))).toThrow(message);
  });

  it('has no filter without a test here', () => {
    expect(flowFilterNames).toHaveLength(16);
  });
});
