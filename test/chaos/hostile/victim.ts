import type { ApiObject } from '../api.ts';
import { until } from '../host.ts';
import type { Lab, LabPod } from '../lab.ts';
import { annotationsOf } from '../pod-interfaces.ts';
import { hostileNamespace, rogueNode } from './actors.ts';

/** Namespace that the attackers must not harm. */
export const victimNamespace = 'victim';
/** Addresses of a load balancer, which does not exist in the lab. */
export const loadBalancerAddresses = ['198.18.200.1', '2001:db8:198::200:1'] as const;
const podsReadyMs = 120_000;

interface NamedPod {
  readonly namespace: string;
  readonly name: string;
  readonly node: string;
  readonly app: string;
}

/** With mixed interfaces, both kinds are among them. */
function podsOf({ tried, other }: Lab): readonly NamedPod[] {
  const on = (node: string, namespace: string, ...names: readonly string[]): NamedPod[] =>
    names.map((name) => ({ namespace, name, node, app: name.replace(/-\d+$/, '') }));
  return [
    ...on(tried.name, victimNamespace, 'server-1', 'open-1', 'client-1', 'inner-1'),
    ...on(other.name, victimNamespace, 'server-2', 'open-2', 'client-2'),
    ...on(tried.name, hostileNamespace, 'attacker-1'),
    ...on(other.name, hostileNamespace, 'attacker-2'),
  ];
}

export function podObject({ namespace, name, node, app }: NamedPod): ApiObject {
  return {
    metadata: { namespace, name, labels: { app }, annotations: annotationsOf(name) },
    spec: {
      nodeSelector: { 'kubernetes.io/hostname': node },
      terminationGracePeriodSeconds: 1,
      containers: [{ name: 'responder', image: 'responder', ports: ['TCP', 'UDP'].map((protocol) => ({ containerPort: 80, protocol })) }],
    },
  };
}

const both = ['TCP', 'UDP'].map((protocol) => ({ name: protocol.toLowerCase(), protocol, port: 80 }));

function serviceObject(name: string, app: string, more: object): ApiObject {
  return {
    metadata: { namespace: victimNamespace, name },
    spec: { selector: { app }, ipFamilyPolicy: 'PreferDualStack', ports: both, ...more },
  };
}

/** Servers admit clients only; inner pods admit pods only. */
const policies: readonly ApiObject[] = [
  policyFor('server', { podSelector: { matchLabels: { app: 'client' } } }),
  policyFor('inner', { namespaceSelector: {} }),
];

function policyFor(app: string, from: object): ApiObject {
  return {
    metadata: { namespace: victimNamespace, name: `for-${app}` },
    spec: { podSelector: { matchLabels: { app } }, policyTypes: ['Ingress'], ingress: [{ from: [from] }] },
  };
}

/** A client on the rogue Node, which has no host: the Node's credentials set its addresses. */
const pretendedClient: ApiObject = {
  metadata: { namespace: victimNamespace, name: 'pretended-client', labels: { app: 'client' } },
  spec: { nodeName: rogueNode, terminationGracePeriodSeconds: 0, containers: [{ name: 'responder', image: 'responder' }] },
};

/** Objects before any attack. */
export interface Victim {
  readonly pods: readonly LabPod[];
  readonly attackers: readonly LabPod[];
  readonly services: readonly ApiObject[];
  /** Node port of the inner pods' Service, and the node they are on. */
  readonly innerNode: readonly string[];
}

/** Creates the pods of both sides, and the victim's Services and policy. */
export async function createVictim(lab: Lab): Promise<Victim> {
  const { api } = lab;
  await lab.createNamespace(victimNamespace);
  const wanted = podsOf(lab);
  for (const policy of policies) await api.create(`/apis/networking.k8s.io/v1/namespaces/${victimNamespace}/networkpolicies`, policy);
  await api.create(`/api/v1/namespaces/${victimNamespace}/pods`, pretendedClient);
  await Promise.all(wanted.map((pod) => api.create(`/api/v1/namespaces/${pod.namespace}/pods`, podObject(pod))));
  const created = (object: ApiObject): Promise<ApiObject> => api.create(`/api/v1/namespaces/${victimNamespace}/services`, object);
  await created(serviceObject('guarded', 'server', {}));
  await created(serviceObject('open', 'open', { type: 'LoadBalancer' }));
  await created(serviceObject('changing', 'open', {}));
  await created(serviceObject('inner', 'inner', { type: 'NodePort', externalTrafficPolicy: 'Local' }));
  const ingress = loadBalancerAddresses.map((ip) => ({ ip, ipMode: 'VIP' }));
  await api.patch(`/api/v1/namespaces/${victimNamespace}/services/open/status`, { status: { loadBalancer: { ingress } } });
  let found: readonly LabPod[] = [];
  const isThere = ({ namespace, name }: NamedPod): boolean =>
    found.some((pod) => pod.namespace === namespace && pod.name === name && pod.ips.length > 1);
  await until(
    async () => {
      found = (await lab.status()).pods;
      return wanted.every(isThere);
    },
    podsReadyMs,
    () => 'not all pods of the victim and the attackers have a network',
  );
  return {
    pods: found.filter(({ namespace }) => namespace === victimNamespace),
    innerNode: lab.tried.ip,
    attackers: found.filter(({ namespace }) => namespace === hostileNamespace),
    services: (await api.list(`/api/v1/namespaces/${victimNamespace}/services`)).toSorted((a, b) =>
      a.metadata.name < b.metadata.name ? -1 : 1,
    ),
  };
}
