import fc from 'fast-check';
import { type DemoManifest, podManifest } from '../../lab/demo/workload.ts';
import type { LabPlan } from '../../lab/plan/plan.ts';

/* Proposals for `seinectl whatif` that a lab can apply: few labels, addresses and ports, so that everything interacts with everything. */

const namespaceNames = ['red', 'green', 'blue'] as const;
/** Key, node and labels of each pod. */
const podRows = [
  ['red/web-1', 1, { app: 'a' }],
  ['red/web-2', 2, { app: 'a', tier: 'b' }],
  ['red/db-1', 2, { app: 'b' }],
  ['green/web-1', 1, { app: 'a' }],
  ['green/db-1', 2, { app: 'b', tier: 'a' }],
  ['blue/web-1', 2, { app: 'c' }],
  ['blue/db-1', 1, { tier: 'b' }],
] as const;
const serviceNames = ['red/s1', 'green/s2'] as const;
/** Port at which pods answer, TCP and UDP; the others of `policyPorts` are closed. */
export const openPort = 80;
const policyPorts = [openPort, 8080, 'tcp', 'udp'] as const;
/** Ports at which Services may be. */
export const servicePorts = [80, 443] as const;

/** Objects of the scene: namespaces, pods, and a policy without subjects that names the outside, so that its addresses are compared. */
export function sceneManifests({ nodes, external }: Pick<LabPlan, 'nodes' | 'external'>): readonly DemoManifest[] {
  const namespace = (name: string) => ({
    collection: '/api/v1/namespaces',
    object: { apiVersion: 'v1', kind: 'Namespace', metadata: { name } },
  });
  const pods = podRows.map(([key, node, labels]) => {
    const [of = '', name = ''] = key.split('/');
    return podManifest({ namespace: of, name, node: nodes[node - 1]?.name ?? '', labels, port: openPort });
  });
  const to = external.outside.map((ip) => ({ ipBlock: { cidr: `${ip}/${ip.includes(':') ? 128 : 32}` } }));
  const names = {
    collection: '/apis/networking.k8s.io/v1/namespaces/red/networkpolicies',
    object: {
      apiVersion: 'networking.k8s.io/v1',
      kind: 'NetworkPolicy',
      metadata: { name: 'names-the-outside' },
      spec: { podSelector: { matchLabels: { app: 'none' } }, policyTypes: ['Egress'], egress: [{ to }] },
    },
  };
  return [...namespaceNames.map(namespace), ...pods, names];
}

/** Number of pods of each namespace. */
export const podCounts = Map.groupBy(podRows, ([key]) => key.split('/')[0] ?? '');
export const podKeys: readonly string[] = podRows.map(([key]) => key);

type Labels = Readonly<Record<string, string>>;
/** One change of an object. Numbers select an existing object. */
export type Step =
  | { readonly put: 'NetworkPolicy' | 'ClusterNetworkPolicy'; readonly key: string; readonly spec: object }
  | { readonly put: 'Service'; readonly key: string; readonly spec: object }
  | { readonly relabel: 'Pod' | 'Namespace'; readonly key: string; readonly labels: Labels }
  | { readonly remove: number };

const pick = <T>(...from: readonly T[]): fc.Arbitrary<T> => fc.constantFrom(...from);
const some = <T>(arbitrary: fc.Arbitrary<T>, maxLength: number) => fc.array(arbitrary, { minLength: 1, maxLength });
const labels = fc.dictionary(pick('app', 'tier'), pick('a', 'b', 'c'), { maxKeys: 2 });
const selector = fc.oneof(
  fc.constant({}),
  fc.dictionary(pick('app', 'tier'), pick('a', 'b', 'c'), { minKeys: 1, maxKeys: 1 }).map((matchLabels) => ({ matchLabels })),
  fc
    .record({ key: pick('app', 'tier'), operator: pick('In', 'NotIn'), values: fc.uniqueArray(pick('a', 'b', 'c'), { minLength: 1 }) })
    .map((requirement) => ({ matchExpressions: [requirement] })),
);
const namespaceSelector = fc.oneof(
  selector,
  pick(...namespaceNames).map((name) => ({ matchLabels: { 'kubernetes.io/metadata.name': name } })),
);
const networks = ['0.0.0.0/0', '10.244.0.0/22', '10.244.4.0/22', '203.0.113.0/24', '192.168.77.1/32', '192.168.77.0/24'] as const;
const networks6 = ['::/0', 'fd00:10:244::/64', 'fd00:10:244:1::/64', '2001:db8:113::/48', 'fd00:77::2/128', 'fd00:77::/64'] as const;
const network = pick(...networks, ...networks6);
const ipBlock = fc.oneof(
  network.map((cidr) => ({ cidr })),
  pick(...networks.slice(1)).map((without) => ({ cidr: '0.0.0.0/0', except: [without] })),
  pick(...networks6.slice(1)).map((without) => ({ cidr: '::/0', except: [without] })),
);
const peer = fc.oneof(
  fc.record({ podSelector: selector }),
  fc.record({ namespaceSelector }),
  fc.record({ podSelector: selector, namespaceSelector }),
  fc.record({ ipBlock }),
);
const policyPort = fc.oneof(
  fc.record({ protocol: pick('TCP', 'UDP') }),
  fc.record({ protocol: pick('TCP', 'UDP'), port: pick<number | string>(...policyPorts) }),
  fc.constant({ protocol: 'TCP', port: 81, endPort: 9000 }),
);
const rules = (field: 'from' | 'to') =>
  fc.array(
    fc
      .record({ peers: fc.option(some(peer, 2), { nil: undefined }), ports: fc.option(some(policyPort, 2), { nil: undefined }) })
      .map(({ peers, ports }) => ({ ...(peers && { [field]: peers }), ...(ports && { ports }) })),
    { maxLength: 2 },
  );
const networkPolicy: fc.Arbitrary<Step> = fc
  .record({
    key: fc.tuple(pick(...namespaceNames), pick('one', 'two')).map((names) => names.join('/')),
    podSelector: selector,
    policyTypes: pick(['Ingress'], ['Egress'], ['Ingress', 'Egress']),
    ingress: rules('from'),
    egress: rules('to'),
  })
  .map(({ key, ...spec }) => ({ put: 'NetworkPolicy', key, spec }));

const clusterPods = fc.oneof(
  namespaceSelector.map((namespaces) => ({ namespaces })),
  fc.record({ namespaceSelector, podSelector: selector }).map((pods) => ({ pods })),
);
const clusterProtocol = pick(
  { tcp: {} },
  { udp: {} },
  { tcp: { destinationPort: { number: openPort } } },
  { tcp: { destinationPort: { range: { start: 81, end: 9000 } } } },
  { udp: { destinationPort: { number: openPort } } },
  { destinationNamedPort: 'tcp' },
);
const clusterRules = (field: 'from' | 'to', peers: fc.Arbitrary<object>) =>
  fc.array(
    fc
      .record({
        action: pick('Accept', 'Deny', 'Pass'),
        peers: some(peers, 2),
        protocols: fc.option(some(clusterProtocol, 2), { nil: undefined }),
      })
      .map(({ action, peers: all, protocols }) => ({ action, [field]: all, ...(protocols && { protocols }) })),
    { maxLength: 2 },
  );
const clusterPolicy: fc.Arbitrary<Step> = fc
  .record({
    key: pick('north', 'south', 'east'),
    tier: pick('Admin', 'Baseline'),
    priority: pick(0, 1, 2),
    subject: clusterPods,
    ingress: clusterRules('from', clusterPods),
    egress: clusterRules(
      'to',
      fc.oneof(
        clusterPods,
        some(network, 2).map((all) => ({ networks: [...new Set(all)] })),
      ),
    ),
  })
  .map(({ key, ...spec }) => ({ put: 'ClusterNetworkPolicy', key, spec }));

const service: fc.Arbitrary<Step> = fc
  .record({
    key: pick(...serviceNames),
    selector: fc.dictionary(pick('app', 'tier'), pick('a', 'b', 'c'), { minKeys: 1, maxKeys: 1 }),
    port: pick(...servicePorts),
    targetPort: pick<number | string>(openPort, 'tcp'),
    internalTrafficPolicy: pick('Cluster', 'Cluster', 'Local'),
  })
  .map(({ key, port, targetPort, ...spec }) => ({
    put: 'Service',
    key,
    spec: {
      ...spec,
      ipFamilyPolicy: 'RequireDualStack',
      ipFamilies: ['IPv4', 'IPv6'],
      ports: [{ name: 'web', protocol: 'TCP', port, targetPort }],
    },
  }));

const relabel: fc.Arbitrary<Step> = fc.oneof(
  { weight: 3, arbitrary: fc.record({ relabel: fc.constant('Pod' as const), key: pick(...podKeys), labels }) },
  { weight: 1, arbitrary: fc.record({ relabel: fc.constant('Namespace' as const), key: pick(...namespaceNames), labels }) },
);

/** Proposals of one to three changes. Every fourth change removes an object, or else most connections are soon denied. */
export const proposals: fc.Arbitrary<readonly Step[]> = fc.uniqueArray(
  fc.oneof(
    { weight: 4, arbitrary: networkPolicy },
    { weight: 2, arbitrary: clusterPolicy },
    { weight: 3, arbitrary: service },
    { weight: 3, arbitrary: relabel },
    { weight: 4, arbitrary: fc.record({ remove: fc.nat(1_000) }) },
  ),
  { minLength: 1, maxLength: 3, selector: (step) => ('key' in step ? step.key : `${step.remove}`) },
);
