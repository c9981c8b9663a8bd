/** Maximum number of names of one generation. Further names are recorded as unknown, and counted. */
const generationMax = 16_384;
const lengthMax = 1_024;

/** Number of the empty name, and of a name that found no room. */
export const noName = 0;

/**
 * Numbers for names, so that a record has a fixed size. A name lives for two generations: records older than that have been overwritten.
 * Every generation begins when the ring has been written once completely.
 */
export class RecordedNames {
  readonly #most: number;
  #old = new Map<string, number>();
  #oldTexts: string[] = [];
  #current = new Map<string, number>();
  #currentTexts: string[] = [];
  /** Number of the first name of the current generation. */
  #first = 1;
  /** Number of names that found no room. */
  refused = 0;

  constructor(most = generationMax) {
    this.#most = most;
  }

  /** Returns the number of a name; `noName` for an empty one, and if there is no room. */
  numberOf(name: string): number {
    if (name === '') return noName;
    const text = name.length > lengthMax ? name.slice(0, lengthMax) : name;
    const known = this.#current.get(text);
    if (known !== undefined) return known;
    if (this.#currentTexts.length >= this.#most) {
      // A name of the previous generation would be lost before its record is.
      this.refused++;
      return noName;
    }
    const number = this.#first + this.#currentTexts.length;
    this.#currentTexts.push(text);
    this.#current.set(text, number);
    return number;
  }

  /** Returns the name; the empty one for `noName` and for a name that was forgotten. */
  nameOf(number: number): string {
    if (number >= this.#first) return this.#currentTexts[number - this.#first] ?? '';
    return this.#oldTexts[number - (this.#first - this.#oldTexts.length)] ?? '';
  }

  /** Begins a generation; names that were not used in the last one are forgotten. */
  nextGeneration(): void {
    this.#first += this.#currentTexts.length;
    [this.#old, this.#oldTexts] = [this.#current, this.#currentTexts];
    [this.#current, this.#currentTexts] = [new Map(), []];
  }

  /** Number of names that are kept. */
  get size(): number {
    return this.#old.size + this.#current.size;
  }
}
