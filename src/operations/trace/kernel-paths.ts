import type { TracedPacket, TraceOnward, TraceOutcome, TracePath } from '../../api/trace.ts';
import { cidrContains, type Ip } from '../../base/net/ip.ts';
import type { PeerIntent } from '../../dataplane/compile/compile-peer.ts';
import type { NodeEnvironment } from '../../dataplane/compile/environment.ts';
import { wireGuardDevice } from '../../dataplane/pipeline/well-known.ts';
import type { TraceSender } from './trace-question.ts';

/** Other nodes, as this one reaches them. */
export interface ReachedPeers {
  intents(): Iterable<Pick<PeerIntent, 'name' | 'podCidrs' | 'direct'>>;
  modesOf(name: string): readonly { readonly family: string; readonly mode: string }[];
}

/** Returns a function that returns how the kernel sends packets on for pods of another node; undefined for all others. */
export function kernelPaths(peers: ReachedPeers): (destination: Ip) => TraceOnward | undefined {
  let reached: ReturnType<ReachedPeers['intents']>;
  return (destination) => {
    const { family } = destination;
    reached ??= [...peers.intents()].filter(({ direct }) => direct !== undefined);
    for (const { name, podCidrs, direct } of reached) {
      const path = direct?.[family];
      if (!path || !podCidrs.some((network) => cidrContains(network, destination))) continue;
      const device = path.hop?.dev;
      const isBlocked = peers.modesOf(name).some((each) => each.family === family && each.mode === 'blocked');
      const mode = device === wireGuardDevice ? 'wireguard' : 'direct';
      return { node: name, mode: isBlocked ? 'blocked' : mode, ...(device !== undefined && { device }) };
    }
    return undefined;
  };
}

/**
 * Reports whether the kernel of the node sends a packet of its own processes itself. It gives packets for pods and Services to the bridge,
 * which would drop others.
 *
 * @param drop name of the drop
 */
export function isSentByKernel(
  { kind }: Pick<TraceSender, 'kind'>,
  drop: string | undefined,
  destination: Ip,
  { podCidrs, serviceCidrs }: Pick<NodeEnvironment, 'podCidrs' | 'serviceCidrs'>,
): boolean {
  const ofBridge = [...podCidrs, ...serviceCidrs].some((network) => cidrContains(network, destination));
  return kind === 'node' && drop === 'route.none' && !ofBridge;
}

/** Returns the path of a packet of the node's processes that the bridge never has. */
export function pathByKernel(packet: TracedPacket, onward: TraceOnward | undefined): TracePath {
  const outcome: TraceOutcome = { what: 'node', to: 'the node', packet, ...(onward && { onward }) };
  const text = `sends the packet ${onward ? `to ${onward.node} ` : ''}itself: the bridge does not have it`;
  return { endpoints: [], hops: [{ table: 'kernel', text, flow: null, owner: null }], bridge: outcome, desired: outcome };
}
