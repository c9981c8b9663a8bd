import { seineVersion } from '../../api/version.ts';
import { SeineError } from '../../base/errors/seine-error.ts';
import type { KubeAccess } from '../../kubernetes/client/config.ts';
import { KubeHttp } from '../../kubernetes/client/http-client.ts';
import { fromManifests, type ManifestDocument } from '../../policy/reach/from-manifests.ts';
import { keyOf } from '../../policy/reach/objects.ts';
import type { SimulatedObjects } from '../../simulate/objects/cluster-objects.ts';
import { completedCluster } from '../../simulate/objects/completed-cluster.ts';
import { itemsOf, type Proposal } from '../../simulate/what-if/proposal.ts';
import { type WhatIf, whatIf } from '../../simulate/what-if/what-if.ts';
import { safeText } from '../escape.ts';
import { readClusterObjects } from '../fleet/cluster-objects.ts';
import { usersAccess } from '../fleet/kubeconfig.ts';
import type { ProcessVariables } from '../fleet/kubeconfig-files.ts';
import type { OutputForm } from '../output.ts';
import { readBundleObjects } from '../reach/bundle-objects.ts';
import { readManifests } from '../reach/sources.ts';
import type { Terminal } from '../terminal.ts';
import { dryRun } from './dry-run.ts';
import { noEvidence, usedRules } from './used-rules.ts';
import { reportWhatIf, type WhatIfContextTexts, whatIfExitCodes } from './what-if-report.ts';

export interface WhatIfFlags {
  readonly filename?: readonly string[];
  readonly delete?: readonly string[];
  readonly objects?: readonly string[];
  readonly bundle?: string;
  readonly kubeconfig?: string;
  readonly context?: string;
  readonly namespace: string;
  readonly dryRun: boolean;
  readonly used: boolean;
  /** Seconds. */
  readonly since: number;
  readonly output: OutputForm;
}

/** Time limit for all objects (ms). */
const OBJECTS_TIMEOUT_MS = 300_000;

/** Objects of a cluster, and what could not be read of them. */
interface KnownCluster {
  readonly objects: SimulatedObjects;
  /** Sentences. */
  readonly missing: readonly string[];
}

/** `seinectl whatif`. @returns the exit code */
export async function runWhatIf(flags: WhatIfFlags, terminal: Terminal, env: ProcessVariables): Promise<number> {
  try {
    const removed = flags.delete ?? [];
    const documents = (flags.filename ?? []).flatMap(readManifests).flatMap(itemsOf);
    if (documents.length === 0 && removed.length === 0)
      throw new SeineError('INVALID_INPUT', 'nothing is proposed: use -f FILE or --delete KIND/NAMESPACE/NAME');
    const known = await knownObjects(flags, documents);
    return await (known ? offline(flags, documents, known, terminal) : online(flags, documents, terminal, env));
  } catch (thrown) {
    const error = SeineError.from(thrown, 'seinectl whatif');
    if (error.code === 'INVARIANT') throw error;
    terminal.remark(safeText(`seinectl: ${error.rawMessage}`));
    return error.code === 'INVALID_INPUT' ? whatIfExitCodes.usage : whatIfExitCodes.incomplete;
  }
}

/** Returns the objects of files or of a bundle; undefined if the cluster is to be asked. */
async function knownObjects(
  { objects, bundle, delete: removed = [] }: WhatIfFlags,
  documents: readonly ManifestDocument[],
): Promise<KnownCluster | undefined> {
  if (objects) return fromFiles(objects);
  return bundle === undefined ? undefined : await fromBundle(bundle, documents, removed);
}

function offline(
  flags: WhatIfFlags,
  documents: readonly ManifestDocument[],
  { objects, missing }: KnownCluster,
  terminal: Terminal,
): number {
  const result = whatIf(objects, { documents, removed: flags.delete ?? [] });
  return reportWhatIf(
    result,
    { missing, remarks: [], used: noEvidence('no cluster was asked'), services: new Map() },
    flags.output,
    terminal,
  );
}

function fromFiles(paths: readonly string[]): KnownCluster {
  const { objects, served } = fromManifests(paths.flatMap(readManifests));
  return { objects: completedCluster({ ...objects, ...served }), missing: [] };
}

async function fromBundle(bundle: string, documents: readonly ManifestDocument[], removed: readonly string[]): Promise<KnownCluster> {
  const { objects, lacks } = await readBundleObjects(bundle);
  const needsServices =
    documents.some(({ object }) => /^(?:Service|EndpointSlice|Pod)$/.test(kindOf(object))) ||
    removed.some((text) => /^(?:service|endpointslice)\//i.test(text));
  return { objects, missing: needsServices ? lacks.map((lack) => `${lack}; clients of changed Services are not compared`) : [] };
}

function kindOf(object: unknown): string {
  return typeof object === 'object' && object !== null && 'kind' in object ? String(object.kind) : '';
}

async function online(
  flags: WhatIfFlags,
  documents: readonly ManifestDocument[],
  terminal: Terminal,
  env: ProcessVariables,
): Promise<number> {
  const { dryRun: isTried, used, since: sinceSeconds, namespace } = flags;
  const options = { isTried, isUseAsked: used, sinceSeconds, namespace };
  const found = await clusterWhatIf(usersAccess(flags, env), { documents, removed: flags.delete ?? [] }, options);
  return reportWhatIf(found.result, found.texts, flags.output, terminal);
}

interface ClusterWhatIfOptions {
  /** True if the API server runs the proposal as a dry run first. */
  readonly isTried: boolean;
  /** True if agents are asked how much connections were used. */
  readonly isUseAsked: boolean;
  readonly sinceSeconds: number;
  /** Namespace of the agents. */
  readonly namespace: string;
}

/** Effect of a proposal on a cluster, and what is known about it. */
interface FoundEffect {
  readonly result: WhatIf;
  readonly texts: WhatIfContextTexts;
}

/**
 * Computes the effect of a proposal on the cluster of a kubeconfig.
 *
 * @throws SeineError `INVALID_INPUT` for the proposal, `REFUSED` for a right, `UNAVAILABLE`
 */
export async function clusterWhatIf(
  access: KubeAccess,
  { documents, removed }: Proposal,
  { isTried, isUseAsked, sinceSeconds, namespace }: ClusterWhatIfOptions,
): Promise<FoundEffect> {
  const userAgent = `seinectl/${seineVersion}`;
  const http = new KubeHttp(access, userAgent);
  const signal = AbortSignal.timeout(OBJECTS_TIMEOUT_MS);
  try {
    const { objects, missing } = await fromCluster(http, signal);
    const tried = isTried ? await dryRun(http, documents, signal) : { documents, remarks: [] };
    const result = whatIf(objects, { documents: tried.documents, removed });
    const used = isUseAsked
      ? await usedRules(result, { http, access, userAgent, namespace, sinceSeconds, signal })
      : noEvidence('not asked (--no-used)');
    const services = new Map(objects.services.flatMap((each) => (each.spec.clusterIPs ?? []).map((ip) => [ip, keyOf(each)] as const)));
    return { result, texts: { missing, remarks: tried.remarks, used, services } };
  } finally {
    http.close();
  }
}

const essential = new Set(['pods', 'namespaces', 'networkPolicies']);

async function fromCluster(http: KubeHttp, signal: AbortSignal): Promise<KnownCluster> {
  const missing: string[] = [];
  const objects = await readClusterObjects(http, signal, (kind, thrown) => {
    const error = SeineError.from(thrown, `list ${kind}`);
    if (error.code !== 'REFUSED' || essential.has(kind)) throw error;
    missing.push(`${kind} could not be listed: ${error.rawMessage}`);
  });
  return { objects, missing };
}
