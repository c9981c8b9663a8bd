import { SeineError } from '../../base/errors/seine-error.ts';
import { clusterPolicyEvidence, policyEvidence } from '../../kubernetes/resources/policy-evidence.ts';
import { liveSettingsObject, servedObjects } from '../../kubernetes/resources/served-objects.ts';
import { objectsName, policyEvidenceName } from '../../operations/support-bundle/agent-files.ts';
import { readArchive } from '../../operations/support-bundle/archive.ts';
import { manifestName, parseManifest } from '../../operations/support-bundle/manifest.ts';
import type { ForwardedObjects } from '../../policy/verify/forwarding-reference/forwarded-objects.ts';
import type { PolicyObjects } from '../../policy/verify/reference/objects.ts';

/** Objects of a cluster that `seinectl collect` kept. */
export interface BundleObjects {
  readonly objects: ForwardedObjects;
  /** Objects that the bundle does not have, each with the reason; a sentence without a full stop. */
  readonly lacks: readonly string[];
  /** Settings of ConfigMap `seine-live`, by their keys; absent if the bundle does not have them, or the cluster has no such ConfigMap. */
  readonly liveSettings?: Readonly<Record<string, string>>;
}

/** Files of a bundle that `objectsOf` reads. */
export const objectFiles: readonly string[] = [manifestName, policyEvidenceName, objectsName];

type FileText = (name: string) => string | undefined;

/** Reads the objects in a support bundle. @throws SeineError `INVALID_INPUT` if it is not a bundle, or has no policies and pods */
export async function readBundleObjects(path: string): Promise<BundleObjects> {
  const files = await readArchive(path, (name) => objectFiles.includes(name));
  return objectsOf(path, (name) => {
    const bytes = files.get(name);
    return bytes && Buffer.from(bytes).toString('utf8');
  });
}

/** The same of files that are read already. @throws SeineError `INVALID_INPUT` */
export function objectsOf(path: string, textOf: FileText): BundleObjects {
  const evidence = textOf(policyEvidenceName);
  if (evidence === undefined)
    throw new SeineError('INVALID_INPUT', `${path} has no ${policyEvidenceName}: ${reasonOf(textOf, policyEvidenceName)}`);
  const policies = policyObjects(path, evidence);
  const text = textOf(objectsName);
  if (text === undefined)
    return { objects: { ...policies, services: [], slices: [] }, lacks: [lackOf(path, reasonOf(textOf, objectsName))] };
  const { services, slices, liveSettings, failure } = readServed(path, text);
  const [settings] = liveSettings;
  return {
    objects: { ...policies, services: failure === undefined ? services : [], slices: failure === undefined ? slices : [] },
    lacks: failure === undefined ? [] : [lackOf(path, failure)],
    ...(settings?.data && { liveSettings: settings.data }),
  };
}

function lackOf(path: string, reason: string): string {
  return `${path} has no Services and EndpointSlices: ${reason}`;
}

/** Reason why a bundle does not have a file, from its manifest. */
function reasonOf(textOf: FileText, name: string): string {
  const text = textOf(manifestName);
  if (text === undefined) return 'it has no manifest';
  const { seine, parts } = parseManifest(text);
  const part = parts.find((each) => each.name === name);
  return part?.reason ?? `it was collected by Seine ${seine}, which did not keep them`;
}

/** Readers of objects by the names of their lists. */
type ListReaders = Readonly<Record<string, { readonly project: (raw: unknown) => unknown }>>;

const policyReaders = { ...policyEvidence, clusterNetworkPolicies: clusterPolicyEvidence } satisfies ListReaders;
const servedReaders = { ...servedObjects, liveSettings: liveSettingsObject } satisfies ListReaders;

function policyObjects(path: string, text: string): PolicyObjects {
  const { lists, failure } = readLists(policyReaders, { path, name: policyEvidenceName, text });
  if (failure !== undefined) throw new SeineError('INVALID_INPUT', `${policyEvidenceName} in ${path} is not complete: ${failure}`);
  // The readers leave labels and specifications as the API server has them.
  return lists as unknown as PolicyObjects;
}

interface ServedLists extends Pick<ForwardedObjects, 'services' | 'slices'> {
  readonly liveSettings: readonly { readonly data?: Readonly<Record<string, string>> }[];
  /** Reason why they are not complete. */
  readonly failure: string | undefined;
}

function readServed(path: string, text: string): ServedLists {
  const { lists, failure } = readLists(servedReaders, { path, name: objectsName, text });
  return { ...(lists as unknown as Omit<ServedLists, 'failure'>), failure };
}

interface ObjectFile {
  readonly path: string;
  readonly name: string;
  readonly text: string;
}

/** Sorts objects into their lists. @throws SeineError `INVALID_INPUT` for a line, or an object, that cannot be read */
function readLists(readers: ListReaders, { path, name, text }: ObjectFile) {
  const lists: Readonly<Record<string, unknown[]>> = Object.fromEntries(Object.keys(readers).map((kind) => [kind, []]));
  let end: ObjectLine | undefined;
  for (const [at, line] of linesIn(text).entries()) {
    const place = `${path}: line ${at + 1} of ${name}`;
    const entry = readLine(line, place);
    const reader = entry.kind === 'object' && entry.of !== undefined && Object.hasOwn(readers, entry.of) ? readers[entry.of] : undefined;
    if (reader) lists[entry.of ?? '']?.push(readObject(reader, entry.object, place));
    if (entry.kind === 'failed' || entry.kind === 'end') end = entry;
  }
  if (end === undefined) return { lists, failure: 'it was cut off' };
  return { lists, failure: end.kind === 'end' ? undefined : `the agent could not read them: ${end.message ?? 'no reason'}` };
}

/** Lines of a file; one that was cut off ends without a line break. */
function linesIn(text: string): readonly string[] {
  return text.split('\n').slice(0, -1);
}

interface ObjectLine {
  readonly kind?: string;
  readonly of?: string;
  readonly object?: unknown;
  readonly message?: string;
}

function readLine(line: string, place: string): ObjectLine {
  try {
    const value: unknown = JSON.parse(line);
    if (typeof value === 'object' && value !== null) return value;
  } catch {
    // reported below
  }
  throw new SeineError('INVALID_INPUT', `${place} is not a JSON object`);
}

function readObject({ project }: ListReaders[string], object: unknown, place: string): unknown {
  try {
    return project(object);
  } catch (thrown) {
    throw new SeineError('INVALID_INPUT', `${place}: ${SeineError.from(thrown, 'read').rawMessage}`, { cause: thrown });
  }
}
