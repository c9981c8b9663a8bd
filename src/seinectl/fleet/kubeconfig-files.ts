import { existsSync } from 'node:fs';
import { homedir } from 'node:os';
import { delimiter, join } from 'node:path';

export type ProcessVariables = Readonly<Record<string, string | undefined>>;

/** Returns the files of `KUBECONFIG`, else `~/.kube/config`. Missing files are ignored, as in kubectl. */
export function kubeconfigPaths(env: ProcessVariables): string[] {
  const listed = (env['KUBECONFIG'] ?? '').split(delimiter).filter((path) => path !== '');
  return (listed.length > 0 ? listed : [join(env['HOME'] ?? homedir(), '.kube', 'config')]).filter((path) => existsSync(path));
}
