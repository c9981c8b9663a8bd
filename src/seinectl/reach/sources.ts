import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { seineVersion } from '../../api/version.ts';
import { LoopTurns } from '../../base/async/loop-turns.ts';
import { SeineError } from '../../base/errors/seine-error.ts';
import { KubeHttp } from '../../kubernetes/client/http-client.ts';
import { listObjects } from '../../kubernetes/client/reflector/object-list.ts';
import { clusterPolicyListApi } from '../../kubernetes/resources/cluster-policy-api.ts';
import { clusterPolicyEvidence, policyEvidence } from '../../kubernetes/resources/policy-evidence.ts';
import { fromManifests, type ManifestDocument } from '../../policy/reach/from-manifests.ts';
import { documentsOf } from '../../policy/reach/manifest-documents.ts';
import { type ReachObjects, services } from '../../policy/reach/objects.ts';
import { reachObjectsOf } from '../../simulate/objects/cluster-objects.ts';
import { usersAccess } from '../fleet/kubeconfig.ts';
import type { ProcessVariables } from '../fleet/kubeconfig-files.ts';
import { readBundleObjects } from './bundle-objects.ts';

/** Origin of the objects: files, a support bundle, or else the cluster of the kubeconfig. */
export interface ObjectSource {
  readonly filename?: readonly string[];
  readonly bundle?: string;
  readonly kubeconfig?: string;
  readonly context?: string;
  /** Objects that are read already. */
  readonly known?: ReachObjects;
}

const FILE_BYTES_MAX = 64 * 1024 * 1024;
const FILES_MAX = 10_000;
const DEPTH_MAX = 20;
/** Time to list all objects of a cluster of 150,000 pods (ms). */
const CLUSTER_TIMEOUT_MS = 300_000;

/**
 * Reads the objects that policies depend on.
 *
 * @param onLack called with a sentence for objects that a bundle does not have
 * @throws SeineError `INVALID_INPUT` for a file, bundle or kubeconfig that cannot be read; like `KubeHttp` for the cluster
 */
export async function readObjects(source: ObjectSource, env: ProcessVariables, onLack: (lack: string) => void): Promise<ReachObjects> {
  if (source.known) return source.known;
  if (source.filename) return fromManifests(source.filename.flatMap((path) => readManifests(path))).objects;
  return source.bundle === undefined ? await fromCluster(source, env) : await fromBundle(source.bundle, onLack);
}

/** Reads the YAML or JSON documents of a file, or of all files of a folder and its folders (`.yaml`, `.yml`, `.json`). `-` is standard input. */
export function readManifests(path: string): readonly ManifestDocument[] {
  return filesOf(path, 0).flatMap((file) => documentsOf(file, textOf(file)));
}

/** Returns the files below a path, at most `FILES_MAX`. @param depth number of folders above `path` */
export function filesOf(path: string, depth: number): readonly string[] {
  if (path === '-') return [path];
  const entry = read(path, () => statSync(path));
  if (!entry.isDirectory()) return [path];
  if (depth === DEPTH_MAX) throw new SeineError('INVALID_INPUT', `${path}: folders are nested more than ${DEPTH_MAX} deep`);
  const found = read(path, () => readdirSync(path).sort()).flatMap((name) => {
    const inside = join(path, name);
    const isFolder = read(inside, () => statSync(inside)).isDirectory();
    return isFolder || /\.(?:ya?ml|json)$/.test(name) ? filesOf(inside, depth + 1) : [];
  });
  if (found.length > FILES_MAX) throw new SeineError('INVALID_INPUT', `${path} has more than ${FILES_MAX} files`);
  return found;
}

export function textOf(file: string): string {
  if (file === '-') return readFileSync(0, 'utf8');
  const { size } = read(file, () => statSync(file));
  if (size > FILE_BYTES_MAX) throw new SeineError('INVALID_INPUT', `${file} has ${size} bytes, more than ${FILE_BYTES_MAX}`);
  return read(file, () => readFileSync(file, 'utf8'));
}

function read<T>(place: string, work: () => T): T {
  try {
    return work();
  } catch (thrown) {
    throw new SeineError('INVALID_INPUT', `${place}: ${reasonOf(thrown)}`, { cause: thrown });
  }
}

/** Returns the message of an error; of a system call only its reason, for the place names the path. */
function reasonOf(thrown: unknown): string {
  const message = thrown instanceof Error ? thrown.message : String(thrown);
  return /^E[A-Z]+: ([^,]+),/.exec(message)?.[1] ?? message;
}

type Lists = { [L in keyof ReachObjects]-?: Required<ReachObjects>[L][number][] };

const noObjects = (): Lists => ({
  namespaces: [],
  pods: [],
  nodes: [],
  networkPolicies: [],
  clusterNetworkPolicies: [],
  services: [],
});

async function fromCluster(source: ObjectSource, env: ProcessVariables): Promise<ReachObjects> {
  const http = new KubeHttp(usersAccess(source, env), `seinectl/${seineVersion}`);
  const reading = { http, turns: new LoopTurns(10) };
  const signal = AbortSignal.timeout(CLUSTER_TIMEOUT_MS);
  const objects = noObjects();
  const optional = { ...reading, http: clusterPolicyListApi(http) };
  try {
    for await (const object of listObjects<unknown>(optional, clusterPolicyEvidence, signal))
      (objects.clusterNetworkPolicies as unknown[]).push(object);
    for (const [kind, resource] of Object.entries({ ...policyEvidence, services }))
      for await (const object of listObjects<unknown>(reading, resource, signal)) (objects[kind as keyof Lists] as unknown[]).push(object);
    return objects;
  } finally {
    http.close();
  }
}

/** Reads the objects that `seinectl collect` kept. @param onLack called for each kind that the bundle does not have */
async function fromBundle(path: string, onLack: (lack: string) => void): Promise<ReachObjects> {
  const { objects, lacks } = await readBundleObjects(path);
  for (const lack of lacks) onLack(lack);
  return reachObjectsOf(objects);
}
