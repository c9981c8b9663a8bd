import type { DenialView } from '../../api/denied-log.ts';
import { TokenBucket } from '../../base/async/token-bucket.ts';
import type { Log } from '../../base/log/log.ts';
import type { Ip } from '../../base/net/ip.ts';
import type { PolicyMode } from '../../dataplane/compile/environment.ts';
import type { PacketExchange } from '../../dataplane/packet-io/packet-inbox.ts';
import type { PacketIn } from '../../openflow/packet.ts';
import type { PodIdentity } from '../../pods/ipam/attachment.ts';
import { isTranslatedSelf } from './denial-cause.ts';
import { type DeniedAttempt, type DeniedPacket, readDeniedPacket } from './denied-packet.ts';
import { DeniedPairs, pairKey } from './denied-pairs.ts';
import { FairShares } from './fair-shares.ts';
import type { LoggedPods } from './logged-pods.ts';

/** Maximum rate and burst of packets that are read, in case the meters of OVS pass more. */
const read = { perSecond: 2_000, burst: 4_000 } as const;
/** Maximum rate of lines of all namespaces together (per second). */
const linesPerSecond = 50;
/** Time for which a line stands for packets like it (ms). */
const sameMs = 1_000;
/** Maximum number of lines remembered. Beyond it no new line is written until older ones expire. */
const recentMax = 4_096;
/** Maximum number of namespaces with packets that have no line yet. */
const namespacesMax = 1_024;
const policiesMax = 8;
const textMax = 256;

/** Reason for a denial, by the current policies. */
interface DenialCause {
  /** Policies that isolate the pod, `namespace/name`. */
  readonly policies: readonly string[];
  /** Reason why the pod is blocked; absent if it is not. */
  readonly closed?: string;
  /** Rule of a ClusterNetworkPolicy that denies, `name spec.ingress[2]`; absent if none does. */
  readonly rule?: { readonly name: string; readonly tier: NonNullable<DenialView['tier']> };
}

interface DeniedLogOptions {
  readonly packets: Pick<PacketExchange, 'on'>;
  readonly pods: Pick<LoggedPods, 'podAt' | 'podOfMeter' | 'isWritten' | 'watch'>;
  /** Returns the cause of a denial. @param pod `namespace/name` */
  readonly denialOf: (pod: string, packet: DeniedAttempt) => DenialCause;
  /** Returns the owner of an address: `namespace/name` of a pod, or `node NAME`; undefined if it has neither. */
  readonly ownerOf: (address: Ip) => string | undefined;
  readonly mode: () => PolicyMode;
  readonly log: Log;
  /** Called with each line: the denial, and the number of packets since the last line about them. */
  readonly written?: (pod: PodIdentity, denial: DenialView, packets: number) => void;
  /** Milliseconds, from any fixed moment; never goes back. */
  readonly now: () => number;
}

/** Receiver of denied packets of all pods. */
interface DeniedObserver {
  /** @param pod `namespace/name`. @param fields pipeline fields of the packet */
  readonly denied: (pod: string, packet: DeniedPacket, fields: PacketIn['fields']) => void;
  /** Packets that OVS or the agent did not pass on. */
  readonly missed: (packets: number) => void;
}

interface RecentLine {
  readonly pod: PodIdentity;
  packet: DeniedPacket;
  sinceMs: number;
  repeated: number;
}

/**
 * Log of denied packets: a line for the first packet, then one a second for packets like it. Each namespace has its share of lines. Packets
 * without a line are counted, and the namespace's next line reports the count.
 */
export class DeniedLog {
  readonly #options: DeniedLogOptions;
  readonly #input = new TokenBucket(read);
  readonly #shares: FairShares;
  readonly #recent = new Map<string, RecentLine>();
  /** Number of packets without a line since the last line, by namespace. */
  readonly #unlogged = new Map<string, number>();
  readonly #collections = new Set<DeniedPairs>();
  readonly #observers = new Set<DeniedObserver>();
  readonly #counters = { lines: 0, repeated: 0, suppressed: 0, metered: 0 };

  constructor(options: DeniedLogOptions) {
    this.#options = options;
    this.#shares = new FairShares({ perSecond: linesPerSecond, now: options.now });
    options.packets.on('denied', (packet) => this.#receive(packet));
  }

  /**
   * Counts of denied packets of logged pods: lines written, packets like a written line, packets beyond the rate of lines, packets beyond
   * the meters of OVS.
   */
  get counters(): Readonly<Record<'lines' | 'repeated' | 'suppressed' | 'metered', number>> {
    return this.#counters;
  }

  /** Writes lines for packets like earlier ones. To be called about once a second. */
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

  /** Counts packets that OVS did not pass to the agent. @param meter meter id as in `LoggedPods` */
  metered(meter: number, packets: number): void {
    if (packets > 0) for (const observer of this.#observers) observer.missed(packets);
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

  /** Passes denied packets of all pods of this node to an observer until the returned function is called. */
  observe(observer: DeniedObserver): () => void {
    const unwatch = this.#options.pods.watch();
    this.#observers.add(observer);
    return () => {
      if (this.#observers.delete(observer)) unwatch();
    };
  }

  #receive(packetIn: PacketIn): void {
    if (!this.#input.take()) {
      this.#counters.suppressed++;
      for (const observer of this.#observers) observer.missed(1);
      return;
    }
    const packet = readDeniedPacket(packetIn);
    const pod = packet && this.#options.pods.podAt(packet.ofPort);
    if (!packet || !pod) return;
    const key = pairKey(nameOf(pod), packet);
    for (const pairs of this.#collections) pairs.note(nameOf(pod), packet);
    for (const observer of this.#observers) observer.denied(nameOf(pod), packet, packetIn.fields);
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

  /** Describes a denial. @param pod `namespace/name` */
  describe(pod: string, packet: DeniedAttempt): DenialView {
    const { direction, own, peer, protocol, ports, icmp } = packet;
    const { denialOf, ownerOf, mode } = this.#options;
    const { policies, closed, rule } = denialOf(pod, packet);
    return {
      verdict: mode() === 'enforce' ? 'denied' : 'would deny',
      direction,
      policies: policies.slice(0, policiesMax).map(printable),
      ...(rule && { rule: printable(rule.name), tier: rule.tier }),
      why: printable(whyOf(packet, closed, rule?.name)),
      pod: printable(pod),
      podAddress: own.text,
      peer: printable(isTranslatedSelf(peer) ? `${pod} through a Service` : (ownerOf(peer) ?? peer.text)),
      peerAddress: peer.text,
      protocol,
      ...(ports === undefined ? {} : { port: ports.destination }),
      ...(icmp === undefined ? {} : { icmpType: icmp.type }),
    };
  }

  #write({ pod, packet, repeated }: RecentLine): void {
    const unlogged = this.#unlogged.get(pod.namespace);
    this.#unlogged.delete(pod.namespace);
    const denial = this.describe(nameOf(pod), packet);
    this.#options.written?.(pod, denial, Math.max(1, repeated));
    this.#options.log.info('NetworkPolicy denied', {
      ...denial,
      ...(packet.ports === undefined ? {} : { sourcePort: packet.ports.source }),
      repeated,
      ...(unlogged === undefined ? {} : { unlogged }),
    });
  }
}

function whyOf({ direction, asFragments }: DeniedAttempt, closed: string | undefined, rule: string | undefined): string {
  if (closed !== undefined) return `blocked: ${closed}`;
  if (rule !== undefined) return `${rule} denies it`;
  return asFragments ? 'a fragmented datagram has no port' : `no rule of spec.${direction} allows it`;
}

function nameOf({ namespace, name }: PodIdentity): string {
  return `${namespace}/${name}`;
}

/** Returns text without control characters: names are chosen by users, and a line must not contain terminal escape sequences. */
function printable(text: string): string {
  return text.slice(0, textMax).replace(/[^\x20-\x7e]/g, '?');
}
