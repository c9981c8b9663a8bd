import { describe, expect, it } from 'vitest';
import { parseIp } from '../../base/net/ip.ts';
import { type LearnedChoice, mayChoose, narrows } from './learned-choice.ts';
import type { ServiceIntent } from './service-intent.ts';

const here = { ip: parseIp('10.10.0.5'), port: 8080 };
const there = { ip: parseIp('10.10.4.5'), port: 8080 };
const intent: ServiceIntent = {
  name: 'http/ipv4',
  family: 'ipv4',
  transport: 'tcp',
  port: 80,
  addresses: [
    { kind: 'cluster', ip: parseIp('10.96.0.10'), port: 80 },
    { kind: 'loadBalancer', ip: parseIp('198.51.100.1'), port: 80 },
  ],
  internalPolicy: 'Cluster',
  externalPolicy: 'Cluster',
  affinitySeconds: 600,
  translation: 'endpoint',
  sourceRanges: [],
  cluster: [here, there],
  local: [here],
  anyEndpoint: true,
  objections: [],
};
const isOwn = ({ text }: { readonly text: string }): boolean => text.startsWith('10.10.0.');
const remote: LearnedChoice = {
  client: parseIp('203.0.113.9'),
  byGateway: true,
  address: parseIp('198.51.100.1'),
  port: 80,
  endpoint: '10.10.4.5 8080',
};
const pod = { ...remote, client: parseIp('10.10.0.9'), byGateway: false };
const fromNode = { ...remote, client: parseIp('10.10.0.1') };
const inside = { ...pod, address: parseIp('10.96.0.10') };

describe('a remembered choice', () => {
  it.each([
    ['policy Cluster', intent, [true, true, true, true]],
    [
      'external policy Local: external clients alone gets local endpoints',
      { ...intent, externalPolicy: 'Local' },
      [false, true, true, true],
    ],
    ['internal policy Local', { ...intent, internalPolicy: 'Local' }, [true, true, true, false]],
    ['the endpoint is gone', { ...intent, cluster: [here] }, [false, false, false, false]],
    ['only the cluster address is left', { ...intent, addresses: intent.addresses.slice(0, 1) }, [false, false, false, true]],
    ['the Service is gone', undefined, [false, false, false, false]],
  ] as const)('is allowed or not: %s', (_, now, expected) => {
    expect([remote, pod, fromNode, inside].map((choice) => mayChoose(now, choice, isOwn))).toEqual(expected);
    expect(narrows(intent, now)).toBe(expected.some((isAllowed) => !isAllowed));
  });
  it('is not allowed without affinity', () => {
    const { affinitySeconds: _, ...without } = intent;
    expect([mayChoose(without, remote, isOwn), narrows(intent, without)]).toEqual([false, true]);
  });
  it('is not affected by new endpoints, nor by a policy that allows more', () => {
    const local = { ...intent, externalPolicy: 'Local', internalPolicy: 'Local' } as const;
    expect(narrows(local, intent)).toBe(false);
    expect(narrows({ ...intent, cluster: [here] }, intent)).toBe(false);
  });
});
