import { setTimeout as sleep } from 'node:timers/promises';
import { type Beside, firing, ofObjects, readAlerts, scrapeOf } from './alerts.ts';
import { metrics } from './counters.ts';
import type { Place } from './host.ts';
import { Expression, type Scrape } from './promql.ts';

/** An agent that is killed is there again after a fifth of a second, and reading its metrics takes a part of that (ms). */
const everyMs = 40;
/** An agent that is gone may be there again, and ready, sooner than that. */
const goneMs = 20;
/** A step that lasts long is looked at more seldom: so many times in all its length so far. */
const looksOfLong = 100;
const pollMs = 50;
const timeoutMs = 1_000;
/** Of a switch that connects anew, which has lost all flows, `SeineDrift` says nothing. */
const connects = new Expression('increase(seine_agent_openflow_connects_total{connection="flows"}[1h]) > 0');

/** Looks at an agent's metrics again and again, as Prometheus does, and knows which alerts were true meanwhile, without their `for`. */
export class AlertWatch {
  readonly #place: Place;
  readonly #alerts = readAlerts();
  readonly #wanted: ReadonlySet<string>;
  readonly #over = new AbortController();
  /** Since the step began. */
  #scrapes: readonly Scrape[] = [];
  #begunMs = 0;
  #beside: Beside | undefined;
  #became = new Set<string>();
  #turn: Promise<unknown> = Promise.resolve();
  /** When a look that counts had no answer, if the last one had none. */
  #goneMs: number | undefined;
  /** One that was gone was ready at the first look that it answered: between two looks it may have been there and not ready. */
  #cameReady = false;

  constructor(place: Place) {
    this.#place = place;
    this.#wanted = new Set([...this.#alerts.map(({ expression }) => expression), connects].flatMap((each) => each.metrics));
    void this.#goOn();
  }

  /** A step begins: what was before is forgotten. */
  async begin(): Promise<void> {
    await this.#turn;
    [this.#scrapes, this.#became, this.#begunMs, this.#cameReady] = [[], new Set(), performance.now(), false];
    await this.#look();
  }

  /** Which were true since the step began. */
  get became(): readonly string[] {
    return [...this.#became].toSorted();
  }

  /** Waits until it has been true since the step began, or for so long. @returns whether it was */
  async until(name: string, withinMs: number): Promise<boolean> {
    const overMs = performance.now() + withinMs;
    while (!this.#became.has(name) && performance.now() < overMs) await sleep(pollMs);
    return this.#became.has(name);
  }

  /** From now on another agent is read as well, as Prometheus reads all of a cluster; or no more. */
  readBeside(beside: Beside | undefined): void {
    this.#beside = beside;
  }

  /** Which of these ought to have been true since then, and were not. */
  missing(expected: readonly string[]): readonly string[] {
    const connected = connects.evaluate(this.#scrapes).length > 0;
    const excused = new Set([...(connected ? ['SeineDrift'] : []), ...(this.#cameReady ? ['SeineAgentNotReady'] : [])]);
    return expected.filter((name) => !this.#became.has(name) && !excused.has(name));
  }

  /** How many looks there were since the step began. */
  get looks(): number {
    return this.#scrapes.length;
  }

  /**
   * Which are true now. Those of objects that contradict each other only if the step had to make them true, and false again.
   *
   * @param since how many looks are too old for what asks for a window
   */
  async firing(since: number, ofStep: readonly string[] = []): Promise<readonly string[]> {
    await this.#look();
    const found = firing(
      this.#alerts.filter(({ name }) => !ofObjects.has(name) || ofStep.includes(name)),
      this.#scrapes.slice(since),
    );
    return found.map(({ told }) => told);
  }

  close(): void {
    this.#over.abort();
  }

  async #goOn(): Promise<void> {
    while (!this.#over.signal.aborted) {
      await this.#look();
      const pauseMs = this.#goneMs === undefined ? Math.max(everyMs, (performance.now() - this.#begunMs) / looksOfLong) : goneMs;
      await sleep(pauseMs, undefined, { signal: this.#over.signal }).catch(() => undefined);
    }
  }

  /** One after another. */
  #look(): Promise<void> {
    const look = this.#turn.then(async () => {
      const text = await metrics(this.#place, timeoutMs);
      const nowMs = performance.now();
      if (text === '' && this.#goneMs !== undefined && nowMs - this.#goneMs < everyMs) return; // as the last one
      const isBack = text !== '' && this.#goneMs !== undefined;
      this.#goneMs = text === '' ? nowMs : undefined;
      const beside = this.#beside && { only: this.#beside.only, text: await metrics(this.#beside.place, timeoutMs) };
      this.#scrapes = [...this.#scrapes, scrapeOf(nowMs, text, this.#wanted, beside)];
      const now = firing(this.#alerts, this.#scrapes).map(({ name }) => name);
      for (const name of now) this.#became.add(name);
      if (isBack && !now.includes('SeineAgentNotReady')) this.#cameReady = true;
    });
    this.#turn = look;
    return look;
  }
}
