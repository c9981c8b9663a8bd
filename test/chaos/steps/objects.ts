import type { ApiObject } from '../api.ts';
import { labelSelector, portsOf } from '../policy-words.ts';
import type { Random } from '../random.ts';
import { keyOf, namespaces, pathOf, type Scene } from '../scene.ts';
import type { Deed, StepKind } from '../step.ts';

const apps = ['web', 'db', 'cli', 'unused'] as const;
const policiesMost = 6;
const fakeNodesMost = 3;

function change(name: string, draw: (scene: Scene, random: Random) => Deed | undefined): StepKind {
  return { name, changes: 'objects', deadline: 'announced', draw };
}

function deed(object: ApiObject, text: string, act: () => Promise<unknown>): Deed {
  return { what: `${keyOf(object)} ${text}`.trim(), act };
}

function drawPeer(policy: string, random: Random): object {
  const selector = labelSelector(policy);
  const pods = { podSelector: random.chance(0.3) ? {} : selector('app', random.pick(apps)) };
  const of = { namespaceSelector: random.chance(0.3) ? {} : selector('team', random.pick(['shop', 'depot', 'other'])) };
  const block = { ipBlock: { cidr: random.pick(['0.0.0.0/0', '192.168.77.0/24', '10.244.0.0/16', '::/0']) } };
  return random.pick<object>([pods, of, { ...pods, ...of }, block]);
}

function drawPolicy(name: string, namespace: string, random: Random): ApiObject {
  const rule = (side: 'from' | 'to'): object => ({
    ...(random.chance(0.8) && { [side]: Array.from({ length: 1 + random.below(2) }, () => drawPeer(name, random)) }),
    ...(random.chance(0.5) && {
      ports: [{ protocol: random.pick(['TCP', 'UDP']), ...portsOf(name, random.pick<number | string>([80, 81, 'tcp', 'udp'])) }],
    }),
  });
  const rules = (side: 'from' | 'to'): object[] => Array.from({ length: random.below(3) }, () => rule(side));
  const policyTypes = random.some(['Ingress', 'Egress'] as const);
  return {
    metadata: { name, namespace },
    spec: {
      podSelector: random.chance(0.3) ? {} : labelSelector(name)('app', random.pick(apps)),
      policyTypes,
      ...(policyTypes.includes('Ingress') && { ingress: rules('from') }),
      ...(policyTypes.includes('Egress') && { egress: rules('to') }),
    },
  };
}

const policyCreated = change('policy.created', ({ lab, policies }, random) => {
  const namespace = random.pick(namespaces);
  const policy = drawPolicy(`p${random.below(policiesMost)}`, namespace, random);
  if (policies.some((known) => keyOf(known) === keyOf(policy))) return undefined;
  const collection = `/apis/networking.k8s.io/v1/namespaces/${namespace}/networkpolicies`;
  return deed(policy, JSON.stringify(policy.spec), () => lab.api.create(collection, policy));
});

const policyChanged = change('policy.changed', ({ lab, policies }, random) => {
  const policy = random.maybe(policies);
  if (policy === undefined) return undefined;
  const { spec } = drawPolicy(policy.metadata.name, policy.metadata.namespace ?? '', random);
  return deed(policy, JSON.stringify(spec), () => lab.api.replace(pathOf('networkpolicies', policy), { ...policy, ...(spec && { spec }) }));
});

const policyDeleted = change('policy.deleted', ({ lab, policies }, random) => {
  const policy = random.maybe(policies);
  return policy && deed(policy, '', () => lab.api.delete(pathOf('networkpolicies', policy)));
});

const namespaceRelabelled = change('namespace.relabelled', ({ lab }, random) => {
  const [name, team] = [random.pick(namespaces), random.pick(['shop', 'depot', 'other'])];
  return { what: `${name} is of ${team}`, act: () => lab.api.patch(`/api/v1/namespaces/${name}`, { metadata: { labels: { team } } }) };
});

const podRelabelled = change('pod.relabelled', ({ lab, podObjects }, random) => {
  const [pod, app] = [random.maybe(podObjects), random.pick(apps)];
  return pod && deed(pod, `is ${app}`, () => lab.api.patch(pathOf('pods', pod), { metadata: { labels: { app } } }));
});

/** Changes the selector, the ports' targets, or the choice of endpoints. */
const serviceChanged = change('service.changed', ({ lab, services }, random) => {
  const service = random.maybe(services);
  const spec = random.pick<object>([
    { selector: { app: random.pick(apps) } },
    // With the dependent fields: it is invalid without them.
    { sessionAffinity: random.pick(['None', 'ClientIP']), sessionAffinityConfig: null },
    { internalTrafficPolicy: random.pick(['Cluster', 'Local']) },
    { publishNotReadyAddresses: random.chance(0.5) },
    { ports: [{ name: 'changed', protocol: random.pick(['TCP', 'UDP']), port: 80 + random.below(4), targetPort: 80 + random.below(2) }] },
  ]);
  return service && deed(service, JSON.stringify(spec), () => lab.api.patch(pathOf('services', service), { spec }));
});

/** Two Services exchange their addresses: each is deleted and recreated with the other's. */
const servicesSwapped = change('service.swapped', ({ lab, services }, random) => {
  const [one, other] = [random.maybe(services), random.maybe(services)];
  if (one === undefined || other === undefined || one === other) return undefined;
  const { clusterIP: first, clusterIPs: firsts } = one.spec ?? {};
  const { clusterIP: second, clusterIPs: seconds } = other.spec ?? {};
  if (!Array.isArray(firsts) || !Array.isArray(seconds) || firsts.length !== seconds.length) return undefined;
  const again = ({ metadata: { name, namespace }, spec }: ApiObject, addresses: object) =>
    lab.api.create(`/api/v1/namespaces/${namespace}/services`, {
      metadata: { name, ...(namespace && { namespace }) },
      spec: { ...spec, ...addresses },
    });
  return deed(one, `and ${keyOf(other)}`, async () => {
    await Promise.all([one, other].map((service) => lab.api.delete(pathOf('services', service))));
    await again(one, { clusterIP: second, clusterIPs: seconds });
    await again(other, { clusterIP: first, clusterIPs: firsts });
  });
});

const nodeCreated = change('node.created', ({ lab, nodes }, random) => {
  const number = 10 + random.below(fakeNodesMost);
  if (nodes.some(({ metadata }) => metadata.name === `far-${number}`)) return undefined;
  const cidrs = [`10.244.${number * 4}.0/22`, `fd00:10:244:${number.toString(16)}::/64`];
  const node = { metadata: { name: `far-${number}` }, spec: { podCIDR: cidrs[0], podCIDRs: cidrs } };
  return deed(node, '', async () => {
    await lab.api.create('/api/v1/nodes', node);
    await lab.api.patch(`/api/v1/nodes/far-${number}/status`, addressed(number));
  });
});

const farNodes = ({ nodes }: Scene): ApiObject[] => nodes.filter(({ metadata }) => metadata.name.startsWith('far-'));

const nodeMoved = change('node.address', (scene, random) => {
  const node = random.maybe(farNodes(scene));
  const number = 20 + random.below(50);
  return node && deed(node, String(number), () => scene.lab.api.patch(`${pathOf('nodes', node)}/status`, addressed(number)));
});

const nodeDeleted = change('node.deleted', (scene, random) => {
  const node = random.maybe(farNodes(scene));
  return node && deed(node, '', () => scene.lab.api.delete(pathOf('nodes', node)));
});

function addressed(number: number): object {
  const addresses = [`192.168.77.${number}`, `fd00:77::${number}`].map((address) => ({ type: 'InternalIP', address }));
  return { status: { addresses } };
}

export const objectSteps: readonly StepKind[] = [
  policyCreated,
  policyChanged,
  policyDeleted,
  namespaceRelabelled,
  podRelabelled,
  serviceChanged,
  servicesSwapped,
  nodeCreated,
  nodeMoved,
  nodeDeleted,
];
