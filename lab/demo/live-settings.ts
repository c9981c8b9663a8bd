import { SeineError } from '../../src/base/errors/seine-error.ts';
import type { KubeApi } from '../kube/kube-api.ts';

const namespace = 'seine-system';
const collection = `/api/v1/namespaces/${namespace}/configmaps`;

/** Sets keys of the ConfigMap `seine-live`, which all agents follow; null removes a key. Creates what is not there. */
export async function setLive(api: KubeApi, data: Readonly<Record<string, string | null>>, signal: AbortSignal): Promise<void> {
  const patch = () =>
    api.send({ method: 'PATCH', path: `${collection}/seine-live`, body: { data }, contentType: 'application/merge-patch+json' }, signal);
  await patch().catch(async (thrown: unknown) => {
    if (!isStatus(thrown, 404)) throw thrown;
    await create(api, '/api/v1/namespaces', { apiVersion: 'v1', kind: 'Namespace', metadata: { name: namespace } }, signal);
    await create(api, collection, { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'seine-live' } }, signal);
    await patch();
  });
}

async function create(api: KubeApi, path: string, body: object, signal: AbortSignal): Promise<void> {
  await api.send({ method: 'POST', path, body }, signal).catch((thrown: unknown) => {
    if (!isStatus(thrown, 409)) throw thrown; // it exists already
  });
}

function isStatus(thrown: unknown, status: number): boolean {
  return thrown instanceof SeineError && thrown.context['status'] === status;
}
