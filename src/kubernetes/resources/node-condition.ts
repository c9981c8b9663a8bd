import { type KubeHttp, segment } from '../client/http-client.ts';

export interface NodeCondition {
  readonly type: string;
  readonly status: 'True' | 'False' | 'Unknown';
  readonly reason: string;
  readonly message: string;
}

/**
 * Sets one condition of a Node's status and leaves the others unchanged: conditions are merged by `type`.
 *
 * Some cloud controllers wait for `NetworkUnavailable: False` before they admit pods to a node.
 *
 * @throws SeineError like {@link KubeHttp}
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
