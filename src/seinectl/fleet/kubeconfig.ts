import { SeineError } from '../../base/errors/seine-error.ts';
import { type KubeAccess, loadKubeAccess } from '../../kubernetes/client/config.ts';
import { kubeconfigPaths, type ProcessVariables } from './kubeconfig-files.ts';

interface KubeconfigChoice {
  readonly kubeconfig?: string;
  readonly context?: string;
}

/**
 * Determines cluster and credentials like kubectl: the named file, else those of `KUBECONFIG`, else `~/.kube/config`, else the service
 * account of the pod that this runs in.
 *
 * @throws SeineError `INVALID_INPUT` if there is none, or it cannot be used
 */
export function usersAccess({ kubeconfig, context }: KubeconfigChoice, env: ProcessVariables): KubeAccess {
  const chosen = context === undefined ? {} : { context };
  const [path, ...further] = kubeconfig === undefined ? kubeconfigPaths(env) : [kubeconfig];
  if (path !== undefined) return loadKubeAccess({ from: 'file', path, further, ...chosen });
  if ((env['KUBERNETES_SERVICE_HOST'] ?? '') !== '') return loadKubeAccess({ from: 'cluster' });
  throw new SeineError('INVALID_INPUT', 'no kubeconfig: neither --kubeconfig nor KUBECONFIG names one, and ~/.kube/config does not exist');
}
