import { setTimeout as sleep } from 'node:timers/promises';
import { askSocket } from '../host.ts';

const everyMs = 100;

/** Asks agents again and again whether they live, and remembers the longest that each took to answer. */
export class LivezWatch {
  readonly #withinMs: number;
  readonly #slowestMs = new Map<string, number>();
  readonly #failures = new Set<string>();
  readonly #ended = new Set<string>();
  readonly #loops: readonly Promise<void>[];
  #isOpen = true;

  constructor(agents: readonly { readonly name: string; readonly agentSocket: string }[], withinMs: number) {
    this.#withinMs = withinMs;
    this.#loops = agents.map((agent) => this.#watch(agent));
  }

  /** What went wrong since the last call, in words; and the slowest answer. */
  take(): { readonly problems: readonly string[]; readonly slowestMs: number } {
    const problems = [...this.#failures];
    const slowestMs = Math.max(0, ...this.#slowestMs.values());
    this.#failures.clear();
    this.#slowestMs.clear();
    return { problems, slowestMs };
  }

  /** Asks nothing of an agent that is ended on purpose, until `begun`. */
  ended(name: string): void {
    this.#ended.add(name);
  }

  begun(name: string): void {
    this.#ended.delete(name);
  }

  async close(): Promise<void> {
    this.#isOpen = false;
    await Promise.all(this.#loops);
  }

  async #watch({ name, agentSocket }: { readonly name: string; readonly agentSocket: string }): Promise<void> {
    while (this.#isOpen) {
      if (!this.#ended.has(name)) await this.#ask(name, agentSocket);
      await sleep(everyMs);
    }
  }

  async #ask(name: string, agentSocket: string): Promise<void> {
    const startedMs = performance.now();
    const problem = await this.#problemOf(agentSocket);
    // It may have been ended while it was asked.
    if (this.#ended.has(name)) return;
    if (problem !== undefined) this.#failures.add(`the agent of ${name} ${problem}`);
    this.#slowestMs.set(name, Math.max(this.#slowestMs.get(name) ?? 0, performance.now() - startedMs));
  }

  async #problemOf(agentSocket: string): Promise<string | undefined> {
    try {
      const { status } = await askSocket(agentSocket, 'GET', '/livez', this.#withinMs);
      return status === 200 ? undefined : `answers /livez with ${status}`;
    } catch (thrown) {
      const why = thrown instanceof Error ? thrown.message : String(thrown);
      return `does not answer /livez within ${this.#withinMs} ms: ${why}`;
    }
  }
}
