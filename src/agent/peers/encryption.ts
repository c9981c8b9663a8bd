import type { Log } from '../../base/log/log.ts';
import type { NodeState } from '../../dataplane/targets/node-state.ts';
import type { WireGuardTarget } from '../../dataplane/targets/wireguard/wireguard-target.ts';
import type { KubeHttp } from '../../kubernetes/client/http-client.ts';
import type { Replica } from '../../kubernetes/client/replica/replica.ts';
import type { Node } from '../../kubernetes/resources/node.ts';
import {
  peerModesAnnotation,
  setNodeAnnotations,
  wireGuardKeyAnnotation,
  wireGuardNextKeyAnnotation,
} from '../../kubernetes/resources/node-annotations.ts';
import type { LiveEnvironment } from '../../nodes/local/live-environment.ts';
import { OwnAnnotations } from '../../nodes/modes/own-annotations.ts';
import type { Peers } from '../../nodes/peers/peers.ts';
import { WireGuardKeyFile } from '../../nodes/wireguard/key-file.ts';
import { NodeEncryption } from '../../nodes/wireguard/node-encryption.ts';
import type { AgentConfig } from '../config/agent-config.ts';

/** Opens the encryption of this node: reads its key, and what a previous agent has left. @throws SeineError like `NodeEncryption.open` */
export function openEncryption(
  { trafficEncryptionMode, stateDir }: AgentConfig,
  target: WireGuardTarget,
  signal: AbortSignal,
): Promise<NodeEncryption> {
  return NodeEncryption.open({
    isEnabled: trafficEncryptionMode === 'wireGuard',
    file: new WireGuardKeyFile(stateDir),
    observe: () => target.observe(signal),
    read: () => target.read(signal),
  });
}

/** Part of the sources from the API server. */
interface NodeObjects {
  readonly nodes: { readonly replica: Replica<Node> };
  readonly http: KubeHttp;
}

/** Opens the annotations of this node's own object. */
export function openOwnAnnotations({ nodes, http }: NodeObjects, nodeName: string, log: Log): OwnAnnotations {
  return new OwnAnnotations({
    present: () => {
      const node = nodes.replica.get(nodeName);
      return node && presentAnnotations(node);
    },
    write: (annotations, signal) => setNodeAnnotations(http, nodeName, annotations, signal),
    subscribe: (listener) => nodes.replica.subscribe((names) => names.has(nodeName) && listener()),
    log,
    now: () => performance.now(),
  });
}

function presentAnnotations({ peerModes, wireGuardKey, wireGuardNextKey }: Node): Readonly<Record<string, string>> {
  return {
    ...(peerModes === undefined ? {} : { [peerModesAnnotation]: peerModes }),
    ...(wireGuardKey === undefined ? {} : { [wireGuardKeyAnnotation]: wireGuardKey }),
    ...(wireGuardNextKey === undefined ? {} : { [wireGuardNextKeyAnnotation]: wireGuardNextKey }),
  };
}

interface EncryptedNodeParts {
  readonly nodeState: NodeState;
  readonly log: Log;
}

interface EncryptingNode {
  readonly encryption: NodeEncryption;
  readonly live: LiveEnvironment;
  readonly peers: Peers;
}

/** Keeps the WireGuard device and the announcement of its key, and selects the modes of peers when their keys have changed. */
export async function keepEncryption(
  { nodeState, log }: EncryptedNodeParts,
  { encryption, live, peers }: EncryptingNode,
  annotations: OwnAnnotations,
  signal: AbortSignal,
): Promise<void> {
  encryption.use({
    nodeState,
    environment: () => live.current,
    annotations,
    modesChanged: () => void peers.checkModes(),
    keysChanged: (names) => peers.checkPeers(names),
    deviceReady: () => nodeState.reconcilers.settings.recheck(),
    ended: () => live.look(),
    log,
  });
  const end = live.subscribe(() => encryption.check());
  await encryption.run(signal).finally(end);
}
