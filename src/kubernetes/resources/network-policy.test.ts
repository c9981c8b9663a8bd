import { describe, expect, it } from 'vitest';
import { networkPolicies } from './network-policy.ts';

const metadata = { namespace: 'default', name: 'db', uid: 'u1', generation: 3 };

const project = (spec: Readonly<Record<string, unknown>>) => networkPolicies.project({ metadata, spec: { podSelector: {}, ...spec } });
const ingressOf = (...rules: unknown[]) => project({ ingress: rules });

describe('a NetworkPolicy', () => {
  it('is read with the API’s defaults', () => {
    const spec = {
      podSelector: { matchLabels: { app: 'db' }, matchExpressions: [{ key: 'tier', operator: 'Exists' }] },
      policyTypes: ['Ingress', 'Egress'],
      ingress: [
        { from: [{ podSelector: { matchLabels: { app: 'api' } } }], ports: [{ port: 5432 }, { protocol: 'UDP', port: 'dns' }] },
        { from: null, ports: [] },
      ],
    };
    expect(networkPolicies.project({ metadata, spec })).toEqual({
      namespace: 'default',
      name: 'db',
      uid: 'u1',
      generation: 3,
      podSelector: [
        { key: 'app', operator: 'In', values: ['db'] },
        { key: 'tier', operator: 'Exists', values: [] },
      ],
      ingress: [
        {
          peers: [{ pods: [{ key: 'app', operator: 'In', values: ['api'] }] }],
          ports: [
            { protocol: 'TCP', port: 5432 },
            { protocol: 'UDP', port: 'dns' },
          ],
        },
        { peers: 'any', ports: 'any' },
      ],
      egress: [],
    });
  });

  it.each([
    [undefined, undefined, ['ingress']],
    [[], [], ['ingress']],
    [undefined, [{}], ['ingress', 'egress']],
    [['Egress'], undefined, ['egress']],
    [['Ingress'], [{}], ['ingress']],
  ])('isolates by types %j with egress rules %j in %j', (policyTypes, egress, isolated) => {
    const policy = project({ policyTypes, egress });
    expect(['ingress', 'egress'].filter((direction) => policy?.[direction as 'ingress' | 'egress'])).toEqual(isolated);
  });

  it('without a spec selects all pods of its namespace and allows nothing', () => {
    expect(networkPolicies.project({ metadata })).toMatchObject({ podSelector: [], ingress: [] });
  });

  it('clears the host bits of blocks', () => {
    expect(ingressOf({ from: [{ ipBlock: { cidr: '10.1.2.3/8', except: ['10.9.0.1/16', 'FD00::1/64'] } }] })?.ingress).toEqual([
      { peers: [{ cidr: '10.0.0.0/8', except: ['10.9.0.0/16', 'fd00::/64'] }], ports: 'any' },
    ]);
  });
});

describe('unsupported parts of a NetworkPolicy', () => {
  it.each([
    [{ from: [{ ipBlock: { cidr: '10.0.0.0/33' } }] }, /spec\.ingress\[0\]\.from\[0\]\.ipBlock\.cidr: .*10\.0\.0\.0\/33/],
    [{ from: [{ ipBlock: { cidr: '10.0.0.0/08' } }] }, /two ways.*"10\.0\.0\.0\/08"/],
    [{ from: [{ ipBlock: { cidr: '010.0.0.0/8' } }] }, /is not a CIDR/],
    [{ from: [{ ipBlock: { cidr: '::ffff:10.0.0.0/104' } }] }, /two ways/],
    [{ from: [{ ipBlock: { cidr: '10.0.0.0/8', except: ['x'] } }] }, /except\[0\]/],
    [{ from: [{ ipBlock: { cidr: '10.0.0.0/8' }, podSelector: {} }] }, /either ipBlock, or selectors/],
    [{ from: [{}] }, /either ipBlock, or selectors \(\{\}\)/],
    [{ from: [{ serviceAccountSelector: {} }] }, /serviceAccountSelector/],
    [{ from: [{ podSelector: {}, also: 1 }] }, /also/],
    [{ from: [{ podSelector: { matchLabels: { a: 1 } } }] }, /matchLabels\.a: .*\(1\)/],
    [{ from: [{ podSelector: { matchExpressions: [{ key: 'a', operator: 'Gt', values: ['1'] }] } }] }, /operator: .*\("Gt"\)/],
    [{ from: [{ podSelector: { matchExpressions: [{ key: 'a', operator: 'In', values: [] }] } }] }, /In and NotIn need values/],
    [{ from: [{ podSelector: { matchExpressions: [{ key: 'a', operator: 'Exists', values: ['b'] }] } }] }, /In and NotIn need values/],
    [{ from: [JSON.parse('{"podSelector":{"matchLabels":{"__proto__":"a"}}}')] }, /__proto__ is not a label/],
  ])('in a peer, %j, match nothing and are reported', (rule, fault) => {
    const policy = ingressOf(rule);
    expect(policy?.ingress).toEqual([{ peers: [], ports: 'any' }]);
    expect(policy?.faults?.join()).toMatch(fault);
  });

  it.each([
    [{ ports: [{ protocol: 'tcp', port: 80 }] }, /spec\.ingress\[0\]\.ports\[0\]\.protocol: .*\("tcp"\)/],
    [{ ports: [{ port: 0 }] }, /port/],
    [{ ports: [{ port: 65_536 }] }, /65536/],
    [{ ports: [{ port: 80, endPort: 79 }] }, /endPort ends a range/],
    [{ ports: [{ port: 'http', endPort: 90 }] }, /endPort ends a range/],
    [{ ports: [{ endPort: 90 }] }, /endPort ends a range/],
    [{ ports: [{ port: 80, unless: 81 }] }, /unless/],
  ])('in a port, %j, match nothing and are reported', (rule, fault) => {
    const policy = ingressOf(rule);
    expect(policy?.ingress).toEqual([{ peers: 'any', ports: [] }]);
    expect(policy?.faults?.join()).toMatch(fault);
  });

  it.each([[{ from: 'all' }], ['all'], [null], [{ from: [], unless: [] }]])('in a rule, %j, allow nothing', (rule) => {
    const policy = ingressOf(rule, {});
    expect(policy?.ingress).toEqual([
      { peers: [], ports: [] },
      { peers: 'any', ports: 'any' },
    ]);
    expect(policy?.faults?.join()).toMatch(/^spec\.ingress\[0\]/);
  });

  it('keep the rest of the rule', () => {
    expect(ingressOf({ from: [{ podSelector: {} }, {}], ports: [{ port: 80 }, { port: -1 }] })?.ingress).toEqual([
      { peers: [{ pods: [] }], ports: [{ protocol: 'TCP', port: 80 }] },
    ]);
  });

  it('are reported if they are a type or a field of the policy', () => {
    const policy = project({ policyTypes: ['Ingress', 'Sideways'], action: 'Deny' });
    expect(policy?.ingress).toEqual([]);
    expect(policy?.egress).toBeUndefined();
    expect(policy?.faults).toEqual([expect.stringMatching(/^spec\.action/), expect.stringMatching(/"Sideways"/)]);
  });

  it('are reported for the first few only', () => {
    const policy = ingressOf({ from: Array.from({ length: 10_000 }, () => ({ ipBlock: { cidr: 'x'.repeat(1_000) } })) });
    expect(policy?.faults).toHaveLength(6);
    expect(policy?.faults?.at(-1)).toBe('and 9995 more');
    expect(policy?.faults?.join().length).toBeLessThan(8_000);
  });

  it('make an object invalid in the pod selector', () => {
    expect(() => project({ podSelector: { matchExpressions: [{ key: 'a', operator: 'Gt', values: ['1'] }] } })).toThrow(
      /spec\.podSelector\.matchExpressions\[0\]\.operator/,
    );
    expect(() => project({ ingress: {} })).toThrow(/spec\.ingress/);
  });
});

describe('a rule beyond a limit allows nothing, and its elements are not read', () => {
  const many = <T>(length: number, element: T): T[] => Array.from({ length }, () => element);
  const unread = 'no element';

  it.each([
    ['peers', [{ from: many(20_001, unread) }], 'more than 20000 peers'],
    ['ports', [{ ports: many(1_001, unread) }], 'more than 1000 ports'],
    [
      'networks',
      [{ from: [{ ipBlock: { cidr: unread, except: many(20_000, unread) } }] }],
      'more than 20000 networks in the rules up to this one',
    ],
    [
      'peers of all rules',
      [...many(3, { from: many(20_000, {}) }), { from: [unread] }],
      'more than 60000 peers in the rules up to this one',
    ],
  ])('%s', (_, rules, refused) => {
    const policy = ingressOf(...rules);
    expect(policy?.ingress).toHaveLength(rules.length);
    expect(policy?.ingress?.at(-1)).toEqual({ peers: [], ports: [], refused });
    expect(policy?.faults?.join() ?? '').not.toContain(unread);
  });

  it('rules', () => {
    const policy = ingressOf(...many(1_000, {}), ...many(5, unread));
    expect(policy?.ingress).toHaveLength(1_001);
    expect(policy?.ingress?.at(-1)).toEqual({ peers: [], ports: [], refused: 'more than 1000 rules; 4 others allow nothing either' });
    expect(policy?.faults).toBeUndefined();
  });
});
