import fc from 'fast-check';
import { expect, it } from 'vitest';
import { filledService } from '../../../test/support/scene-service.ts';
import type { Ip } from '../../base/net/ip.ts';
import { parseIp } from '../../base/net/ip.ts';
import { claimsOf, ServiceClaims, spotsOf } from './service-claims.ts';

const names = ['a', 'b', 'c', 'd'] as const;
const ips = ['10.0.0.1', '10.0.0.2', '10.0.0.3'] as const;
const ports = ['tcp 80', 'udp 80'] as const;
const claim = fc.record(
  {
    ip: fc.constantFrom(...ips),
    port: fc.constantFrom(...ports),
    right: fc.constantFrom('allocated' as const, 'requested' as const, 'yields' as const),
  },
  { requiredKeys: ['ip', 'right'], noNullPrototype: true },
);
const notes = fc.array(fc.record({ name: fc.constantFrom(...names), claims: fc.array(claim, { maxLength: 3 }) }), { maxLength: 30 });
type Claims = Parameters<ServiceClaims['note']>[1];

it('reports the owner of each key, and the Services that a change concerns, after any history', () => {
  fc.assert(
    fc.property(notes, (all) => {
      const claims = new ServiceClaims();
      const now = new Map<string, Claims>();
      for (const { name, claims: mine } of all) {
        const before = now.get(name) ?? [];
        const changed = ips.filter(
          (ip) => JSON.stringify(before.filter((each) => each.ip === ip)) !== JSON.stringify(mine.filter((each) => each.ip === ip)),
        );
        const others = names.filter((other) => other !== name && now.get(other)?.some(({ ip }) => changed.some((each) => each === ip)));
        expect([...claims.note({ name, createdAt: name }, mine)].toSorted()).toEqual(others);
        now.set(name, mine);
        for (const ip of ips)
          for (const port of ports) {
            const first = firstAt(now, ip, port);
            expect(claims.holderBefore('none', [{ ip, port }])).toBe(first === undefined ? undefined : `Service ${first}`);
          }
      }
    }),
  );
});

/** Returns the first claimant: allocated before requested, then the older one, which is the first by name here. */
function firstAt(now: ReadonlyMap<string, Claims>, ip: string, port: string): string | undefined {
  const at = (name: string, right: string): boolean =>
    now.get(name)?.some((each) => each.ip === ip && (each.port === undefined || each.port === port) && each.right === right) ?? false;
  return names.find((name) => at(name, 'allocated')) ?? names.find((name) => at(name, 'requested'));
}

const config = {
  proxyAll: true,
  skipServices: new Set<string>(),
  proxyLoadBalancerIps: true,
  serviceProxyName: '',
  externalIpRanges: [],
  bucketTranslation: true,
};

it.each([
  ['192.0.2.1', '192.0.2.2', '10.96.0'],
  ['2001:db8::1', '2001:db8::2', 'fd00:96:'],
])(
  'gives port 80 of each address of a node, %s and %s, to its own Service, and node ports at all of them to theirs',
  (first, second, base) => {
    const isNodes = ({ text }: Ip) => [first, second].includes(text);
    const all = new ServiceClaims();
    const separator = base.includes(':') ? ':' : '.';
    const note = (name: string, index: number, ip: string, port: number, nodePort?: number): void => {
      const service = filledService({
        name,
        type: 'LoadBalancer',
        clusterIps: [`${base}${separator}${index}`],
        loadBalancerIngress: [{ ip, ipMode: 'VIP' }],
        ports: [{ name: '', protocol: 'TCP', port, targetPort: port, ...(nodePort === undefined ? {} : { nodePort }) }],
      });
      all.note({ name, createdAt: `2026-01-0${index}T00:00:00Z` }, claimsOf(service, [], { config, isNodes }));
    };
    const holder = (name: string, ip: string, port: number) => all.holderBefore(name, spotsOf(parseIp(ip), `tcp ${port}`, isNodes));
    note('a', 1, first, 80, 30_080);
    note('b', 2, second, 80, 30_081);
    expect([holder('a', first, 80), holder('b', second, 80)]).toEqual([undefined, undefined]);
    expect(holder('b', first, 80)).toBe('Service a');
    note('c', 3, second, 30_080);
    expect(holder('c', second, 30_080)).toBe('Service a');
  },
);
