import { seineVersion } from '../../api/version.ts';
import { SeineError } from '../../base/errors/seine-error.ts';
import { KubeHttp } from '../../kubernetes/client/http-client.ts';
import { fromManifests, type ManifestDocument } from '../../policy/reach/from-manifests.ts';
import { keyOf } from '../../policy/reach/objects.ts';
import type { SimulatedObjects } from '../../simulate/objects/cluster-objects.ts';
import { completedCluster } from '../../simulate/objects/completed-cluster.ts';
import { itemsOf } from '../../simulate/what-if/proposal.ts';
import { whatIf } from '../../simulate/what-if/what-if.ts';
import { safeText } from '../escape.ts';
import { readClusterObjects } from '../fleet/cluster-objects.ts';
import { usersAccess } from '../fleet/kubeconfig.ts';
import type { ProcessVariables } from '../fleet/kubeconfig-files.ts';
import type { OutputForm } from '../output.ts';
import { readManifests, readObjects } from '../reach/sources.ts';
import type { Terminal } from '../terminal.ts';
import { dryRun } from './dry-run.ts';
import { noEvidence, usedRules } from './used-rules.ts';
import { reportWhatIf, whatIfExitCodes } from './what-if-report.ts';

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
    const isOffline = flags.objects !== undefined || flags.bundle !== undefined;
    return await (isOffline ? offline(flags, documents, terminal, env) : online(flags, documents, terminal, env));
  } catch (thrown) {
    const error = SeineError.from(thrown, 'seinectl whatif');
    if (error.code === 'INVARIANT') throw error;
    terminal.remark(safeText(`seinectl: ${error.rawMessage}`));
    return error.code === 'INVALID_INPUT' ? whatIfExitCodes.usage : whatIfExitCodes.incomplete;
  }
}

async function offline(
  flags: WhatIfFlags,
  documents: readonly ManifestDocument[],
  terminal: Terminal,
  env: ProcessVariables,
): Promise<number> {
  const { objects, missing } = flags.objects ? fromFiles(flags.objects) : await fromBundle(flags.bundle, documents, env);
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

async function fromBundle(
  bundle: string | undefined,
  documents: readonly ManifestDocument[],
  env: ProcessVariables,
): Promise<KnownCluster> {
  const { services: _, ...objects } = await readObjects({ ...(bundle === undefined ? {} : { bundle }) }, env);
  const needsServices = documents.some(({ object }) => /^(?:Service|EndpointSlice|Pod)$/.test(kindOf(object)));
  const missing = needsServices ? ['a bundle has no Services: clients of changed Services are not compared'] : [];
  return { objects: { ...objects, services: [], slices: [] }, missing };
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
  const access = usersAccess(flags, env);
  const userAgent = `seinectl/${seineVersion}`;
  const http = new KubeHttp(access, userAgent);
  const signal = AbortSignal.timeout(OBJECTS_TIMEOUT_MS);
  try {
    const { objects, missing } = await fromCluster(http, signal);
    const tried = flags.dryRun ? await dryRun(http, documents, signal) : { documents, remarks: [] };
    const result = whatIf(objects, { documents: tried.documents, removed: flags.delete ?? [] });
    const used = flags.used
      ? await usedRules(result, { http, access, userAgent, namespace: flags.namespace, sinceSeconds: flags.since, signal })
      : noEvidence('not asked (--no-used)');
    const services = new Map(objects.services.flatMap((each) => (each.spec.clusterIPs ?? []).map((ip) => [ip, keyOf(each)] as const)));
    return reportWhatIf(result, { missing, remarks: tried.remarks, used, services }, flags.output, terminal);
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
