import fc from 'fast-check';
import { expect, it } from 'vitest';
import { type Family, hostCidr, type Ip, ipFromValue, parseCidr } from '../../base/net/ip.ts';
import { packIntent, unpackIntent } from './packed-intent.ts';
import type { ServiceIntent } from './service-intent.ts';

const bits = { ipv4: 32n, ipv6: 128n } as const;
const port = fc.integer({ min: 0, max: 65_535 });

function ipsOf(family: Family): fc.Arbitrary<Ip> {
  return fc.bigInt(0n, 2n ** bits[family] - 1n).map((value) => ipFromValue(family, value));
}

function intentsOf(family: Family): fc.Arbitrary<ServiceIntent> {
  const ip = ipsOf(family);
  const endpoints = fc.array(fc.record({ ip, port }), { maxLength: 5 });
  const policy = fc.constantFrom('Cluster' as const, 'Local' as const);
  return fc.record(
    {
      name: fc.string({ unit: 'grapheme' }),
      family: fc.constant(family),
      transport: fc.constantFrom('tcp', 'udp', 'sctp'),
      port,
      addresses: fc.array(fc.record({ kind: fc.constantFrom('cluster', 'nodePort', 'external', 'loadBalancer'), ip, port }), {
        maxLength: 4,
      }),
      internalPolicy: policy,
      externalPolicy: policy,
      affinitySeconds: fc.integer({ min: 1, max: 86_400 }),
      translation: fc.constantFrom('bucket', 'endpoint'),
      sourceRanges: fc.array(fc.oneof(ip.map(hostCidr), fc.constant(parseCidr(family === 'ipv4' ? '0.0.0.0/0' : '2001:db8::/33'))), {
        maxLength: 3,
      }),
      cluster: endpoints,
      local: endpoints,
      anyEndpoint: fc.boolean(),
      objections: fc.array(fc.string({ unit: 'grapheme' }), { maxLength: 2 }),
    },
    {
      requiredKeys: [
        'name',
        'family',
        'transport',
        'port',
        'addresses',
        'internalPolicy',
        'externalPolicy',
        'translation',
        'sourceRanges',
        'cluster',
        'local',
        'anyEndpoint',
        'objections',
      ],
      noNullPrototype: true,
    },
  );
}

it('returns packed intents', () => {
  fc.assert(
    fc.property(fc.constantFrom<Family>('ipv4', 'ipv6').chain(intentsOf), (intent) => {
      expect(unpackIntent(packIntent(intent))).toEqual(intent);
    }),
  );
});
