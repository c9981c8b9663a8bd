import { ipFromValue, parseIp } from '../../src/base/net/ip.ts';
import type { NetworkPolicyObject, PodObject } from '../../src/policy/verify/reference/objects.ts';
import type { SimulatedObjects } from '../../src/simulate/objects/cluster-objects.ts';
import { namespaceObject, nodeObject, podObject, policyObject } from '../support/policy-cluster.ts';

interface ClusterSize {
  readonly nodes: number;
  readonly podsPerNode: number;
  /** Each namespace has ten workloads. */
  readonly namespaces: number;
  readonly policies: number;
  readonly services: number;
}

const workloads = 10;
const firstPodNetwork = parseIp('10.0.0.0').value;
const firstNode = parseIp('172.16.0.1').value;
const firstService = parseIp('172.30.0.1').value;

const list = <T>(length: number, make: (at: number) => T): T[] => Array.from({ length }, (_, at) => make(at));
const ip = (value: bigint): string => ipFromValue('ipv4', value).text;

/** A cluster of namespaces with workloads whose clients are other workloads. */
export function generatedCluster({ nodes, podsPerNode, namespaces, policies, services }: ClusterSize): SimulatedObjects {
  const nodeName = (at: number): string => `node-${String(at).padStart(4, '0')}`;
  const network = (at: number): bigint => firstPodNetwork + BigInt(at) * 256n;
  const workloadOf = (pod: number) => ({ namespace: pod % namespaces, workload: Math.floor(pod / namespaces) % workloads });
  const pods = list(nodes, (at) =>
    list(podsPerNode, (index): PodObject => {
      const number = at * podsPerNode + index;
      const { namespace, workload } = workloadOf(number);
      const labels = { app: `app-${workload}` };
      return podObject(`team-${namespace}/app-${workload}-${number}`, [ip(network(at) + BigInt(index + 2))], {
        node: nodeName(at),
        labels,
      });
    }),
  ).flat();
  const byWorkload = Map.groupBy(pods, ({ metadata: { namespace, labels } }) => `${namespace}/${labels?.['app']}`);
  return {
    nodes: list(nodes, (at) => nodeObject(nodeName(at), [`${ip(network(at))}/24`], [ip(firstNode + BigInt(at))])),
    namespaces: list(namespaces, (at) => namespaceObject(`team-${at}`, { tenant: `t${at % 50}` })),
    pods,
    networkPolicies: list(policies, (at) => clientsPolicy(at, namespaces)),
    clusterNetworkPolicies: [],
    services: list(services, (at) => ({
      metadata: { namespace: `team-${at % namespaces}`, name: `app-${Math.floor(at / namespaces) % workloads}` },
      spec: { clusterIPs: [ip(firstService + BigInt(at))], ports: [{ port: 80 }] },
    })),
    slices: list(services, (at) => {
      const [namespace, name] = [`team-${at % namespaces}`, `app-${Math.floor(at / namespaces) % workloads}`];
      const own = byWorkload.get(`${namespace}/${name}`) ?? [];
      return {
        metadata: { namespace, name: `${name}-1`, labels: { 'kubernetes.io/service-name': name } },
        addressType: 'IPv4',
        endpoints: own.slice(0, 10).map(({ spec, status }) => ({
          addresses: [status.podIPs?.[0]?.ip ?? ''],
          ...(spec.nodeName === undefined ? {} : { nodeName: spec.nodeName }),
          conditions: { ready: true },
        })),
        ports: [{ protocol: 'TCP', port: 8080 }],
      };
    }),
  };
}

/** Policy that isolates one workload for the next one of its namespace, and for a tenant. @param port port that it allows */
export function clientsPolicy(at: number, namespaces: number, port = 8080): NetworkPolicyObject {
  const workload = Math.floor(at / namespaces) % workloads;
  return policyObject(`team-${at % namespaces}/clients-${Math.floor(at / namespaces)}`, {
    podSelector: { matchLabels: { app: `app-${workload}` } },
    ingress: [
      { from: [{ podSelector: { matchLabels: { app: `app-${(workload + 1) % workloads}` } } }], ports: [{ port }] },
      {
        from: [{ namespaceSelector: { matchLabels: { tenant: `t${at % 50}` } }, podSelector: { matchLabels: { app: 'app-0' } } }],
        ports: [{ port }],
      },
    ],
  });
}
