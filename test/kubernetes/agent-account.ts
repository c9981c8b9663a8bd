import { KubeApi } from '../../lab/kube/kube-api.ts';
import { readKubeconfig } from '../../lab/kube/kubeconfig.ts';
import { labPaths } from '../../lab/plan/names.ts';
import type { RealCluster } from './cluster.ts';

const tokenFile = '/var/run/secrets/kubernetes.io/serviceaccount/token';

/**
 * Sends a request to the API server as the agent of a node, with the token that the kubelet gave to its pod. Resolves to the reason of the
 * rejection, or `done`.
 */
export async function asAgentOf(
  cluster: RealCluster,
  node: string,
): Promise<(method: 'GET' | 'PATCH' | 'DELETE', path: string, body?: object) => Promise<string>> {
  const pod = await cluster.podOf('seine-agent', node);
  const token = await cluster.kubectl('-n', 'seine-system', 'exec', pod, '-c', 'agent', '--', 'cat', tokenFile);
  const { certificatePem: _, keyPem: __, ...access } = await readKubeconfig(labPaths(cluster.plan.dir).kubeconfig);
  return async (method, path, body) => {
    const api = new KubeApi({ ...access, token });
    try {
      await api.send({ method, path, ...(body && { body }), ...(method === 'PATCH' && { contentType }) }, cluster.signal);
      return 'done';
    } catch (thrown) {
      return String(thrown);
    } finally {
      api.close();
    }
  };
}

const contentType = 'application/strategic-merge-patch+json';
