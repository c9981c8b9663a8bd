import type { TracedConnection } from '../../api/trace.ts';
import type { LoopTurns } from '../../base/async/loop-turns.ts';
import type { Ip } from '../../base/net/ip.ts';
import { ctMark } from '../../dataplane/pipeline/fields.ts';
import type { TrackedConnection } from '../../netlink/conntrack.ts';
import { livingEnds } from '../../policy/denied-log/open-connections.ts';
import type { NodeServices } from '../../services/controller/open-services.ts';
import type { FlowLog } from './flow-log.ts';
import type { OpenedFlowLog } from './open-flow-log.ts';
import type { NumberedFlow } from './records/flow-record.ts';

export interface KnownConnectionPort {
  readonly config: { readonly ovsDatapathType: 'system' | 'netdev' };
  /** @throws SeineError `UNAVAILABLE` until the node is known */
  readonly running: () => {
    readonly flowLog: Pick<OpenedFlowLog, 'running'>;
    readonly proxy: { readonly tracked: Pick<NodeServices['tracked'], 'list'> };
  };
  readonly turns: Pick<LoopTurns, 'due' | 'next'>;
}

/** Connection to look for. */
interface SoughtConnection {
  /** IP protocol number. */
  readonly protocol: number;
  readonly source: Ip;
  /** The receiver, or the address of a Service. */
  readonly destination: Ip;
  readonly port?: number;
  /** Absent: any; the newest connection counts. */
  readonly sourcePort?: number;
}

const listedProtocols: Readonly<Record<number, 'tcp' | 'udp' | 'sctp'>> = { 6: 'tcp', 17: 'udp', 132: 'sctp' };

/**
 * Looks for an open connection in the flow log, then in the kernel's tracker. The tracker of the userspace data path is not listed: all
 * forwarding would stop meanwhile.
 *
 * @returns what is known of it, or that it is assumed, with the reason
 * @throws SeineError if the kernel's tracker cannot be read
 */
export async function knownConnection(port: KnownConnectionPort, sought: SoughtConnection): Promise<TracedConnection> {
  const { flowLog, proxy } = port.running();
  const log = flowLog.running()?.flows;
  const isKernel = port.config.ovsDatapathType === 'system';
  const logged = log && (await inLog(log, sought, port.turns));
  if (logged) return isKernel ? logged : { ...logged, note: 'its end may not be recorded on the userspace data path' };
  const protocol = listedProtocols[sought.protocol];
  const tracked = isKernel && protocol ? await inTracker(await proxy.tracked.list([protocol]), sought, port.turns) : undefined;
  if (tracked) return tracked;
  const unlogged = log ? `the flow log has no such connection since ${new Date(log.completeFromMs).toISOString()}` : 'the flow log is off';
  const untracked = isKernel
    ? `connection tracking ${protocol ? 'has none' : 'is not searched for this protocol'}`
    : 'the tracker of the userspace data path is not listed';
  return { from: 'assumption', note: `${unlogged}, and ${untracked}` };
}

/** Finds the newest connection, opened or seen, whose end is not recorded. */
async function inLog(log: FlowLog, sought: SoughtConnection, turns: KnownConnectionPort['turns']): Promise<TracedConnection | undefined> {
  const ended = new Set<string>();
  for (let number = log.numbers.next - 1; number >= log.numbers.oldest; number--) {
    if (turns.due) await turns.next();
    const flow = log.get(number);
    if (!flow || !isSought(flow, sought)) continue;
    if (flow.event === 'closed') ended.add(tupleOf(flow));
    const isOpen = flow.event === 'opened' || flow.event === 'seen';
    if (!isOpen || ended.has(tupleOf(flow))) continue;
    const { source, destination, service, timeMs } = flow;
    return {
      from: 'flow log',
      ...(flow.event === 'opened' && { openedAt: new Date(timeMs).toISOString() }),
      ...(source.port !== undefined && { sourcePort: source.port }),
      ...(service && { endpoint: `${destination.ip.text}:${destination.port ?? 0}` }),
    };
  }
  return undefined;
}

function isSought({ protocol, source, destination, service }: NumberedFlow, sought: SoughtConnection): boolean {
  if (protocol !== sought.protocol || source.ip.text !== sought.source.text) return false;
  if (sought.sourcePort !== undefined && source.port !== sought.sourcePort) return false;
  return [destination, service].some((end) => end?.ip.text === sought.destination.text && end.port === sought.port);
}

function tupleOf({ source, destination }: NumberedFlow): string {
  return `${source.port} ${destination.ip.text} ${destination.port}`;
}

async function inTracker(
  connections: Iterable<TrackedConnection>,
  { source, destination, port, sourcePort }: SoughtConnection,
  turns: KnownConnectionPort['turns'],
): Promise<TracedConnection | undefined> {
  for (const connection of connections) {
    if (turns.due) await turns.next();
    const { original, reply } = connection;
    if (original.src.text !== source.text || (sourcePort !== undefined && original.srcPort !== sourcePort)) continue;
    const isAsked = original.dst.text === destination.text && original.dstPort === port;
    const isEndpoint = reply.src.text === destination.text && reply.srcPort === port;
    if ((!isAsked && !isEndpoint) || !livingEnds(connection)) continue;
    const endpoint = isTranslated(connection) ? { endpoint: `${reply.src.text}:${reply.srcPort}` } : {};
    return { from: 'tracker', sourcePort: original.srcPort, ...endpoint };
  }
  return undefined;
}

const serviceMark = ctMark.service('yes');

function isTranslated({ mark = 0 }: TrackedConnection): boolean {
  return (mark & serviceMark.mask) >>> 0 === serviceMark.value;
}
