import { type KubeHttp, segment } from '../client/http-client.ts';

/** Annotation of a Node with its public key of WireGuard; the name is Antrea's. */
export const wireGuardKeyAnnotation = 'node.antrea.io/wireguard-public-key';

/** Annotation of a Node with the public key that replaces its present one, and the time of that. */
export const wireGuardNextKeyAnnotation = 'seine.dev/wireguard-next-key';

/** Annotation of a Node with ways of sending that the node accepts, besides the tunnel. */
export const peerModesAnnotation = 'seine.dev/peer-modes';

/** Annotations that an agent writes to its own Node. The admission policy allows no others. */
export const ownAnnotations: readonly string[] = [wireGuardKeyAnnotation, wireGuardNextKeyAnnotation, peerModesAnnotation];

/**
 * Sets annotations of a Node, and removes those with `null`. Others are unchanged. They are written with the status, which is the only part
 * of a Node that agents may write.
 *
 * @throws SeineError like {@link KubeHttp}
 */
export async function setNodeAnnotations(
  http: KubeHttp,
  nodeName: string,
  annotations: Readonly<Record<string, string | null>>,
  signal: AbortSignal,
): Promise<void> {
  await http.json(
    {
      method: 'PATCH',
      path: `/api/v1/nodes/${segment(nodeName)}/status`,
      contentType: 'application/merge-patch+json',
      body: { metadata: { annotations } },
    },
    signal,
  );
}
