import { randomBytes } from 'node:crypto';
import type { KubeApi } from '../kube/kube-api.ts';
import type { PodSpec } from './pod-spec.ts';

const messageLengthMax = 1_000;

/** Records an event of a pod's failure, for `kubectl describe`. @throws SeineError as `KubeApi.send` */
export async function warnAboutPod(
  api: KubeApi,
  pod: PodSpec,
  node: string,
  { reason, message }: { readonly reason: string; readonly message: string },
  signal: AbortSignal,
): Promise<void> {
  const { namespace, name, uid } = pod;
  const now = new Date().toISOString().replace(/\.\d+Z$/, 'Z');
  const body = {
    apiVersion: 'v1',
    kind: 'Event',
    metadata: { name: `${name}.${randomBytes(8).toString('hex')}`, namespace },
    involvedObject: { apiVersion: 'v1', kind: 'Pod', namespace, name, uid },
    reason,
    message: message.slice(0, messageLengthMax),
    type: 'Warning',
    source: { component: 'kubelet', host: node },
    firstTimestamp: now,
    lastTimestamp: now,
    count: 1,
  };
  await api.send({ method: 'POST', path: `/api/v1/namespaces/${namespace}/events`, body }, signal);
}
