import { setTimeout as sleep } from 'node:timers/promises';
import { askSocket } from '../machine.ts';

const everyMs = 100;

/** Asks agents again and again whether they live, and remembers the longest that each took to answer. */
export class LivezWatch {
  readonly #withinMs: number;
  readonly #slowestMs = new Map<string, number>();
  readonly #failures = new Set<string>();
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

  async close(): Promise<void> {
    this.#isOpen = false;
    await Promise.all(this.#loops);
  }

  async #watch({ name, agentSocket }: { readonly name: string; readonly agentSocket: string }): Promise<void> {
    while (this.#isOpen) {
      const startedMs = performance.now();
      try {
        const { status } = await askSocket(agentSocket, 'GET', '/livez', this.#withinMs);
        if (status !== 200) this.#failures.add(`the agent of ${name} answers /livez with ${status}`);
      } catch (thrown) {
        const why = thrown instanceof Error ? thrown.message : String(thrown);
        this.#failures.add(`the agent of ${name} does not answer /livez within ${this.#withinMs} ms: ${why}`);
      }
      this.#slowestMs.set(name, Math.max(this.#slowestMs.get(name) ?? 0, performance.now() - startedMs));
      await sleep(everyMs);
    }
  }
}
