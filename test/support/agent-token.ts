import { agentName } from '../../build/manifests/access.ts';
import { namespace } from '../../build/manifests/options.ts';
import { KubeApi } from '../../lab/kube/kube-api.ts';
import { readKubeconfig } from '../../lab/kube/kubeconfig.ts';

/** A token of the agents' service account that names a node, like that of the agent's pod there. */
export async function agentToken(kubeconfig: string, nodeName: string, signal: AbortSignal): Promise<string> {
  const path = `/api/v1/namespaces/${namespace}/serviceaccounts/${agentName}/token`;
  const spec = { audiences: [], boundObjectRef: { kind: 'Node', apiVersion: 'v1', name: nodeName } };
  const body = { apiVersion: 'authentication.k8s.io/v1', kind: 'TokenRequest', spec };
  const api = new KubeApi(await readKubeconfig(kubeconfig));
  try {
    const { status } = (await api.send({ method: 'POST', path, body }, signal)) as { readonly status: { readonly token: string } };
    return status.token;
  } finally {
    api.close();
  }
}
