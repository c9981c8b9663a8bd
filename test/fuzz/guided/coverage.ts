import { type Profiler, Session } from 'node:inspector';

interface FunctionBlocks {
  /** Beginnings or continuations of blocks that never ran, as offsets into the source. */
  readonly waiting: Set<number>;
  readonly known: Set<number>;
}

/**
 * Blocks of the sources that have run, by V8's own counters. Source: Chrome DevTools Protocol, domain Profiler; V8's block coverage gives,
 * for each function that was called since the last read, nested ranges with counts, and omits a range whose count is that of its parent.
 */
export class Coverage {
  readonly #session = new Session();
  readonly #isOfInterest: (url: string) => boolean;
  readonly #functions = new Map<string, FunctionBlocks>();
  #blocks = 0;

  /** @param isOfInterest reports whether a script counts, by its URL */
  constructor(isOfInterest: (url: string) => boolean) {
    this.#isOfInterest = isOfInterest;
    this.#session.connect();
    this.#session.post('Profiler.enable');
    this.#session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: true });
  }

  /** Number of blocks that have run so far. */
  get blocks(): number {
    return this.#blocks;
  }

  /** Number of new blocks since the last read. They count as run from now on. */
  take(): number {
    const found = this.#look((waiting, offset) => waiting.delete(offset));
    this.#blocks += found;
    return found;
  }

  /** Like `take`, but they still count as not run. */
  peek(): number {
    return this.#look(() => undefined);
  }

  stop(): void {
    this.#session.disconnect();
  }

  #look(found: (waiting: Set<number>, offset: number) => unknown): number {
    let count = 0;
    this.#session.post('Profiler.takePreciseCoverage', (error, taken) => {
      if (error !== null) throw error;
      for (const { url, functions } of taken.result) {
        if (!this.#isOfInterest(url)) continue;
        for (const { ranges } of functions) {
          const waiting = this.#waitingOf(url, ranges);
          for (const offset of waiting) {
            if (countAt(ranges, offset) === 0) continue;
            count += 1;
            found(waiting, offset);
          }
        }
      }
    });
    return count;
  }

  /** Beginnings of blocks of this function that have not run, among them those seen for the first time. */
  #waitingOf(url: string, ranges: readonly Profiler.CoverageRange[]): Set<number> {
    const [whole] = ranges;
    if (whole === undefined || whole.count === 0) return none;
    const key = `${url} ${whole.startOffset} ${whole.endOffset}`;
    const { known, waiting } = this.#functions.get(key) ?? { known: new Set<number>(), waiting: new Set<number>() };
    this.#functions.set(key, { known, waiting });
    for (const offset of ranges.flatMap(({ startOffset, endOffset }) => [startOffset, endOffset])) {
      if (known.has(offset) || offset >= whole.endOffset) continue;
      known.add(offset);
      waiting.add(offset);
    }
    return waiting;
  }
}

const none = new Set<number>();

/** Count of the innermost range that contains it: V8 gives outer ones before inner ones. */
function countAt(ranges: readonly Profiler.CoverageRange[], offset: number): number {
  return ranges.findLast(({ startOffset, endOffset }) => startOffset <= offset && offset < endOffset)?.count ?? 0;
}
