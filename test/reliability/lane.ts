/** One packet, connection attempt or message: when it was sent, and when its answer came (ms of `performance.now()`). */
interface Sent {
  readonly atMs: number;
  answeredMs: number | undefined;
}

export interface LaneCount {
  readonly sent: number;
  /** Never answered. */
  readonly lost: number;
  /** Longest time during which nothing was sent that got an answer (ms); 0 if everything did. */
  readonly gapMs: number;
  /** What the slowest answer took (ms). */
  readonly slowestMs: number;
}

/** What one kind of traffic between two places did. The kinds fill it in; it only counts. */
export class Lane {
  readonly name: string;
  readonly #all: Sent[] = [];

  constructor(name: string) {
    this.name = name;
  }

  /** @returns what to call when the answer has come */
  send(): () => void {
    const sent: Sent = { atMs: performance.now(), answeredMs: undefined };
    this.#all.push(sent);
    return () => {
      sent.answeredMs ??= performance.now();
    };
  }

  /** When the first answer came to what was sent at `afterMs` or later. */
  answeredSince(afterMs: number): number | undefined {
    for (let index = this.#all.length - 1, first: number | undefined; ; index--) {
      const sent = this.#all[index];
      if (sent === undefined || sent.atMs < afterMs) return first;
      if (sent.answeredMs !== undefined) first = Math.min(first ?? Infinity, sent.answeredMs);
    }
  }

  /** Of what was sent from one moment up to another (ms): how much was not answered by a third. */
  between(fromMs: number, toMs: number, byMs: number): Pick<LaneCount, 'sent' | 'lost'> {
    const then = this.#all.filter(({ atMs }) => atMs >= fromMs && atMs < toMs);
    return { sent: then.length, lost: then.filter(({ answeredMs = Infinity }) => answeredMs > byMs).length };
  }

  count(): LaneCount {
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
