import fc from 'fast-check';
import type {
  ClusterNetworkPolicyObject,
  ClusterPeerObject,
  ClusterPodsObject,
  ClusterProtocolObject,
  LabelSelectorObject,
  NetworkPolicyObject,
  PodObject,
  PolicyPeerObject,
  PolicyPortObject,
  PolicyRuleObject,
} from '../../src/policy/verify/reference/objects.ts';
import { namespaceObject, nodeObject, podObject } from '../support/policy-cluster.ts';
import type { PolicyObject } from './policy-proof.ts';

/* Small clusters with few labels, few addresses and few ports, so that everything interacts with everything. */

const keys = ['app', 'tier', 'env', 'constructor'] as const;
const values = ['a', 'b', 'c'] as const;
const namespaceNames = ['red', 'green', 'blue'] as const;
const portNames = ['http', 'dns'] as const;
const portNumbers = [1, 53, 80, 81, 443, 8080, 65_535] as const;

const nodes = {
  n1: { cidrs: ['10.1.0.0/24', 'fd00:1::/64'], addresses: ['192.168.0.1', 'fd00:77::1'], labels: { zone: 'a' } },
  n2: { cidrs: ['10.1.1.0/24', 'fd00:1:0:1::/64'], addresses: ['192.168.0.2', 'fd00:77::2'], labels: { zone: 'b' } },
  n3: { cidrs: ['10.1.2.0/24'], addresses: ['192.168.0.3'], labels: { zone: 'a' } },
} as const;
type NodeName = keyof typeof nodes;
const nodeNames = Object.keys(nodes) as NodeName[];

const oneOf = <T>(all: readonly T[]) => fc.constantFrom(...all);
export const podLabels = fc.dictionary(oneOf(keys), oneOf(values), { maxKeys: 3 });
const rarely = <T>(arbitrary: fc.Arbitrary<T>, weight = 9) => fc.option(arbitrary, { nil: undefined, freq: weight });

/** Answers that annotations state; another value counts as none. */
const denied = oneOf([undefined, 'reject', 'drop', 'Reject']);

const requirement = fc.oneof(
  fc.record({ key: oneOf(keys), operator: oneOf(['In', 'NotIn']), values: fc.uniqueArray(oneOf(values), { minLength: 1, maxLength: 2 }) }),
  fc.record({ key: oneOf(keys), operator: oneOf(['Exists', 'DoesNotExist']) }),
);
const selector: fc.Arbitrary<LabelSelectorObject> = fc.oneof(
  fc.constant({}),
  fc.record({ matchLabels: fc.dictionary(oneOf(keys), oneOf(values), { maxKeys: 1 }) }),
  fc.record({ matchExpressions: fc.array(requirement, { maxLength: 2 }) }),
);
const namespaceSelector: fc.Arbitrary<LabelSelectorObject> = fc.oneof(
  selector,
  oneOf(namespaceNames).map((name) => ({ matchLabels: { 'kubernetes.io/metadata.name': name } })),
);

const blocks = ['0.0.0.0/0', '10.0.0.0/8', '10.1.0.0/23', '10.1.1.0/24', '10.1.1.8/29', '10.1.0.5/32', '192.168.0.0/30', '192.168.0.2/32'];
const blocks6 = ['::/0', 'fd00::/16', 'fd00:1::/48', 'fd00:1:0:1::/64', 'fd00:1::5/128', 'fd00:77::/64', '2001:db8::7/32'];
export const policyPort: fc.Arbitrary<PolicyPortObject> = fc
  .record({
    protocol: rarely(oneOf(['TCP', 'UDP', 'SCTP']), 2),
    port: rarely(fc.oneof(oneOf(portNumbers), oneOf(portNames)), 6),
    last: rarely(oneOf(portNumbers), 3),
  })
  .map(({ protocol, port, last }) => ({
    ...(protocol === undefined ? {} : { protocol }),
    ...(port === undefined ? {} : { port }),
    ...(typeof port === 'number' && last !== undefined && last >= port ? { endPort: last } : {}),
  }));

const ports = fc.option(fc.array(policyPort, { maxLength: 3 }), { freq: 3 });

/** @param families networks of each family that rules name, and except */
export function policiesWith(families: readonly (readonly string[])[]): fc.Arbitrary<NetworkPolicyObject> {
  const block = oneOf(families).chain((family) =>
    fc.record({
      cidr: oneOf(family),
      except: fc.option(fc.array(oneOf([...family, '10.1.1.10/32', 'fd00:1:0:1::a/128']), { maxLength: 3 })),
    }),
  );
  const peer: fc.Arbitrary<PolicyPeerObject> = fc.oneof(
    { weight: 2, arbitrary: fc.record({ podSelector: selector }) },
    { weight: 2, arbitrary: fc.record({ namespaceSelector }) },
    { weight: 2, arbitrary: fc.record({ podSelector: selector, namespaceSelector }) },
    { weight: 3, arbitrary: fc.record({ ipBlock: block }) },
  );
  const peers = fc.option(fc.array(peer, { maxLength: 3 }), { freq: 6 });
  const rulesOf = (direction: 'from' | 'to'): fc.Arbitrary<readonly PolicyRuleObject[]> =>
    fc.array(
      fc.record({ peers, ports }).map((rule) => ({ [direction]: rule.peers, ports: rule.ports })),
      { maxLength: 3 },
    );
  return fc.record({
    metadata: fc.record({ namespace: oneOf(namespaceNames), name: oneOf(['one', 'two', 'three', 'four']) }),
    spec: fc.record({
      podSelector: fc.oneof({ weight: 2, arbitrary: fc.constant({}) }, { weight: 1, arbitrary: selector }),
      policyTypes: fc.option(oneOf([['Ingress'], ['Egress'], ['Ingress', 'Egress'], ['Ingress', 'Egress']]), { freq: 3, nil: null }),
      ingress: fc.option(rulesOf('from'), { nil: null }),
      egress: fc.option(rulesOf('to'), { nil: null }),
    }),
  });
}

const policy = policiesWith([blocks, blocks6]);

const clusterPods: fc.Arbitrary<ClusterPodsObject> = fc.oneof(
  namespaceSelector.map((namespaces) => ({ namespaces })),
  fc.record({ namespaceSelector, podSelector: selector }).map((pods) => ({ pods })),
);
/** Fields of an API version that this one does not know. */
const notUnderstood = fc.constantFrom<ClusterPeerObject>({}, { serviceAccounts: {} } as ClusterPeerObject, {
  domainNames: ['example.com'],
});
const ingressPeer: fc.Arbitrary<ClusterPeerObject> = fc.oneof(
  { weight: 20, arbitrary: clusterPods },
  { weight: 1, arbitrary: notUnderstood },
);
const egressPeer: fc.Arbitrary<ClusterPeerObject> = fc.oneof(
  { weight: 3, arbitrary: ingressPeer },
  {
    weight: 2,
    arbitrary: fc.uniqueArray(oneOf([...blocks, ...blocks6]), { minLength: 1, maxLength: 3 }).map((networks) => ({ networks })),
  },
  { weight: 1, arbitrary: oneOf([{}, { matchLabels: { zone: 'a' } }, { matchLabels: { zone: 'b' } }]).map((nodes) => ({ nodes })) },
);
const transport = fc.oneof(
  fc.constant({}),
  oneOf(portNumbers).map((number) => ({ destinationPort: { number } })),
  fc
    .uniqueArray(oneOf(portNumbers), { minLength: 2, maxLength: 2 })
    .map(([a = 1, b = 2]) => ({ destinationPort: { range: { start: Math.min(a, b), end: Math.max(a, b) } } })),
);
const clusterProtocol: fc.Arbitrary<ClusterProtocolObject> = fc.oneof(
  { weight: 8, arbitrary: fc.tuple(oneOf(['tcp', 'tcp', 'udp', 'sctp']), transport).map(([name, ports]) => ({ [name]: ports })) },
  { weight: 4, arbitrary: oneOf(portNames).map((name) => ({ destinationNamedPort: name })) },
  { weight: 1, arbitrary: fc.constant({}) },
);
const clusterRules = (peersField: 'from' | 'to', peer: fc.Arbitrary<ClusterPeerObject>) =>
  fc.array(
    fc
      .record({
        action: oneOf(['Accept', 'Accept', 'Deny', 'Pass'] as const),
        peers: fc.array(peer, { minLength: 1, maxLength: 3 }),
        protocols: fc.option(fc.array(clusterProtocol, { minLength: 1, maxLength: 3 }), { freq: 2, nil: undefined }),
      })
      .map(({ action, peers, protocols }) => ({ action, [peersField]: peers, ...(protocols ? { protocols } : {}) })),
    { maxLength: 3 },
  );
export const clusterPolicy: fc.Arbitrary<ClusterNetworkPolicyObject> = fc.record({
  metadata: fc.record({
    name: oneOf(['north', 'south', 'east', 'west', 'up', 'down']),
    creationTimestamp: oneOf(['2026-01-01T00:00:00Z', '2026-01-02T00:00:00Z']),
    annotations: denied.map((answer) => (answer === undefined ? {} : { 'seine.dev/denied': answer })),
  }),
  spec: fc.record({
    tier: oneOf(['Admin', 'Baseline'] as const),
    priority: oneOf([0, 1, 1, 2, 1_000]),
    subject: clusterPods,
    ingress: clusterRules('from', ingressPeer),
    egress: clusterRules('to', egressPeer),
  }),
});

const container = fc.record({
  ports: fc.array(
    fc.record(
      { name: oneOf(portNames), containerPort: oneOf(portNumbers), protocol: oneOf(['TCP', 'UDP']) },
      { requiredKeys: ['name', 'containerPort'] },
    ),
    { maxLength: 2 },
  ),
});

/** Some addresses of each node that lie at the borders of blocks; now and then one that belongs elsewhere. */
const hosts = [5, 8, 10, 15, 16] as const;
const pod: fc.Arbitrary<PodObject> = fc
  .record({
    namespace: fc.oneof({ weight: 9, arbitrary: oneOf(namespaceNames) }, { weight: 1, arbitrary: fc.constant('unknown') }),
    node: fc.oneof({ weight: 2, arbitrary: fc.constant('n1' as const) }, { weight: 3, arbitrary: oneOf(nodeNames) }),
    name: oneOf(['p', 'q', 'r', 's', 't']),
    host: oneOf(hosts),
    stray: rarely(oneOf(nodeNames), 8),
    labels: podLabels,
    containers: fc.array(container, { minLength: 1, maxLength: 2 }),
    initContainers: fc.array(
      fc.record({ restartPolicy: oneOf(['Always', 'Never']), ports: fc.constant([{ name: 'dns', containerPort: 81 }]) }),
      {
        maxLength: 1,
      },
    ),
    phase: fc.oneof({ weight: 9, arbitrary: fc.constant('Running') }, { weight: 1, arbitrary: oneOf(['Succeeded', 'Failed', 'Pending']) }),
    hostNetwork: fc.oneof({ weight: 12, arbitrary: fc.constant(false) }, { weight: 1, arbitrary: fc.constant(true) }),
    createdAt: oneOf(['2026-01-01T00:00:00Z', '2026-01-02T00:00:00Z']),
  })
  .map(({ namespace, node, name, host, stray, hostNetwork, ...parts }) => {
    const at = nodes[stray === undefined || node === 'n1' ? node : stray];
    const ips = at.cidrs.map((cidr) =>
      cidr.includes(':') ? cidr.replace('::/64', `::${host.toString(16)}`) : cidr.replace('0/24', String(host)),
    );
    return podObject(`${namespace}/${name}-${node}-${host}`, hostNetwork ? nodes[node].addresses : ips, { ...parts, node, hostNetwork });
  });

const object: fc.Arbitrary<PolicyObject> = fc.oneof(
  { weight: 5, arbitrary: pod.map((each) => ({ kind: 'Pod' as const, object: each })) },
  { weight: 4, arbitrary: policy.map((each) => ({ kind: 'NetworkPolicy' as const, object: each })) },
  {
    weight: 1,
    arbitrary: fc
      .record({ name: oneOf(namespaceNames), labels: podLabels, denied })
      .map((each) => ({ kind: 'Namespace' as const, object: namespaceObject(each.name, each.labels, each.denied) })),
  },
  {
    weight: 1,
    arbitrary: oneOf(nodeNames).map((name) => ({
      kind: 'Node' as const,
      object: nodeObject(name, nodes[name].cidrs, nodes[name].addresses, nodes[name].labels),
    })),
  },
);

/** Initial objects of a cluster, and its events: an object is added, or the one of that number is removed. */
export interface PolicyHistory {
  readonly objects: readonly PolicyObject[];
  readonly changes: readonly (readonly PolicyChangeStep[])[];
}
type PolicyChangeStep = { readonly put: PolicyObject } | { readonly remove: number };

const everyNode: readonly PolicyObject[] = nodeNames.map((name) => ({
  kind: 'Node',
  object: nodeObject(name, nodes[name].cidrs, nodes[name].addresses, nodes[name].labels),
}));

export const policyHistories = historiesWith(object, fc.constant([]));

const clusterObject = clusterPolicy.map((each) => ({ kind: 'ClusterNetworkPolicy' as const, object: each }));
const tieredObject: fc.Arbitrary<PolicyObject> = fc.oneof({ weight: 3, arbitrary: object }, { weight: 2, arbitrary: clusterObject });

/** Histories of clusters with cluster policies in both tiers. */
export const tieredHistories = historiesWith(tieredObject, fc.array(clusterObject, { minLength: 1, maxLength: 6 }));

function historiesWith(changed: fc.Arbitrary<PolicyObject>, more: fc.Arbitrary<readonly PolicyObject[]>): fc.Arbitrary<PolicyHistory> {
  return fc.record({
    objects: fc
      .record({
        namespaces: fc.tuple(
          ...namespaceNames.map((name) => fc.tuple(podLabels, denied).map(([own, answer]) => namespaceObject(name, own, answer))),
        ),
        pods: fc.array(pod, { minLength: 4, maxLength: 12 }),
        policies: fc.array(policy, { minLength: 5, maxLength: 10 }),
        more,
      })
      .map(({ namespaces, pods, policies, more: others }) => [
        ...everyNode,
        ...namespaces.map((each) => ({ kind: 'Namespace' as const, object: each })),
        ...pods.map((each) => ({ kind: 'Pod' as const, object: each })),
        ...policies.map((each) => ({ kind: 'NetworkPolicy' as const, object: each })),
        ...others,
      ]),
    changes: fc.array(
      fc.array(
        fc.oneof(
          { weight: 3, arbitrary: changed.map((each) => ({ put: each })) },
          { weight: 1, arbitrary: fc.nat().map((at) => ({ remove: at })) },
        ),
        { minLength: 1, maxLength: 4 },
      ),
      { minLength: 1, maxLength: 4 },
    ),
  });
}

/** Addresses at which anything may begin or end, by the blocks, networks and hosts above. */
export const probedAddresses: readonly string[] = [
  ...['10.1.0', '10.1.1', '10.1.2'].flatMap((network) => [0, 1, 2, 5, 6, 8, 10, 15, 16, 255].map((host) => `${network}.${host}`)),
  '10.1.3.0',
  '10.0.255.255',
  '11.0.0.0',
  '9.255.255.255',
  '192.168.0.0',
  '192.168.0.1',
  '192.168.0.2',
  '192.168.0.3',
  '192.168.0.4',
  '203.0.113.7',
  ...['fd00:1::', 'fd00:1:0:1::', 'fd00:1:0:2::'].flatMap((network) => ['', '1', '2', '5', '8', 'a', 'ff'].map((host) => network + host)),
  'fd00:77::1',
  'fd00:77::2',
  'fd00:78::1',
  'fd01::1',
  '2001:db8::1',
  '2001:db9::1',
];

/** Ports at and around those above; fewer of them show differences between protocols. */
export const probedPorts = {
  TCP: [0, 1, 2, 52, 53, 79, 80, 81, 82, 443, 444, 8080, 8081, 65_534, 65_535],
  UDP: [0, 53, 80, 81, 8080, 65_535],
  SCTP: [1, 80, 443],
} as const;
