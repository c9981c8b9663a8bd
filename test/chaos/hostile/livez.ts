import { setTimeout as sleep } from 'node:timers/promises';
import { askSocket } from '../host.ts';

const everyMs = 100;

/** Polls agents' liveness, and records the longest response time of each. */
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

  /** Problems since the last call; and the slowest answer. */
  take(): { readonly problems: readonly string[]; readonly slowestMs: number } {
    const problems = [...this.#failures];
    const slowestMs = Math.max(0, ...this.#slowestMs.values());
    this.#failures.clear();
    this.#slowestMs.clear();
    return { problems, slowestMs };
  }

  /** Does not poll an agent that is ended on purpose, until `begun`. */
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
    // It may have been ended during the request.
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
