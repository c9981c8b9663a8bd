import { SimulatedCluster } from '../../src/simulate/cluster/simulated-cluster.ts';
import { traceInCluster } from '../../src/simulate/cluster/simulated-trace.ts';
import { whatIf } from '../../src/simulate/what-if/what-if.ts';
import { clientsPolicy, generatedCluster } from './generated-cluster.ts';
import type { Measured } from './row.ts';
import type { SceneOptions } from './scenes.ts';

export const simulateRowNames = ['whatif.20k', 'simulate.load150k', 'simulate.first', 'simulate.trace'] as const;

const rounds = 3;
const traces = 10;

/** A change of one of 2,000 policies of 20,000 pods; a simulated cluster of 5,000 nodes, and packets over two of them. */
export async function simulateRows({ selected, print }: SceneOptions): Promise<readonly Measured[]> {
  const rows: Measured[] = [];
  if (selected('whatif.20k')) rows.push({ name: 'whatif.20k', unit: 'ms', ours: whatIfTimes(print) });
  if (simulateRowNames.slice(1).some(selected)) rows.push(...(await simulationTimes(print)));
  return rows.filter(({ name }) => selected(name));
}

function whatIfTimes(print: SceneOptions['print']): readonly number[] {
  const objects = generatedCluster({ nodes: 200, podsPerNode: 100, namespaces: 200, policies: 2_000, services: 1_000 });
  print('one of 2,000 policies of 20,000 pods is changed');
  const changed = { apiVersion: 'networking.k8s.io/v1', kind: 'NetworkPolicy', ...clientsPolicy(0, 200, 9_090) };
  return Array.from({ length: rounds }, () => {
    const startMs = performance.now();
    const { connections, disagreements } = whatIf(objects, { documents: [{ place: 'proposal', object: changed }], removed: [] });
    if (connections.length === 0 || disagreements.length > 0) throw new Error('the change has no effect, or it is not confirmed');
    return performance.now() - startMs;
  });
}

async function simulationTimes(print: SceneOptions['print']): Promise<readonly Measured[]> {
  const objects = generatedCluster({ nodes: 5_000, podsPerNode: 30, namespaces: 500, policies: 2_000, services: 5_000 });
  print(`a simulated cluster of ${objects.nodes.length} nodes and ${objects.pods.length} pods`);
  const startMs = performance.now();
  const cluster = new SimulatedCluster(objects);
  const loadedMs = performance.now();
  const [from = '', to = ''] = [0, 140_000].map((at) => {
    const { namespace, name } = objects.pods[at]?.metadata ?? {};
    return `${namespace}/${name}`;
  });
  await traceOverTwo(cluster, from, to);
  const firstMs = performance.now();
  for (let at = 0; at < traces; at++) await traceOverTwo(cluster, from, to);
  const later = (performance.now() - firstMs) / traces;
  return [
    { name: 'simulate.load150k', unit: 'ms', ours: [loadedMs - startMs] },
    { name: 'simulate.first', unit: 'ms', ours: [firstMs - loadedMs] },
    { name: 'simulate.trace', unit: 'ms', ours: [later] },
  ];
}

async function traceOverTwo(cluster: SimulatedCluster, from: string, to: string): Promise<void> {
  const first = await traceInCluster(cluster, cluster.firstNode(from, to), new URLSearchParams({ from, to, port: '8080' }));
  const leaving = first.traces[0]?.paths[0]?.bridge;
  if (leaving?.what !== 'tunnel') throw new Error(`the packet does not leave: ${JSON.stringify(leaving)}`);
  const { source, destination } = leaving.packet;
  await traceInCluster(cluster, leaving.to, new URLSearchParams({ from: `tunnel:${first.node}/${source}`, to: destination, port: '8080' }));
}
