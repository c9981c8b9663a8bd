import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { packageRoot } from '../../lab/machine/installation.ts';
import { type RunResult, runAnyway } from '../../lab/machine/process.ts';
import type { RealCluster } from './cluster.ts';

const program = join(packageRoot, 'dist', 'seinectl.mjs');
const namespace = 'default';

/** Host without an agent, with the kubeconfig of a ServiceAccount. */
export class Laptop {
  readonly #cluster: RealCluster;
  readonly #kubeconfig: string;

  private constructor(cluster: RealCluster, kubeconfig: string) {
    this.#cluster = cluster;
    this.#kubeconfig = kubeconfig;
  }

  /** Creates an account that may read objects and list nodes, and with `mayExec` also execute programs in the agents. */
  static async of(cluster: RealCluster, name: string, { mayExec }: { readonly mayExec: boolean }): Promise<Laptop> {
    const subjects = [{ kind: 'ServiceAccount', name, namespace }];
    const apiGroup = 'rbac.authorization.k8s.io';
    const apiVersion = `${apiGroup}/v1`;
    const roleRef = { apiGroup, kind: 'ClusterRole' };
    const readsNodes = { apiGroups: [''], resources: ['nodes'], verbs: ['get', 'list'] };
    const executes = { apiGroups: [''], resources: ['pods/exec'], verbs: ['create', 'get'] };
    await cluster.apply([
      { apiVersion: 'v1', kind: 'ServiceAccount', metadata: { name, namespace } },
      { apiVersion, kind: 'ClusterRole', metadata: { name: `${name}-nodes` }, rules: [readsNodes] },
      { apiVersion, kind: 'ClusterRoleBinding', metadata: { name: `${name}-view` }, roleRef: { ...roleRef, name: 'view' }, subjects },
      {
        apiVersion,
        kind: 'ClusterRoleBinding',
        metadata: { name: `${name}-nodes` },
        roleRef: { ...roleRef, name: `${name}-nodes` },
        subjects,
      },
      ...(mayExec
        ? [
            { apiVersion, kind: 'Role', metadata: { name, namespace: 'seine-system' }, rules: [executes] },
            {
              ...{ apiVersion, kind: 'RoleBinding', metadata: { name, namespace: 'seine-system' } },
              ...{ roleRef: { apiGroup, kind: 'Role', name }, subjects },
            },
          ]
        : []),
    ]);
    const token = (await cluster.kubectl('-n', namespace, 'create', 'token', name)).trim();
    const admin = JSON.parse(await cluster.kubectl('config', 'view', '--raw', '--minify', '-o', 'json')) as {
      readonly clusters: readonly { readonly name: string }[];
    };
    const context = { name, context: { cluster: admin.clusters[0]?.name, user: name } };
    const kubeconfig = join(cluster.folder, `${name}.kubeconfig`);
    writeFileSync(
      kubeconfig,
      JSON.stringify({ ...admin, users: [{ name, user: { token } }], contexts: [context], 'current-context': name }),
      {
        mode: 0o600,
      },
    );
    return new Laptop(cluster, kubeconfig);
  }

  async seinectl(...args: readonly string[]): Promise<RunResult> {
    if (!existsSync(program)) throw new Error(`${program} is missing: npm run build`);
    const env = { KUBECONFIG: this.#kubeconfig, SEINE_SOCKET: join(this.#cluster.folder, 'no-agent.sock') };
    return await runAnyway(process.execPath, [program, ...args], { env }, this.#cluster.signal);
  }
}
