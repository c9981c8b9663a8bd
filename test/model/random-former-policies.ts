import fc from 'fast-check';
import type { LabelSelectorObject } from '../../src/policy/verify/reference/objects.ts';
import type {
  AdminPeerObject,
  AdminPodsObject,
  AdminPolicyObject,
  AdminPortObject,
  AdminRuleObject,
  AntreaGroupObject,
  AntreaPolicyObject,
  AntreaPort,
  AntreaRuleObject,
  AntreaSelection,
  FormerPolicies,
} from './former-policies.ts';

/* Valid policies of earlier and other APIs, for the pods, labels and addresses of `exampleCluster`. */

const oneOf = <T>(...all: readonly T[]) => fc.constantFrom(...all);
const oftenAbsent = <T>(arbitrary: fc.Arbitrary<T>) => fc.oneof(fc.constant(undefined), arbitrary);
const few = <T>(arbitrary: fc.Arbitrary<T>, minLength = 0) => fc.array(arbitrary, { minLength, maxLength: 3 });

/** Removes undefined fields, which objects of an API do not have. */
function present<T extends object>(fields: { readonly [K in keyof T]: T[K] | undefined }): T {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as T;
}

const podSelector: fc.Arbitrary<LabelSelectorObject> = fc.oneof(
  fc.constant({}),
  oneOf('db', 'api', 'web', 'agent', 'scraper').map((app) => ({ matchLabels: { app } })),
  oneOf('In', 'NotIn').map((operator) => ({ matchExpressions: [{ key: 'app', operator, values: ['api', 'db'] }] })),
  oneOf('Exists', 'DoesNotExist').map((operator) => ({ matchExpressions: [{ key: 'tier', operator }] })),
);
const namespaceSelector: fc.Arbitrary<LabelSelectorObject> = fc.oneof(
  fc.constant({}),
  oneOf('prod', 'dev').map((env) => ({ matchLabels: { env } })),
  oneOf('shop', 'ops', 'play').map((name) => ({ matchLabels: { 'kubernetes.io/metadata.name': name } })),
  oneOf('Exists', 'DoesNotExist').map((operator) => ({ matchExpressions: [{ key: 'team', operator }] })),
);
const nodeSelector: fc.Arbitrary<LabelSelectorObject> = oneOf({}, { matchLabels: { zone: 'a' } }, { matchLabels: { zone: 'b' } });
const networks = [
  '10.10.0.0/16',
  '10.10.4.0/22',
  '10.10.0.5/32',
  '192.168.77.2/32',
  '203.0.113.0/24',
  '0.0.0.0/0',
  '10.10.0.6/16',
] as const;
const networks6 = ['fd00:10::/32', 'fd00:10:0:1::/64', 'fd00:10::5/128', '2001:db8::/32', '::/0'] as const;
const portNumbers = [1, 80, 443, 5432, 8080, 8081, 65_535] as const;
/** Names of container ports, each with the protocol that it has in all pods. */
const namedPorts = [
  { port: 'sql', protocol: 'TCP' },
  { port: 'metrics', protocol: 'TCP' },
  { port: 'lookup', protocol: 'UDP' },
] as const;
const transport = oneOf('TCP', 'UDP', 'SCTP');
const range = fc.tuple(oneOf(...portNumbers), oneOf(...portNumbers)).map(([a, b]) => ({ start: Math.min(a, b), end: Math.max(a, b) }));

const adminPods: fc.Arbitrary<AdminPodsObject> = fc.oneof(
  fc.record({ namespaces: namespaceSelector }),
  fc.record({ pods: fc.record({ namespaceSelector, podSelector }) }),
);
const adminAddresses: fc.Arbitrary<AdminPeerObject> = fc.oneof(
  fc.record({ nodes: nodeSelector }),
  fc.record({ networks: few(oneOf(...networks, ...networks6), 1) }),
);
const adminNumbers: fc.Arbitrary<AdminPortObject> = fc.oneof(
  fc.record({ portNumber: fc.record({ protocol: transport, port: oneOf(...portNumbers) }) }),
  fc.record({ protocol: oftenAbsent(transport), range }).map(({ protocol, range: { start, end } }) => ({
    portRange: present<NonNullable<AdminPortObject['portRange']>>({ protocol, start, end }),
  })),
);
const adminName: fc.Arbitrary<AdminPortObject> = oneOf<(typeof namedPorts)[number]>(...namedPorts).map(({ port }) => ({ namedPort: port }));

function adminRule(direction: 'ingress' | 'egress', actions: readonly string[]): fc.Arbitrary<AdminRuleObject> {
  const named = fc.record({ peers: few(adminPods, 1), ports: few(fc.oneof(adminNumbers, adminName), 1) });
  const numbered = fc.record({ peers: few(fc.oneof(adminPods, adminAddresses), 1), ports: oftenAbsent(few(adminNumbers, 1)) });
  const ofPods = fc.record({ peers: few(adminPods, 1), ports: oftenAbsent(few(adminNumbers, 1)) });
  return fc
    .record({ action: oneOf(...actions), parts: fc.oneof(named, direction === 'egress' ? numbered : ofPods) })
    .map(({ action, parts: { peers, ports } }) =>
      present<AdminRuleObject>({ action, [direction === 'egress' ? 'to' : 'from']: peers, ports }),
    );
}

const upstream = 'policy.networking.k8s.io/v1alpha1';
const adminPolicies: fc.Arbitrary<readonly AdminPolicyObject[]> = fc
  .record({
    priorities: fc.uniqueArray(fc.integer({ min: 0, max: 1_000 }), { maxLength: 3 }),
    specs: fc.array(
      fc.record({
        subject: adminPods,
        ingress: few(adminRule('ingress', ['Allow', 'Deny', 'Pass'])),
        egress: few(adminRule('egress', ['Allow', 'Deny', 'Pass'])),
      }),
      { minLength: 3, maxLength: 3 },
    ),
    baseline: oftenAbsent(
      fc.record({
        subject: adminPods,
        ingress: few(adminRule('ingress', ['Allow', 'Deny'])),
        egress: few(adminRule('egress', ['Allow', 'Deny'])),
      }),
    ),
  })
  .map(({ priorities, specs, baseline }) => [
    ...priorities.flatMap((priority, at) => {
      const spec = specs[at];
      return spec
        ? [{ apiVersion: upstream, kind: 'AdminNetworkPolicy', metadata: { name: `admin${at}` }, spec: { priority, ...spec } }]
        : [];
    }),
    ...(baseline ? [{ apiVersion: upstream, kind: 'BaselineAdminNetworkPolicy', metadata: { name: 'default' }, spec: baseline }] : []),
  ]);

const block = oneOf<readonly string[]>(networks, networks6).chain((family) =>
  fc
    .record({ cidr: oneOf(...family), except: oftenAbsent(few(oneOf(...family))) })
    .map((fields) => present<NonNullable<AntreaSelection['ipBlock']>>(fields)),
);
/** @param isNamespaced a policy of a namespace selects its own pods unless it selects namespaces */
function antreaPods(isNamespaced: boolean, isSubject: boolean): fc.Arbitrary<AntreaSelection> {
  const byPods = fc.record({ podSelector });
  const byNamespaces = fc.oneof(fc.record({ namespaceSelector }), fc.record({ namespaceSelector, podSelector }));
  const byGroup = oneOf('pods', 'pods', 'other', 'other', 'both', 'both', 'absent').map((group) => ({ group }));
  return isNamespaced && isSubject ? fc.oneof(byPods, byGroup) : fc.oneof(byPods, byNamespaces, byGroup);
}
const antreaOthers: fc.Arbitrary<AntreaSelection> = fc.oneof(
  { weight: 4, arbitrary: fc.record({ ipBlock: block }) },
  { weight: 2, arbitrary: fc.record({ nodeSelector }) },
  { weight: 2, arbitrary: oneOf({ group: 'networks' }, { group: 'mixed' }, { group: 'service' }) },
  { weight: 1, arbitrary: oneOf({ fqdn: '*.example.com' }, { podSelector: {}, scope: 'ClusterSet' }) },
  { weight: 1, arbitrary: oneOf<AntreaSelection>({ namespaces: { match: 'Self' } }, { namespaces: { sameLabels: ['env'] } }) },
);
const antreaPort: fc.Arbitrary<AntreaPort> = fc.oneof(
  fc.record({ protocol: oftenAbsent(transport) }).map((fields) => present<AntreaPort>(fields)),
  fc
    .record({ protocol: oftenAbsent(transport), range, isRange: fc.boolean() })
    .map(({ protocol, range: { start, end }, isRange }) =>
      present<AntreaPort>({ protocol, port: start, endPort: isRange ? end : undefined }),
    ),
  oneOf<AntreaPort>(...namedPorts),
  fc.constant({ protocol: 'TCP', port: 80, sourcePort: 1_024 }),
);

function antreaRule(direction: 'ingress' | 'egress', isNamespaced: boolean, hasSubjects: boolean): fc.Arbitrary<AntreaRuleObject> {
  const peers = few(fc.oneof({ weight: 3, arbitrary: antreaPods(isNamespaced, false) }, { weight: 2, arbitrary: antreaOthers }));
  return fc
    .record({
      action: oneOf('Allow', 'Drop', 'Reject', 'Pass'),
      peers: oftenAbsent(peers),
      ports: oftenAbsent(few(antreaPort)),
      protocols: oneOf(...Array.from({ length: 7 }, () => undefined), [{ icmp: { icmpType: 8 } }]),
      appliedTo: hasSubjects ? few(antreaPods(isNamespaced, true), 1) : fc.constant(undefined),
      enableLogging: oftenAbsent(fc.boolean()),
    })
    .map(({ peers: entries, ...rule }) => present<AntreaRuleObject>({ ...rule, [direction === 'egress' ? 'to' : 'from']: entries }));
}

const tiers = [
  'emergency',
  'SecurityOps',
  'networkops',
  'platform',
  'application',
  'baseline',
  'baseline',
  'own',
  'unknown',
  undefined,
] as const;
/** Kind and namespace of a policy, and whether its rules have subjects of their own. */
const shapes = fc.record({ namespace: oneOf(undefined, undefined, 'shop', 'play'), hasSubjects: fc.boolean() });
const antreaPolicy = shapes.chain(({ namespace, hasSubjects }) => {
  const isNamespaced = namespace !== undefined;
  return fc
    .record({
      tier: oneOf(...tiers),
      appliedTo: hasSubjects ? fc.constant(undefined) : few(antreaPods(isNamespaced, true), 1),
      ingress: few(antreaRule('ingress', isNamespaced, hasSubjects)),
      egress: few(antreaRule('egress', isNamespaced, hasSubjects)),
    })
    .map((spec) => ({ namespace, spec: present<Partial<AntreaPolicyObject['spec']>>(spec) }));
});

const antreaApi = 'crd.antrea.io/v1beta1';

/** Policies have different priorities: Antrea does not say which of two equal ones comes first. */
const antreaPolicies: fc.Arbitrary<readonly AntreaPolicyObject[]> = fc
  .record({
    priorities: fc.shuffledSubarray([1, 2.5, 3, 100], { minLength: 4, maxLength: 4 }),
    all: fc.array(antreaPolicy, { minLength: 1, maxLength: 4 }),
  })
  .map(({ priorities, all }) =>
    all.map(({ namespace, spec }, at) => ({
      apiVersion: antreaApi,
      kind: namespace === undefined ? 'ClusterNetworkPolicy' : 'NetworkPolicy',
      metadata: { name: `policy${at}`, ...(namespace === undefined ? {} : { namespace }) },
      spec: { ...spec, priority: priorities[at] ?? 1 },
    })),
  );

const members = fc.record({
  pods: fc.oneof(fc.record({ podSelector }), fc.record({ namespaceSelector, podSelector })),
  other: fc.record({ podSelector }),
  networks: fc.record({ ipBlocks: few(block, 1) }),
});
const groups: fc.Arbitrary<readonly AntreaGroupObject[]> = fc.record({ cluster: members, shop: members }).map((scopes) =>
  Object.entries(scopes).flatMap(([scope, { pods, other, networks: ofNetworks }]) => {
    const isNamespaced = scope === 'shop';
    const specs = {
      pods: isNamespaced ? { podSelector: pods.podSelector } : pods,
      other,
      networks: ofNetworks,
      both: { childGroups: ['pods', 'other'] },
      mixed: { childGroups: ['pods', 'networks'] },
      service: { serviceReference: { name: 'db', namespace: 'shop' } },
    };
    return Object.entries(specs).map(([name, spec]) => ({
      apiVersion: antreaApi,
      kind: isNamespaced ? 'Group' : 'ClusterGroup',
      metadata: { name, ...(isNamespaced ? { namespace: scope } : {}) },
      spec,
    }));
  }),
);

const ownTier = { apiVersion: antreaApi, kind: 'Tier', metadata: { name: 'own' }, spec: { priority: 120 } };

export const formerAdmin: fc.Arbitrary<FormerPolicies> = adminPolicies.map((admin) => ({ admin, antrea: [], groups: [], tiers: [] }));
export const formerAntrea: fc.Arbitrary<FormerPolicies> = fc
  .record({ antrea: antreaPolicies, groups })
  .map((objects) => ({ admin: [], tiers: [ownTier], ...objects }));
export const formerOfAllKinds: fc.Arbitrary<FormerPolicies> = fc
  .record({ admin: adminPolicies, antrea: antreaPolicies, groups })
  .map((objects) => ({ tiers: [ownTier], ...objects }));
