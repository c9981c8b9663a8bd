import type { ClusterObjectsLine, ClusterObjectsList } from '../../../api/cluster-objects.ts';
import type { LoopTurns } from '../../../base/async/loop-turns.ts';
import { SeineError } from '../../../base/errors/seine-error.ts';
import type { KubeHttp } from '../../../kubernetes/client/http-client.ts';
import { listObjects } from '../../../kubernetes/client/reflector/object-list.ts';
import { liveSettingsObject, servedObjects } from '../../../kubernetes/resources/served-objects.ts';

export interface ClusterObjectsPort {
  readonly http: Pick<KubeHttp, 'stream'>;
  readonly turns: LoopTurns;
}

const lists = { liveSettings: liveSettingsObject, ...servedObjects } as const satisfies Readonly<Record<ClusterObjectsList, unknown>>;

/**
 * Lines of `GET /v1/objects` ({@link ClusterObjectsLine}), read from the API server for this request. With `/v1/policy/evidence` they are what
 * `seinectl collect` keeps of the cluster's objects.
 */
export async function* clusterObjectLines(port: ClusterObjectsPort, signal: AbortSignal): AsyncGenerator<string> {
  const line = (each: ClusterObjectsLine): string => JSON.stringify(each);
  try {
    for (const kind of ['liveSettings', 'services', 'slices'] as const)
      for await (const object of listObjects<unknown>(port, lists[kind], signal)) yield line({ kind: 'object', of: kind, object });
    yield line({ kind: 'end' });
  } catch (thrown) {
    signal.throwIfAborted();
    yield line({ kind: 'failed', message: SeineError.from(thrown, 'read the objects').rawMessage });
  }
}
