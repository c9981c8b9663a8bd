import type { DenialView } from '../../api/denied-log.ts';
import { TokenBucket } from '../../base/async/token-bucket.ts';
import type { Log } from '../../base/log/log.ts';
import type { Ip } from '../../base/net/ip.ts';
import type { PolicyMode } from '../../dataplane/compile/environment.ts';
import type { PacketExchange } from '../../dataplane/packet-io/packet-inbox.ts';
import type { PacketIn } from '../../openflow/packet.ts';
import type { PodIdentity } from '../../pods/ipam/attachment.ts';
import { type DeniedAttempt, type DeniedPacket, readDeniedPacket } from './denied-packet.ts';
import { DeniedPairs, pairKey } from './denied-pairs.ts';
import { FairShares } from './fair-shares.ts';
import type { LoggedPods } from './logged-pods.ts';

/** Packets a second that are looked at, and how many at once, should the switch's meters let more through. */
const read = { perSecond: 2_000, burst: 4_000 } as const;
/** Lines a second of all namespaces together. */
const linesPerSecond = 50;
/** A line stands for so long for what is like it (ms). */
const sameMs = 1_000;
/** What is like a line that was written; beyond that many nothing new is written until older ones end. */
const recentMax = 4_096;
/** With packets that have no line yet. */
const namespacesMax = 1_024;
const policiesMax = 8;
const textMax = 256;

/** Why a packet was denied, as policies are now. */
interface DenialCause {
  /** That isolate the pod, `namespace/name`. */
  readonly policies: readonly string[];
  /** Of a closed pod. */
  readonly closed?: string;
}

interface DeniedLogOptions {
  readonly packets: Pick<PacketExchange, 'on'>;
  readonly pods: Pick<LoggedPods, 'podAt' | 'podOfMeter' | 'isWritten' | 'watch'>;
  /** @param pod `namespace/name` */
  readonly denialOf: (pod: string, direction: DeniedPacket['direction']) => DenialCause;
  /** Whose an address is, `namespace/name` of a pod or `node NAME`; undefined for what is neither. */
  readonly ownerOf: (address: Ip) => string | undefined;
  readonly mode: () => PolicyMode;
  readonly log: Log;
  /** Milliseconds, from any fixed moment; never goes back. */
  readonly now: () => number;
}

interface RecentLine {
  readonly pod: PodIdentity;
  packet: DeniedPacket;
  sinceMs: number;
  repeated: number;
}

/**
 * The log of what policies deny: a line for the first packet, and each second one for what was like it. Each namespace has its share of
 * lines. What is not written is counted, and the namespace's next line says how much that was.
 */
export class DeniedLog {
  readonly #options: DeniedLogOptions;
  readonly #input = new TokenBucket(read);
  readonly #shares: FairShares;
  readonly #recent = new Map<string, RecentLine>();
  /** Packets without a line since the last one, by namespace. */
  readonly #unlogged = new Map<string, number>();
  readonly #collections = new Set<DeniedPairs>();
  readonly #counters = { lines: 0, repeated: 0, suppressed: 0, metered: 0 };

  constructor(options: DeniedLogOptions) {
    this.#options = options;
    this.#shares = new FairShares({ perSecond: linesPerSecond, now: options.now });
    options.packets.on('denied', (packet) => this.#receive(packet));
  }

  /** Denied packets of pods that are logged: with a line, like one that has a line, beyond the rate of lines, beyond the switch's meters. */
  get counters(): Readonly<Record<'lines' | 'repeated' | 'suppressed' | 'metered', number>> {
    return this.#counters;
  }

  /** Writes what was like earlier lines. To be called about every second. */
  sweep(): void {
    const nowMs = this.#options.now();
    for (const [key, line] of this.#recent) {
      if (nowMs - line.sinceMs < sameMs) continue;
      if (line.repeated > 0 && this.#shares.take(line.pod.namespace)) {
        this.#write(line);
        Object.assign(line, { sinceMs: nowMs, repeated: 0 });
      } else {
        this.#miss(line.pod, line.repeated);
        this.#recent.delete(key);
      }
    }
  }

  /** The switch did not show so many packets. @param meter as `LoggedPods` has it */
  metered(meter: number, packets: number): void {
    const pod = this.#options.pods.podOfMeter(meter);
    if (!pod || packets <= 0 || !this.#options.pods.isWritten(pod)) return;
    this.#counters.metered += packets;
    this.#miss(pod, packets);
  }

  /** Counts pairs of all pods of this node until `end` is called. */
  collect(): { readonly pairs: DeniedPairs; readonly end: () => void } {
    const pairs = new DeniedPairs();
    const unwatch = this.#options.pods.watch();
    this.#collections.add(pairs);
    const end = (): void => {
      this.#collections.delete(pairs);
      unwatch();
    };
    return { pairs, end };
  }

  #receive(packetIn: PacketIn): void {
    if (!this.#input.take()) {
      this.#counters.suppressed++;
      return;
    }
    const packet = readDeniedPacket(packetIn);
    const pod = packet && this.#options.pods.podAt(packet.ofPort);
    if (!packet || !pod) return;
    const key = pairKey(nameOf(pod), packet);
    for (const pairs of this.#collections) pairs.note(nameOf(pod), packet);
    if (this.#options.pods.isWritten(pod)) this.#tell(key, pod, packet);
  }

  #tell(key: string, pod: PodIdentity, packet: DeniedPacket): void {
    const known = this.#recent.get(key);
    if (known) {
      known.repeated++;
      known.packet = packet;
      this.#counters.repeated++;
      return;
    }
    if (this.#recent.size >= recentMax || !this.#shares.take(pod.namespace)) {
      this.#counters.suppressed++;
      this.#miss(pod, 1);
      return;
    }
    const line: RecentLine = { pod, packet, sinceMs: this.#options.now(), repeated: 0 };
    this.#recent.set(key, line);
    this.#counters.lines++;
    this.#write(line);
  }

  #miss({ namespace }: PodIdentity, packets: number): void {
    if (packets === 0) return;
    const [oldest] = this.#unlogged.keys();
    if (oldest !== undefined && this.#unlogged.size >= namespacesMax && !this.#unlogged.has(namespace)) this.#unlogged.delete(oldest);
    this.#unlogged.set(namespace, (this.#unlogged.get(namespace) ?? 0) + packets);
  }

  /** @param pod `namespace/name` */
  describe(pod: string, packet: DeniedAttempt): DenialView {
    const { direction, own, peer, protocol, ports, icmp } = packet;
    const { denialOf, ownerOf, mode } = this.#options;
    const { policies, closed } = denialOf(pod, direction);
    return {
      verdict: mode() === 'enforce' ? 'denied' : 'would deny',
      direction,
      policies: policies.slice(0, policiesMax).map(printable),
      why: printable(whyOf(packet, closed)),
      pod: printable(pod),
      podAddress: own.text,
      peer: printable(ownerOf(peer) ?? peer.text),
      peerAddress: peer.text,
      protocol,
      ...(ports === undefined ? {} : { port: ports.destination }),
      ...(icmp === undefined ? {} : { icmpType: icmp.type }),
    };
  }

  #write({ pod, packet, repeated }: RecentLine): void {
    const unlogged = this.#unlogged.get(pod.namespace);
    this.#unlogged.delete(pod.namespace);
    this.#options.log.info('NetworkPolicy denied', {
      ...this.describe(nameOf(pod), packet),
      ...(packet.ports === undefined ? {} : { sourcePort: packet.ports.source }),
      repeated,
      ...(unlogged === undefined ? {} : { unlogged }),
    });
  }
}

function whyOf({ direction, inPieces }: DeniedAttempt, closed: string | undefined): string {
  if (closed !== undefined) return `closed: ${closed}`;
  return inPieces ? 'a datagram in pieces shows no port' : `no rule of spec.${direction} allows it`;
}

function nameOf({ namespace, name }: PodIdentity): string {
  return `${namespace}/${name}`;
}

/** Names come from who runs containers and writes objects: a line has nothing that a terminal could take for an order. */
function printable(text: string): string {
  return text.slice(0, textMax).replace(/[^\x20-\x7e]/g, '?');
}
