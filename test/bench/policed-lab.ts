import { tables } from '../../src/dataplane/pipeline/tables.ts';
import { type BenchLab, until } from './bench-lab.ts';
import { type BenchPod, podNameOf, podNamespace } from './cni-side.ts';

export const pods = `/api/v1/namespaces/${podNamespace}/pods`;
export const policies = `/apis/networking.k8s.io/v1/namespaces/${podNamespace}/networkpolicies`;
const signal = new AbortController().signal;
const withinMs = 30_000;

export async function makeNamespace(lab: BenchLab): Promise<void> {
  await post(lab, '/api/v1/namespaces', { apiVersion: 'v1', kind: 'Namespace', metadata: { name: podNamespace } });
}

/** Creates an object through the lab's API server. */
export async function post(lab: BenchLab, path: string, body: object): Promise<void> {
  await lab.api.send({ method: 'POST', path, body }, signal);
}

/** A pod of a kind that the lab's kubelet does not support, and ignores. */
export function podObject(lab: BenchLab, pod: BenchPod, labels: Readonly<Record<string, string>>): object {
  const spec = { nodeName: lab.node.name, containers: [{ name: 'none', image: 'none', readinessProbe: { periodSeconds: 0 } }] };
  return { apiVersion: 'v1', kind: 'Pod', metadata: { name: podNameOf(pod), labels }, spec };
}

/** Allows pods of the namespace on these ports, and denies everything else. */
export function policyObject(name: string, matchLabels: Readonly<Record<string, string>>, ports: readonly number[]): object {
  const allowed = [{ podSelector: {} }];
  const rule = ports.map((port) => ({ protocol: 'TCP', port }));
  return {
    apiVersion: 'networking.k8s.io/v1',
    kind: 'NetworkPolicy',
    metadata: { name },
    spec: {
      podSelector: { matchLabels },
      policyTypes: ['Ingress', 'Egress'],
      ingress: [{ from: allowed, ports: rule }],
      egress: [{ to: allowed, ports: rule }],
    },
  };
}

/** Waits until this number of pods of the node have entry flows to a class: flows of a table that load something before they continue. */
export async function untilPoliced(lab: BenchLab, pods: number): Promise<void> {
  const isSo = async (): Promise<boolean> => {
    const dump = await lab.exec('ovs-ofctl', '-O', 'OpenFlow15', 'dump-flows', 'br-int', `table=${tables.ingressEntry.id}`);
    return dump.split(`goto_table:${tables.ingressLookup.id}`).length - 1 === pods;
  };
  await until(isSo, withinMs, `${pods} pods to be policed`);
}
