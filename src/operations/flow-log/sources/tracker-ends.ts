import { ctMark, ctMarkFields } from '../../../dataplane/pipeline/fields.ts';
import { zones } from '../../../dataplane/pipeline/well-known.ts';
import type { EndedConnection } from '../../../netlink/conntrack.ts';
import type { ClosedConnection } from './attribution.ts';

/** Maximum number of events read per second; the socket is closed for the rest of a second that has more. */
const eventsPerSecond = 10_000;

/** Connection that ended, and its origin. */
interface TrackedEnd {
  readonly connection: ClosedConnection;
  readonly through: 'pod' | 'gateway' | 'tunnel';
}

interface TrackerEndsOptions {
  /** Opens the events of the kernel's tracker. */
  readonly open: (handler: (ended: EndedConnection | 'overrun') => void) => { close(): void };
  readonly closed: (end: TrackedEnd) => void;
  /** Called when events were not read. */
  readonly missed: () => void;
  /** Returns the timeout of a state (ms), after which the kernel removes a connection (`timeoutOf`). */
  readonly timeoutMs: (protocol: number, tcpState: number | undefined) => number;
}

/**
 * Ends of connections of the bridge, from the kernel's tracker. Reading an event costs microseconds, and closing the socket nothing: a
 * flood of them costs a bounded share of a CPU.
 */
export class TrackerEnds {
  readonly #options: TrackerEndsOptions;
  #events: { close(): void } | undefined;
  #count = 0;
  readonly #timer: NodeJS.Timeout;

  constructor(options: TrackerEndsOptions) {
    this.#options = options;
    this.#events = this.#open();
    this.#timer = setInterval(() => {
      this.#count = 0;
      this.#events ??= this.#open();
    }, 1_000).unref();
  }

  close(): void {
    clearInterval(this.#timer);
    this.#events?.close();
    this.#events = undefined;
  }

  #open(): { close(): void } {
    return this.#options.open((ended) => this.#receive(ended));
  }

  #receive(ended: EndedConnection | 'overrun'): void {
    const { closed, missed, timeoutMs } = this.#options;
    if (ended === 'overrun') {
      missed();
      return;
    }
    if (++this.#count > eventsPerSecond) {
      if (!this.#events) return; // the rest of the datagrams that were read already
      this.#events.close();
      this.#events = undefined;
      missed();
      return;
    }
    const end = trackedEnd(ended, timeoutMs);
    if (end) closed(end);
  }
}

/**
 * Returns an ended connection of the bridge that was admitted; undefined for any other. The kernel removes a connection when its timeout
 * is over: its end is that much earlier. Pure.
 */
export function trackedEnd(ended: EndedConnection, timeoutMs: TrackerEndsOptions['timeoutMs']): TrackedEnd | undefined {
  const { family, zone, ipProtocol, original, reply, mark = 0, tcpState, packets, bytes, startedMs, removedMs } = ended;
  const unadmitted = ctMark.unadmitted('yes');
  const through = origins[mark & sourceMask];
  if (zone !== zones[family].main || through === undefined || (mark & unadmitted.mask) >>> 0 === unadmitted.value) return undefined;
  const connection: ClosedConnection = {
    protocol: ipProtocol,
    source: { ip: original.src, port: original.srcPort },
    destination: { ip: reply.src, port: reply.srcPort },
    asked: { ip: original.dst, port: original.dstPort },
    ...(packets && { packets }),
    ...(bytes && { bytes }),
    ...(startedMs !== undefined && { startedMs }),
    endedMs: (removedMs ?? 0) - timeoutMs(ipProtocol, tcpState),
  };
  return { connection, through };
}

const sourceMask = ctMark.source(0).mask;
const { tunnel, gateway, pod, external } = ctMarkFields.source.values;
const origins: Readonly<Record<number, TrackedEnd['through']>> = {
  [tunnel]: 'tunnel',
  [gateway]: 'gateway',
  [external]: 'gateway',
  [pod]: 'pod',
};

const TCP = 6;
const UDP = 17;

/** Names of timeouts by TCP state. Source: linux/netfilter/nf_conntrack_tcp.h `enum tcp_conntrack`, nf_conntrack-sysctl of the kernel. */
const tcpTimeouts: Readonly<Record<number, string>> = {
  1: 'syn_sent',
  2: 'syn_recv',
  3: 'established',
  4: 'fin_wait',
  5: 'close_wait',
  6: 'last_ack',
  7: 'time_wait',
  8: 'close',
};

/** Returns the kernel parameter with the timeout of a connection in its last state. Pure. */
export function timeoutParameter(protocol: number, tcpState: number | undefined): string {
  if (protocol === TCP) return `nf_conntrack_tcp_timeout_${tcpTimeouts[tcpState ?? 0] ?? 'close'}`;
  return protocol === UDP ? 'nf_conntrack_udp_timeout_stream' : 'nf_conntrack_generic_timeout';
}
