import { SeineError } from '../../base/errors/seine-error.ts';
import { fromManifests } from '../../policy/reach/from-manifests.ts';
import type { BundledNode } from '../../simulate/cluster/bundled-node.ts';
import type { ClusterSettings } from '../../simulate/cluster/node-compiler.ts';
import { SimulatedCluster } from '../../simulate/cluster/simulated-cluster.ts';
import { readManifests } from '../reach/sources.ts';
import { type ReadBundle, readBundle } from '../trace/read-bundle.ts';
import { count } from '../words.ts';

/** Files of a simulation: manifests, or support bundles of nodes of one cluster. */
export type SimulationFiles = { readonly manifests: readonly string[] } | { readonly bundles: readonly string[] };

export interface SimulationSource {
  readonly cluster: SimulatedCluster;
  /** Nodes whose own flows are known; none for manifests. */
  readonly recorded: ReadonlyMap<string, BundledNode>;
  /** Objects that the bundles do not have, and entries that differ; a sentence each. */
  readonly lacks: readonly string[];
  readonly remarks: readonly string[];
}

/** Reads the objects of a simulation. @throws SeineError `INVALID_INPUT` with the file and the field */
export async function simulationOf(files: SimulationFiles): Promise<SimulationSource> {
  if ('bundles' in files) return await ofBundles(files.bundles);
  const { objects, served } = fromManifests(files.manifests.flatMap(readManifests));
  return { cluster: new SimulatedCluster({ ...objects, ...served }), recorded: new Map(), lacks: [], remarks: [] };
}

/** The same of support bundles. */
export async function ofBundles(paths: readonly string[]): Promise<SimulationSource> {
  const bundles: ReadBundle[] = [];
  for (const path of paths) bundles.push(await readBundle(path));
  const recorded = new Map(bundles.map(({ node }) => [node.name, node]));
  if (recorded.size < bundles.length) throw new SeineError('INVALID_INPUT', '--bundle: two bundles are of the same node');
  const known = bundles.filter(({ known: objects }) => objects !== undefined);
  const [best] = [...known.filter((each) => each.known?.lacks.length === 0), ...known];
  if (best?.known === undefined) {
    const reasons = bundles.flatMap(({ lack }) => lack ?? []).map((lack) => `: ${lack}`);
    throw new SeineError('INVALID_INPUT', `--bundle: no bundle has the objects of the cluster${reasons[0] ?? ''}`);
  }
  return {
    cluster: new SimulatedCluster(best.known.objects, settingsOf(best.node)),
    recorded,
    lacks: best.known.lacks,
    remarks: bundles.map(comparison),
  };
}

/** Settings that all nodes have, from one node. */
function settingsOf({ environment: { tunnel, serviceCidrs, policyMode, denied } }: BundledNode): ClusterSettings {
  return { tunnel, serviceCidrs, ...(policyMode && { policyMode }), ...(denied && { denied }) };
}

/** States whether the flows that a node had are those that its inputs compile to. */
function comparison({ path, node, isSteady }: ReadBundle): string {
  const { name, compiled, differences } = node;
  const when = isSteady ? '' : ', which were recorded while the node was changing';
  if (differences === 0) return `the bridge of ${name} had the ${count(compiled.size, 'entry', 'entries')} of its inputs${when}`;
  return `${count(differences, 'entry', 'entries')} of the bridge of ${name} differed from its inputs${when}: seinectl compile ${path} --check`;
}
