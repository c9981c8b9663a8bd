import { SeineError } from '../../base/errors/seine-error.ts';
import { type Ip, parseIp } from '../../base/net/ip.ts';
import { ownerOf } from '../../dataplane/pipeline/cookie.ts';
import type { NodeState } from '../../dataplane/targets/node-state.ts';
import { type FollowedSettings, followSetting, type SettingWarnings } from '../../kubernetes/resources/live-settings.ts';
import type { PeerSource } from '../../kubernetes/resources/peer-source.ts';
import { EchoSocket } from '../../netlink/packets/icmp-echo.ts';
import type { LiveEnvironment } from '../../nodes/local/live-environment.ts';
import type { EventRecorder } from '../../operations/history/event-stream.ts';
import { Mesh, type MeshEnds, type MeshOptions } from '../../operations/mesh/mesh.ts';
import { meshSettings } from '../../operations/mesh/mesh-settings.ts';
import type { AgentConfig } from '../config/agent-config.ts';

/** Maximum time for an echo (ms). */
const PATIENCE_MS = 500;

interface MeshParts {
  readonly config: AgentConfig;
  readonly peers: PeerSource;
  readonly nodeState: { readonly bridge: Pick<NodeState['bridge'], 'has'> };
  /** Undefined until the node is known. */
  readonly started: () => { readonly live: LiveEnvironment; readonly peers: { gatewaysOf(name: string): readonly Ip[] } } | undefined;
  readonly events: EventRecorder;
  readonly observe: MeshOptions['observe'];
  /** Settings of all nodes that are followed. */
  readonly liveSettings: FollowedSettings;
  readonly warnings: SettingWarnings;
}

/** Opens the observation of other nodes; `run` begins it. */
export function openMesh({ config, peers, nodeState, started, events, observe, liveSettings, warnings }: MeshParts): Mesh {
  const configured = { intervalMs: config.mesh.interval, peers: config.mesh.peers };
  const ends = (name: string): readonly MeshEnds[] => {
    const node = started();
    const peer = peers.get(name);
    if (!node || !peer || !nodeState.bridge.has(ownerOf('peer', name))) return [];
    const environment = node.live.current;
    return node.peers.gatewaysOf(name).flatMap((to): MeshEnds[] => {
      const from = environment.gateway.addresses.find(({ family }) => family === to.family);
      if (!from) return [];
      const own = environment.transport.find(({ family }) => peer.transport[family] !== undefined);
      const theirs = own && peer.transport[own.family];
      const outside = own && theirs !== undefined ? { outside: { from: own, to: parseIp(theirs) } } : {};
      return [{ family: to.family, from, to, ...outside }];
    });
  };
  return new Mesh({
    own: config.nodeName,
    settings: followSetting(liveSettings, { name: 'mesh settings', warnings }, (live) => meshSettings(configured, live)),
    names: sortedNames(peers, config.nodeName),
    ends,
    echo: sendMeshEcho,
    mtu: () => started()?.live.current.gateway.mtu ?? 1_280,
    events,
    observe,
    now: () => performance.now(),
    random: Math.random,
  });
}

/** Names of all nodes; sorted again only after one was added or removed. */
function sortedNames(peers: PeerSource, own: string): () => readonly string[] {
  let names: readonly string[] | undefined;
  peers.subscribe(() => {
    names = undefined;
  });
  return () => (names ??= [own, ...Array.from(peers.peers(), ({ name }) => name)].toSorted());
}

/** Sends one echo, see {@link MeshOptions}. */
export async function sendMeshEcho(...[way, bytes, signal]: Parameters<MeshOptions['echo']>): ReturnType<MeshOptions['echo']> {
  const startedMs = performance.now();
  let socket: EchoSocket | undefined;
  try {
    socket = EchoSocket.open(way);
    return { outcome: await socket.ask(bytes, PATIENCE_MS, signal), rttMs: performance.now() - startedMs };
  } catch (thrown) {
    if (signal.aborted || SeineError.from(thrown, 'send an echo').code === 'INVARIANT') throw thrown;
    return { outcome: 'noRoute', rttMs: 0 };
  } finally {
    socket?.close();
  }
}
