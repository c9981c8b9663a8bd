import { agentName } from '../../build/manifests/access.ts';
import { namespace } from '../../build/manifests/options.ts';
import { run } from '../../src/lab/process.ts';

/** A token of the agents' service account that names a node, as the one of the agent's pod there does. */
export async function agentToken(kubeconfig: string, nodeName: string, signal: AbortSignal): Promise<string> {
  const path = `/api/v1/namespaces/${namespace}/serviceaccounts/${agentName}/token`;
  const spec = { audiences: [], boundObjectRef: { kind: 'Node', apiVersion: 'v1', name: nodeName } };
  const input = JSON.stringify({ apiVersion: 'authentication.k8s.io/v1', kind: 'TokenRequest', spec });
  const answer = await run('kubectl', ['--kubeconfig', kubeconfig, 'create', '--raw', path, '-f', '-'], { input }, signal);
  return (JSON.parse(answer) as { readonly status: { readonly token: string } }).status.token;
}
