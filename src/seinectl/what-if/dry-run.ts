import * as z from 'zod';
import { SeineError } from '../../base/errors/seine-error.ts';
import { type KubeHttp, segment } from '../../kubernetes/client/http-client.ts';
import type { ManifestDocument } from '../../policy/reach/from-manifests.ts';

interface TriedProposal {
  /** Objects as the API server would store them, where it was allowed to say. */
  readonly documents: readonly ManifestDocument[];
  /** Sentences about objects that were taken as they are written. */
  readonly remarks: readonly string[];
}

/** Collections of the kinds that a proposal may have; `{ns}` is the namespace. */
const collections: Readonly<Record<string, string>> = {
  'networking.k8s.io/v1 NetworkPolicy': '/apis/networking.k8s.io/v1/namespaces/{ns}/networkpolicies',
  'policy.networking.k8s.io/v1beta1 ClusterNetworkPolicy': '/apis/policy.networking.k8s.io/v1beta1/clusternetworkpolicies',
  'policy.networking.k8s.io/v1alpha2 ClusterNetworkPolicy': '/apis/policy.networking.k8s.io/v1alpha2/clusternetworkpolicies',
  'v1 Service': '/api/v1/namespaces/{ns}/services',
  'discovery.k8s.io/v1 EndpointSlice': '/apis/discovery.k8s.io/v1/namespaces/{ns}/endpointslices',
  'v1 Pod': '/api/v1/namespaces/{ns}/pods',
  'v1 Namespace': '/api/v1/namespaces',
};

const identity = z.looseObject({
  apiVersion: z.string(),
  kind: z.string(),
  metadata: z.looseObject({ name: z.string(), namespace: z.string().nullish(), labels: z.unknown().optional() }),
});
const proposedLabels = z.record(z.string(), z.string().nullable()).nullish();
const labelled = z.looseObject({ metadata: z.looseObject({ labels: z.record(z.string(), z.string()).nullish() }) });
const stored = z.looseObject({ metadata: z.looseObject({ resourceVersion: z.string().nullish() }) });

/**
 * Lets the API server process a proposal without storing it: defaults and admission are the server's then. An object that the user may not
 * write is taken as it is written.
 *
 * @throws SeineError `INVALID_INPUT` for an object that the server rejects
 */
export async function dryRun(http: KubeHttp, documents: readonly ManifestDocument[], signal: AbortSignal): Promise<TriedProposal> {
  const remarks: string[] = [];
  const tried: ManifestDocument[] = [];
  for (const document of documents) {
    const read = identity.safeParse(document.object);
    const collection = read.success ? collections[`${read.data.apiVersion} ${read.data.kind}`] : undefined;
    if (!read.success || collection === undefined) {
      tried.push(document);
      continue;
    }
    try {
      tried.push({ place: document.place, object: { ...identityOf(read.data), ...(await tryOne(http, read.data, collection, signal)) } });
    } catch (thrown) {
      remarks.push(remarkAbout(document.place, read.data, SeineError.from(thrown, 'dry run')));
      tried.push(document);
    }
  }
  return { documents: tried, remarks };
}

type WrittenObject = z.output<typeof identity>;

/** The server leaves out the kind of built-in objects in some answers. */
function identityOf({ apiVersion, kind }: WrittenObject) {
  return { apiVersion, kind };
}

async function tryOne(http: KubeHttp, object: WrittenObject, collection: string, signal: AbortSignal): Promise<object> {
  const { name, namespace, labels } = object.metadata;
  const base = collection.replace('{ns}', segment(namespace ?? 'default'));
  const path = `${base}/${segment(name)}`;
  const query = { dryRun: 'All', fieldManager: 'seinectl-whatif' };
  if (object.kind === 'Pod' || object.kind === 'Namespace') {
    if (!(await existing(http, path, signal))) return object;
    const body = { metadata: { labels: labels ?? {} } };
    const request = { method: 'PATCH', path, query, body, contentType: 'application/merge-patch+json' } as const;
    return withRemovedLabels(labelled.parse(await http.json(request, signal)), labels);
  }
  const known = await existing(http, path, signal);
  const metadata = { ...object.metadata, ...(known?.metadata.resourceVersion && { resourceVersion: known.metadata.resourceVersion }) };
  const request = known ? ({ method: 'PUT', path } as const) : ({ method: 'POST', path: base } as const);
  return (await http.json({ ...request, query, body: { ...object, metadata } }, signal)) as object;
}

/** The answer has only the labels that stay; one that the proposal does not mention would stay as well. */
function withRemovedLabels(answer: z.output<typeof labelled>, proposed: unknown): object {
  const removed = Object.entries(proposedLabels.parse(proposed) ?? {}).filter(([, value]) => value === null);
  const labels = { ...Object.fromEntries(removed), ...answer.metadata.labels };
  return { ...answer, metadata: { ...answer.metadata, labels } };
}

async function existing(http: KubeHttp, path: string, signal: AbortSignal): Promise<z.output<typeof stored> | undefined> {
  try {
    return stored.parse(await http.json({ path }, signal));
  } catch (thrown) {
    const error = SeineError.from(thrown, 'read');
    if (error.context['status'] === 404) return undefined;
    throw error;
  }
}

/** @throws SeineError `INVALID_INPUT` if the server rejects the object itself */
function remarkAbout(place: string, { kind, metadata: { name, namespace } }: WrittenObject, error: SeineError): string {
  const text = `${kind} ${namespace ? `${namespace}/` : ''}${name}`;
  const { status } = error.context;
  const isRejected = error.code === 'REFUSED' && (status === 400 || status === 409 || status === 422);
  if (isRejected) throw new SeineError('INVALID_INPUT', `${place}: ${error.rawMessage}`, { cause: error });
  return status === 401 || status === 403
    ? `no dry run of ${text}, which needs the right to write it: it is taken as it is written`
    : `no dry run of ${text}: ${error.rawMessage}; it is taken as it is written`;
}
