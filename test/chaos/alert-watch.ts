import { setTimeout as sleep } from 'node:timers/promises';
import { type Beside, firing, ofObjects, readAlerts, scrapeOf } from './alerts.ts';
import { metrics } from './counters.ts';
import type { Place } from './host.ts';
import { Expression, type Scrape } from './promql.ts';

/** A killed agent is back after a fifth of a second, and reading its metrics takes a part of that (ms). */
const everyMs = 40;
/** Shorter than the time in which a killed agent may be back and ready (ms). */
const goneMs = 20;
/** A long step is scraped less often: this number of times in its length so far. */
const observationsOfInterval = 100;
const pollMs = 50;
const timeoutMs = 1_000;
/** When a switch reconnects, having lost all flows, `SeineDrift` does not fire. */
const connects = new Expression('increase(seine_agent_openflow_connects_total{connection="flows"}[1h]) > 0');

/** Reads an agent's metrics repeatedly, as Prometheus does, and records which alerts were true meanwhile, without their `for`. */
export class AlertWatch {
  readonly #place: Place;
  readonly #alerts = readAlerts();
  readonly #wanted: ReadonlySet<string>;
  readonly #over = new AbortController();
  /** Scrapes since the step began. */
  #scrapes: readonly Scrape[] = [];
  #begunMs = 0;
  #beside: Beside | undefined;
  #became = new Set<string>();
  #turn: Promise<unknown> = Promise.resolve();
  /** Time of the last counted scrape without an answer; undefined if the last one had one. */
  #goneMs: number | undefined;
  /**
   * True if an agent that was gone was ready at the first scrape that it answered: between two scrapes it may have run and not been ready.
   */
  #cameReady = false;

  constructor(place: Place) {
    this.#place = place;
    this.#wanted = new Set([...this.#alerts.map(({ expression }) => expression), connects].flatMap((each) => each.metrics));
    void this.#goOn();
  }

  /** Starts a step: earlier scrapes are discarded. */
  async begin(): Promise<void> {
    await this.#turn;
    [this.#scrapes, this.#became, this.#begunMs, this.#cameReady] = [[], new Set(), performance.now(), false];
    await this.#look();
  }

  /** Reads the metrics now: the state may be too short to be seen by the next regular scrape. */
  async scrape(): Promise<void> {
    await this.#look();
  }

  /** Alerts that were true since the step began. */
  get became(): readonly string[] {
    return [...this.#became].toSorted();
  }

  /** Waits until an alert has been true since the step began, or for this time. @returns whether it was */
  async until(name: string, withinMs: number): Promise<boolean> {
    const overMs = performance.now() + withinMs;
    while (!this.#became.has(name) && performance.now() < overMs) await sleep(pollMs);
    return this.#became.has(name);
  }

  /** Also reads another agent from now on, as Prometheus reads all of a cluster; or stops. */
  readBeside(beside: Beside | undefined): void {
    this.#beside = beside;
  }

  /** Expected alerts that were not true since then. */
  missing(expected: readonly string[]): readonly string[] {
    const connected = connects.evaluate(this.#scrapes).length > 0;
    const excused = new Set([...(connected ? ['SeineDrift'] : []), ...(this.#cameReady ? ['SeineAgentNotReady'] : [])]);
    return expected.filter((name) => !this.#became.has(name) && !excused.has(name));
  }

  /** Number of scrapes since the step began. */
  get looks(): number {
    return this.#scrapes.length;
  }

  /**
   * Alerts that are true now. Alerts about contradictory objects only if the step made them true, and false again.
   *
   * @param since number of scrapes too old for expressions with a window
   */
  async firing(since: number, ofStep: readonly string[] = []): Promise<readonly string[]> {
    await this.#look();
    const found = firing(
      this.#alerts.filter(({ name }) => !ofObjects.has(name) || ofStep.includes(name)),
      this.#scrapes.slice(since),
    );
    return found.map(({ description }) => description);
  }

  close(): void {
    this.#over.abort();
  }

  async #goOn(): Promise<void> {
    while (!this.#over.signal.aborted) {
      await this.#look();
      const pauseMs = this.#goneMs === undefined ? Math.max(everyMs, (performance.now() - this.#begunMs) / observationsOfInterval) : goneMs;
      await sleep(pauseMs, undefined, { signal: this.#over.signal }).catch(() => undefined);
    }
  }

  /** Runs one after another. */
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
