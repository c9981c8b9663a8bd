import { type KubeHttp, segment } from '../client/http-client.ts';

export interface NodeCondition {
  readonly type: string;
  readonly status: 'True' | 'False' | 'Unknown';
  readonly reason: string;
  readonly message: string;
}

/**
 * Sets one condition of a Node's status and leaves the others alone: conditions are merged by `type`.
 *
 * `NetworkUnavailable: False` is what some cloud controllers wait for before they let pods onto a node.
 *
 * @throws SeineError as {@link KubeHttp} says
 */
export async function setNodeCondition(http: KubeHttp, nodeName: string, condition: NodeCondition, signal: AbortSignal): Promise<void> {
  const time = new Date().toISOString().replace(/\.\d+Z$/, 'Z');
  await http.json(
    {
      method: 'PATCH',
      path: `/api/v1/nodes/${segment(nodeName)}/status`,
      contentType: 'application/strategic-merge-patch+json',
      body: { status: { conditions: [{ ...condition, lastHeartbeatTime: time, lastTransitionTime: time }] } },
    },
    signal,
  );
}
