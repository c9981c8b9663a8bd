import type { RealCluster } from './cluster.ts';

/** Changes of an installation to a node, one line each, by the tools of the system; the same before and after. */
export async function nodeState(cluster: RealCluster, node: string): Promise<Readonly<Record<string, readonly string[]>>> {
  const lines = async (...command: readonly string[]) => (await cluster.onNode(node, ...command)).split('\n').map((line) => line.trim());
  const sorted = (all: readonly string[]) => all.filter((line) => line !== '').toSorted();
  const links = (await lines('ip', '-br', 'link')).map((line) => line.split(/[\s@]/)[0] ?? '');
  const routes = [...(await lines('ip', '-4', 'route')), ...(await lines('ip', '-6', 'route'))];
  const files = 'find /etc/cni/net.d /opt/cni/bin /run/seine /var/lib/seine -mindepth 1';
  return {
    interfaces: sorted(links),
    // The carrier of a link is not Seine's.
    routes: sorted(routes.map((line) => line.replace(/ (linkdown|pref medium)/g, ''))),
    rules: sorted(await lines('ip', 'rule')),
    tables: sorted(await lines('nft', 'list', 'tables')),
    files: sorted(await lines('sh', '-c', files)),
  };
}
