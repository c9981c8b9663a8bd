import { basename } from 'node:path';
import { SeineError } from '../../base/errors/seine-error.ts';
import { keyOf } from '../../policy/reach/objects.ts';
import { traceOverCluster } from '../../simulate/cluster/cluster-trace.ts';
import { reachObjectsOf, type SimulatedObjects } from '../../simulate/objects/cluster-objects.ts';
import { matrixOf } from '../../simulate/views/policy-matrix.ts';
import { shownTrace } from '../../simulate/views/shown-trace.ts';
import type { FormNames } from '../../ui/answers/explained.ts';
import type { Aged } from '../../ui/answers/failure.ts';
import type { ShownSource } from '../../ui/answers/shown-source.ts';
import type { TracedFamily, TracedNode, TraceView } from '../../ui/answers/trace-view.ts';
import type { UiRoute } from '../../ui/server/ui-server.ts';
import { ofBundles, type SimulationSource } from '../simulate/simulated-source.ts';
import { exitCodeOf } from '../trace/trace-report.ts';
import { bundledExplanation, bundledNow, bundledTimeline, bundledTraffic, endOf } from './bundle-views.ts';
import { absentView, type BundleAnswers, readAnswers } from './shown-bundle.ts';
import { traceQuestionOf } from './trace-answer.ts';
import { bundledWhatIf } from './what-if-answer.ts';

const NAMES_MAX = 1_000;
const NO_CONNECTIONS = 'a bundle has sums of connections, and not the connections';

/** Support bundles that the page shows in place of a cluster. */
export interface ShownBundles {
  readonly answers: readonly BundleAnswers[];
  readonly simulation: SimulationSource;
}

/** @throws SeineError `INVALID_INPUT` that names the file */
export async function readShownBundles(paths: readonly string[]): Promise<ShownBundles> {
  const answers: BundleAnswers[] = [];
  for (const path of paths) answers.push(await readAnswers(path));
  return { answers, simulation: await ofBundles(paths) };
}

/** Questions of the page about support bundles, by path below `/api/`. No cluster and no agent is asked. */
export function bundleRoutes({ answers, simulation }: ShownBundles): Readonly<Record<string, UiRoute>> {
  const { objects } = simulation.cluster;
  const routes: Readonly<Record<string, (query: URLSearchParams) => unknown>> = {
    source: () => sourceOf(answers, simulation),
    now: () => bundledNow(answers),
    policy: (query) => matrixOf(reachObjectsOf(objects), namespaceIn(query)),
    explain: (query) => bundledExplanation(query, answers),
    traffic: (query) => bundledTraffic(query, answers),
    timeline: (query) => bundledTimeline(query, answers),
    used: () => {
      throw absentView('Used', [NO_CONNECTIONS]);
    },
    flows: () => {
      throw absentView('Last connections', [NO_CONNECTIONS]);
    },
    names: (query) => namesIn(query, objects),
  };
  return Object.fromEntries(Object.entries(routes).map(([name, route]) => [name, (query) => aged(answers, () => route(query))]));
}

/** Questions that the page asks by POST. */
export function bundleActions({ answers, simulation }: ShownBundles): Readonly<Record<string, UiRoute>> {
  return {
    trace: (query) => aged(answers, () => traceIn(query, simulation)),
    whatif: (query, _, text) => aged(answers, () => bundledWhatIf(query, text, simulation)),
  };
}

/** An answer has the age of the bundles. */
async function aged<T>(bundles: readonly BundleAnswers[], answer: () => T | Promise<T>): Promise<Aged<T>> {
  return { answer: await answer(), atMs: endOf(bundles) };
}

function sourceOf(answers: readonly BundleAnswers[], { lacks, remarks }: SimulationSource): ShownSource {
  return {
    kind: 'bundles',
    lacks,
    bundles: answers.map(({ path, node, manifest }, at) => ({
      ...{ file: basename(path), node, seine: manifest.seine, collected: manifest.ended, flows: remarks[at] ?? '' },
    })),
  };
}

function namespaceIn(query: URLSearchParams): string {
  const namespace = query.get('namespace') ?? '';
  if (namespace === '') throw new SeineError('INVALID_INPUT', 'namespace: a name is required');
  return namespace;
}

async function traceIn(query: URLSearchParams, { cluster, recorded, lacks }: SimulationSource): Promise<TraceView> {
  const { question, probe, at } = traceQuestionOf(query);
  if (probe || at !== undefined)
    throw new SeineError(
      'INVALID_INPUT',
      `${probe ? 'probe' : 'at'}: a bundle has the flows of one moment, and no agent that sends a packet`,
    );
  const { traces, meanings } = await traceOverCluster(cluster, question, { recorded, hasServices: lacks.length === 0 });
  const exitCode = exitCodeOf(traces, meanings);
  return { exitCode, traces: traces.map((trace, at) => withOrigins(shownTrace(trace, meanings[at] ?? []), recorded)) };
}

/** Names the nodes whose flows are not those of a bundle. */
function withOrigins(trace: TracedFamily, recorded: SimulationSource['recorded']): TracedFamily {
  const origin = 'Compiled from the objects: there is no bundle of this node.';
  const stageOf = (stage: TracedNode): TracedNode => (recorded.has(stage.node) ? stage : { ...stage, result: [...stage.result, origin] });
  return { ...trace, paths: trace.paths.map((path) => ({ ...path, stages: path.stages.map(stageOf) })) };
}

const kinds = {
  namespace: ({ namespaces }: SimulatedObjects) => namespaces.map(({ metadata }) => metadata.name),
  pod: ({ pods }: SimulatedObjects) => pods.map(keyOf),
  service: ({ services }: SimulatedObjects) => services.map(keyOf),
  node: ({ nodes }: SimulatedObjects) => nodes.map(({ metadata }) => metadata.name),
  policy: ({ networkPolicies }: SimulatedObjects) => networkPolicies.map(keyOf),
} as const;

/** Lists names for the forms; with `namespace` only those of it. */
function namesIn(query: URLSearchParams, objects: SimulatedObjects): FormNames {
  const asked = query.get('kind') ?? '';
  if (!Object.hasOwn(kinds, asked)) throw new SeineError('INVALID_INPUT', `kind: ${Object.keys(kinds).join(', ')}`);
  const namespace = query.get('namespace');
  const all = kinds[asked as keyof typeof kinds](objects).filter((name) => !namespace || name.startsWith(`${namespace}/`));
  return { names: all.toSorted().slice(0, NAMES_MAX), more: Math.max(0, all.length - NAMES_MAX) };
}
