const LINES_MAX = 5_000;
const CHARACTERS_MAX = 2 * 1024 * 1024;
/** Maximum number of characters kept of one line. */
const LINE_MAX = 16 * 1024;

/** Last lines of a log, in memory, for `seinectl collect`, wherever the runtime sends standard error. */
export class LineRing {
  #lines: string[] = [];
  /** Index of the first line of `#lines` that still counts: moving all lines for each new one would cost too much. */
  #first = 0;
  #characters = 0;
  #dropped = 0;

  /** Adds a line. @param line including its line break */
  push(line: string): void {
    const kept = line.length > LINE_MAX ? `${line.slice(0, LINE_MAX)}\n` : line;
    this.#lines.push(kept);
    this.#characters += kept.length;
    while (this.#lines.length - this.#first > LINES_MAX || this.#characters > CHARACTERS_MAX) {
      this.#characters -= this.#lines[this.#first]?.length ?? 0;
      this.#first++;
      this.#dropped++;
    }
    if (this.#first > LINES_MAX) {
      this.#lines = this.#lines.slice(this.#first);
      this.#first = 0;
    }
  }

  /** Number of lines dropped before the first one kept. */
  get dropped(): number {
    return this.#dropped;
  }

  text(): string {
    return this.#lines.slice(this.#first).join('');
  }
}
