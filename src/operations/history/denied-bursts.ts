import type { DenialView } from '../../api/denied-log.ts';
import type { EventRecorder } from './event-stream.ts';

/** Time without a denied packet after which a burst has ended (ms). */
const QUIET_MS = 10_000;
/** Maximum number of bursts that are counted at once; further ones are recorded line by line. */
const BURSTS_MAX = 512;

interface Burst {
  readonly pod: string;
  readonly denial: DenialView;
  readonly firstMs: number;
  lastMs: number;
  /** Packets after the first line. */
  packets: number;
}

/** Records denied packets of one pod and peer as two events: the first line, and the number of packets once they end. */
export class DeniedBursts {
  readonly #events: EventRecorder;
  readonly #bursts = new Map<string, Burst>();

  constructor(events: EventRecorder) {
    this.#events = events;
  }

  /** @param pod `namespace/name`. @param packets packets since the last line */
  note(pod: string, denial: DenialView, packets: number, nowMs: number): void {
    const key = JSON.stringify([pod, denial.direction, denial.peerAddress, denial.protocol, denial.port]);
    const known = this.#bursts.get(key);
    if (known) {
      known.lastMs = nowMs;
      known.packets += packets;
      return;
    }
    this.#record(pod, denial, packets, 0);
    if (this.#bursts.size < BURSTS_MAX) this.#bursts.set(key, { pod, denial, firstMs: nowMs, lastMs: nowMs, packets: 0 });
  }

  /** Records bursts that have ended. Called each second. */
  sweep(nowMs: number): void {
    for (const [key, { pod, denial, firstMs, lastMs, packets }] of this.#bursts) {
      if (nowMs - lastMs < QUIET_MS) continue;
      this.#bursts.delete(key);
      if (packets > 0) this.#record(pod, denial, packets, Math.max(1, Math.round((lastMs - firstMs) / 1_000)));
    }
  }

  #record(pod: string, { direction, peer, protocol, port, policies, rule }: DenialView, count: number, seconds: number): void {
    const subjects = [`pod/${pod}`, ...(/^[^/ ]+\/[^/ ]+$/.test(peer) ? [`pod/${peer}`] : []), ...policies.map((name) => `policy/${name}`)];
    const by = rule === undefined ? policies : [rule];
    this.#events.note('denied.burst', subjects, { direction, peer, protocol, count, seconds, by, ...(port === undefined ? {} : { port }) });
  }
}
