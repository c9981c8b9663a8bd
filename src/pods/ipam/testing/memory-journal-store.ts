import type { JournalStore } from '../journal-store.ts';

/** Result of one write: it succeeds, it fails (disk full), or the host crashes during it. */
export type WriteOutcome = 'done' | 'failed' | 'crash';

export type WriteStep = 'append' | 'sync' | 'replace';

export class SimulatedCrash extends Error {
  override readonly name = 'MachineDied';
}

/**
 * Journal store in memory for tests, with exactly the guarantees of `JournalStore`: a failed or interrupted append leaves any part of its
 * bytes, unsynced bytes may turn into zeros in a crash of the host, an interrupted replace leaves the old or the new content, and after a
 * crash every call fails.
 */
export class MemoryJournalStore implements JournalStore {
  content: Uint8Array;
  syncs = 0;
  replaces = 0;
  #dead = false;
  /** Ranges that a crash of the host may set to zeros. */
  #unsynced: (readonly [from: number, to: number])[] = [];
  readonly #fate: (step: WriteStep) => WriteOutcome;
  /** Returns a number from 0 up to, but not including, its argument. */
  readonly #pick: (below: number) => number;

  constructor(
    content: Uint8Array = new Uint8Array(),
    fate: (step: WriteStep) => WriteOutcome = () => 'done',
    pick: (below: number) => number = () => 0,
  ) {
    this.content = content;
    this.#fate = fate;
    this.#pick = pick;
  }

  get dead(): boolean {
    return this.#dead;
  }

  async load(): Promise<Uint8Array> {
    return await Promise.resolve(this.content);
  }

  append(bytes: Uint8Array): void {
    const fate = this.#nextFate('append');
    const written = fate === 'done' ? bytes.length : this.#pick(bytes.length + 1);
    this.#unsynced.push([this.content.length, this.content.length + written]);
    this.content = Buffer.concat([this.content, bytes.subarray(0, written)]);
    this.#act(fate);
  }

  async sync(): Promise<void> {
    const before = this.#unsynced.length;
    await Promise.resolve();
    const fate = this.#nextFate('sync');
    this.syncs++;
    if (fate === 'done') this.#unsynced.splice(0, before);
    this.#act(fate);
  }

  async replace(bytes: Uint8Array): Promise<void> {
    await Promise.resolve();
    const fate = this.#nextFate('replace');
    this.replaces++;
    if (fate === 'done' || (fate === 'crash' && this.#pick(2) === 1)) {
      this.content = Uint8Array.from(bytes);
      this.#unsynced = [];
    }
    this.#act(fate);
  }

  isInPlace(): boolean {
    return true;
  }

  async close(): Promise<void> {}

  #nextFate(step: WriteStep): WriteOutcome {
    if (this.#dead) throw new SimulatedCrash('the host no longer exists');
    return this.#fate(step);
  }

  #act(fate: WriteOutcome): void {
    if (fate === 'failed') throw Object.assign(new Error('ENOSPC: no space left on device'), { code: 'ENOSPC', syscall: 'write' });
    if (fate !== 'crash') return;
    this.#dead = true;
    for (const [from, to] of this.#unsynced) if (this.#pick(2) === 1) this.content.fill(0, from, to);
    throw new SimulatedCrash('the host failed during a write');
  }
}
