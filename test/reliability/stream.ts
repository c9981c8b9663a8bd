/** One packet, connection attempt or message: time of sending, and of its answer (ms of `performance.now()`). */
interface Sent {
  readonly atMs: number;
  answeredMs: number | undefined;
}

export interface StreamCount {
  readonly sent: number;
  /** Never answered. */
  readonly lost: number;
  /** Longest time without an answered packet (ms); 0 if all were answered. */
  readonly gapMs: number;
  /** Duration of the slowest answer (ms). */
  readonly slowestMs: number;
}

/** Results of one kind of traffic between two places. The kinds fill it in; it only counts. */
export class TrafficStream {
  readonly name: string;
  readonly #all: Sent[] = [];

  constructor(name: string) {
    this.name = name;
  }

  /** @returns function to call when the answer has come */
  send(): () => void {
    const sent: Sent = { atMs: performance.now(), answeredMs: undefined };
    this.#all.push(sent);
    return () => {
      sent.answeredMs ??= performance.now();
    };
  }

  /** Time of the first answer to a packet sent at `afterMs` or later. */
  answeredSince(afterMs: number): number | undefined {
    for (let index = this.#all.length - 1, first: number | undefined; ; index--) {
      const sent = this.#all[index];
      if (sent === undefined || sent.atMs < afterMs) return first;
      if (sent.answeredMs !== undefined) first = Math.min(first ?? Infinity, sent.answeredMs);
    }
  }

  /** Number of packets sent from one moment up to another (ms) that were not answered by a third; `Infinity`: never. */
  between(fromMs: number, toMs: number, byMs: number): Pick<StreamCount, 'sent' | 'lost'> {
    const then = this.#all.filter(({ atMs }) => atMs >= fromMs && atMs < toMs);
    return { sent: then.length, lost: then.filter(({ answeredMs }) => answeredMs === undefined || answeredMs > byMs).length };
  }

  count(): StreamCount {
    let [lost, gapMs, slowestMs] = [0, 0, 0];
    let gapFromMs: number | undefined;
    for (const { atMs, answeredMs } of this.#all) {
      if (gapFromMs !== undefined) gapMs = Math.max(gapMs, atMs - gapFromMs);
      if (answeredMs === undefined) {
        lost++;
        gapFromMs ??= atMs;
        continue;
      }
      gapFromMs = undefined;
      slowestMs = Math.max(slowestMs, answeredMs - atMs);
    }
    return { sent: this.#all.length, lost, gapMs: Math.round(gapMs), slowestMs: Math.round(slowestMs) };
  }
}
