import { SeineError } from '../../base/errors/seine-error.ts';
import { failureLines } from '../../policy/cases/case-report.ts';
import { runTestCases, testCasesOf } from '../../policy/cases/test-cases.ts';
import { fromManifests, listItems, type ManifestDocument } from '../../policy/reach/from-manifests.ts';
import { documentsOf } from '../../policy/reach/manifest-documents.ts';
import { keyOf } from '../../policy/reach/objects.ts';
import type { ReachMatrix } from '../../ui/answers/policy-matrix.ts';
import type {
  LessonCheck,
  LessonResult,
  PacketQuestion,
  SimulatedSummary,
  SimulatorFile,
  TestView,
  WhatIfView,
} from '../../ui/answers/simulator.ts';
import type { TracedFamily, TraceView } from '../../ui/answers/trace-view.ts';
import { traceOverCluster } from '../cluster/cluster-trace.ts';
import { SimulatedCluster } from '../cluster/simulated-cluster.ts';
import { reachObjectsOf } from '../objects/cluster-objects.ts';
import { matrixOf } from '../views/policy-matrix.ts';
import { shownTrace } from '../views/shown-trace.ts';
import { whatIfView } from '../views/what-if-view.ts';
import { itemsOf } from '../what-if/proposal.ts';
import { whatIf } from '../what-if/what-if.ts';

/** Bytes of all files together: a tab of a browser has room for the objects of a cluster of 5,000 nodes. */
const BYTES_MAX = 200 * 1024 * 1024;
const NAMES_MAX = 1_000;
/** Exit code of `seinectl trace` for verdicts that differ. */
const DIFFERENT = 4;

/** The simulator of a page: one cluster, and questions about it. Methods throw SeineError `INVALID_INPUT` for what the user wrote. */
export class Simulation {
  readonly #nowMs: () => number;
  #cluster: SimulatedCluster | undefined;

  /** @param nowMs clock, for durations */
  constructor(nowMs: () => number) {
    this.#nowMs = nowMs;
  }

  /** Reads manifests, and makes them the cluster of later questions. */
  async load(files: readonly SimulatorFile[]): Promise<SimulatedSummary> {
    const startMs = this.#nowMs();
    const { cluster, ignored } = await clusterOf(files);
    await prepared(cluster);
    this.#cluster = cluster;
    const { nodes, pods, services, namespaces, networkPolicies, clusterNetworkPolicies = [] } = cluster.objects;
    return {
      nodes: nodes.length,
      pods: pods.length,
      services: services.length,
      policies: networkPolicies.length + clusterNetworkPolicies.length,
      namespaces: namespaces.map(({ metadata }) => metadata.name).toSorted(),
      podNames: pods.slice(0, NAMES_MAX).map(keyOf).toSorted(),
      serviceNames: services.slice(0, NAMES_MAX).map(keyOf).toSorted(),
      ignored: [...ignored].map(([kind, count]) => `${count} ${kind.split(' ')[1] ?? kind}`),
      milliseconds: this.#nowMs() - startMs,
    };
  }

  get #loaded(): SimulatedCluster {
    if (!this.#cluster) throw new SeineError('INVALID_INPUT', 'no objects are loaded');
    return this.#cluster;
  }

  async trace(question: PacketQuestion): Promise<TraceView> {
    const { traces, meanings } = await traceOverCluster(this.#loaded, question);
    const differs = traces.some(({ paths }, at) =>
      paths.some((path, way) => {
        const verdict = meanings[at]?.[way]?.verdict;
        return verdict !== undefined && verdict !== 'unknown' && verdict !== path.desired;
      }),
    );
    return { exitCode: differs ? DIFFERENT : 0, traces: traces.map((trace, at) => simulatedOnly(shownTrace(trace, meanings[at] ?? []))) };
  }

  matrix(namespace: string): ReachMatrix {
    return matrixOf(reachObjectsOf(this.#loaded.objects), namespace);
  }

  whatIf({ text, removed }: { readonly text: string; readonly removed: readonly string[] }): WhatIfView {
    const documents = documentsOf('proposal', text).flatMap(itemsOf);
    if (documents.length === 0 && removed.length === 0) throw new SeineError('INVALID_INPUT', 'nothing is proposed');
    return whatIfView(whatIf(this.#loaded.objects, { documents, removed }));
  }

  test(text: string): TestView {
    const cases = testCasesOf('test', documentsOf('test', text));
    const { results, coverage, rules } = runTestCases(cases, reachObjectsOf(this.#loaded.objects), this.#nowMs);
    return {
      cases: results.map((each) => {
        const passed = each.result.is === 'as expected' && each.result.disagreements.length === 0;
        return { text: each.text, passed, lines: passed ? [] : failureLines(each) };
      }),
      ...{ coverage, rules },
    };
  }

  /** Checks whether the loaded objects, those of a lesson with its answer, have the required verdicts. */
  async check(checks: readonly LessonCheck[]): Promise<LessonResult> {
    const cluster = this.#loaded;
    const results: LessonResult['checks'][number][] = [];
    for (const { text, expect, ...question } of checks) {
      const found = await verdictsOf(cluster, question);
      const passed = Array.isArray(found) && found.length > 0 && found.every((verdict) => verdict === expect);
      results.push({ text, passed, found: foundText(found), question });
    }
    return { passed: results.every(({ passed }) => passed), checks: results };
  }
}

/** A simulated node has the flows that its agent requires, and no Open vSwitch to compare them with. */
function simulatedOnly(trace: TracedFamily): TracedFamily {
  return { ...trace, paths: trace.paths.map((path) => ({ ...path, verdicts: path.verdicts.filter(({ of }) => of !== 'bridge') })) };
}

async function clusterOf(files: readonly SimulatorFile[]): Promise<{ cluster: SimulatedCluster; ignored: ReadonlyMap<string, number> }> {
  const size = files.reduce((sum, { content }) => sum + (typeof content === 'string' ? content.length : content.size), 0);
  if (size > BYTES_MAX) throw new SeineError('INVALID_INPUT', `the files have ${size} bytes, more than ${BYTES_MAX}`);
  const { objects, served, ignored } = fromManifests(released(await documentsIn(files)));
  if (objects.pods.length === 0)
    throw new SeineError('INVALID_INPUT', 'the objects have no pod: a Pod, Deployment, StatefulSet, DaemonSet or Job is needed');
  return { cluster: new SimulatedCluster({ ...objects, ...served }), ignored };
}

async function prepared(cluster: SimulatedCluster): Promise<void> {
  try {
    await cluster.prepare();
  } catch {
    // The objects are loaded nevertheless: a packet that reaches this node gets the error.
  }
}

/** In a function of its own, so that the texts can be collected while the cluster is made. */
async function documentsIn(files: readonly SimulatorFile[]): Promise<ManifestDocument[]> {
  const documents: ManifestDocument[] = [];
  for (const { name, content } of files) documents.push(...documentsOf(name, typeof content === 'string' ? content : await content.text()));
  return documents;
}

/** Yields the documents, and forgets each item of a list before the next: those of 150,000 pods have 80 MB, which can be collected meanwhile. */
function* released(documents: (ManifestDocument | undefined)[]): Iterable<ManifestDocument> {
  for (const [number, document] of documents.entries()) {
    if (!document) continue;
    documents[number] = undefined;
    const items = listItems(document.object);
    if (!items) yield document;
    else
      for (const [at, object] of items.entries()) {
        items[at] = undefined;
        yield { place: `${document.place} items[${at}]`, object };
      }
  }
}

/**
 * Verdicts about a packet, of compiled flows and of objects: equal unless the simulator has a bug. A text is the reason why there is no such
 * packet: an answer may remove one of its ends.
 */
async function verdictsOf(cluster: SimulatedCluster, question: PacketQuestion): Promise<readonly string[] | string> {
  try {
    return verdictsIn(await traceOverCluster(cluster, question));
  } catch (thrown) {
    const error = SeineError.from(thrown, 'simulate');
    if (error.code !== 'INVALID_INPUT') throw error;
    return error.rawMessage;
  }
}

function verdictsIn({ traces, meanings }: Awaited<ReturnType<typeof traceOverCluster>>): readonly string[] {
  return traces.flatMap(({ paths }, at) =>
    paths.flatMap(({ verdict }, way) => {
      const meaning = meanings[at]?.[way]?.verdict;
      return meaning === undefined || meaning === 'unknown' ? [verdict] : [verdict, meaning];
    }),
  );
}

function foundText(verdicts: readonly string[] | string): string {
  if (typeof verdicts === 'string') return verdicts;
  const found = [...new Set(verdicts)];
  return found.length === 0 ? 'no packet' : found.join(' and ');
}
