import { type FlowLosses, type LossCause, lossCauses } from '../../../api/flow-log.ts';

const MINUTE_MS = 60_000;
const minutesMax = 61;

/** Number of connections without a record, by cause, of each of the last sixty minutes and since the log was turned on. */
export class LossTally {
  readonly #minutes = new Map<number, Record<LossCause, number>>();
  readonly #total = none();

  add(cause: LossCause, count: number, nowMs: number): void {
    if (count <= 0) return;
    this.#total[cause] += count;
    const number = Math.floor(nowMs / MINUTE_MS);
    let minute = this.#minutes.get(number);
    if (!minute) {
      minute = none();
      this.#minutes.set(number, minute);
      for (const each of this.#minutes.keys()) if (each <= number - minutesMax) this.#minutes.delete(each);
    }
    minute[cause] += count;
  }

  get total(): FlowLosses {
    return { ...this.#total };
  }

  /** Returns the losses of the minutes since a time; all of them if it is before the oldest minute. @param sinceMs Unix time */
  since(sinceMs: number): FlowLosses {
    const first = Math.floor(sinceMs / MINUTE_MS);
    const [oldest] = this.#minutes.keys();
    if (oldest === undefined || first <= oldest) return this.total;
    const sum = none();
    for (const [number, minute] of this.#minutes) if (number >= first) for (const cause of lossCauses) sum[cause] += minute[cause];
    return sum;
  }
}

function none(): Record<LossCause, number> {
  return { sampling: 0, meter: 0, rate: 0, queue: 0, ends: 0, denied: 0, names: 0, kernel: 0, disk: 0 };
}
