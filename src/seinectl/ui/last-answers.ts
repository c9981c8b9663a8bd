import { SeineError } from '../../base/errors/seine-error.ts';
import type { Aged } from '../../ui/answers/failure.ts';
import type { UiRoute } from '../../ui/server/ui-server.ts';

/** Number of answers that are kept. */
const KEPT_MAX = 50;

/**
 * Keeps the last answer of each question, and returns it with its age while the API server does not answer. Equal questions at the same time
 * share one answer.
 */
export class LastAnswers {
  readonly #kept = new Map<string, Aged<unknown>>();
  readonly #running = new Map<string, Promise<Aged<unknown>>>();
  readonly #clock: () => number;

  /** @param clock milliseconds since 1970 */
  constructor(clock: () => number) {
    this.#clock = clock;
  }

  /** @param name of the question */
  route(name: string, route: UiRoute): UiRoute {
    return async (query) => {
      const key = `${name}?${query}`;
      const running = this.#running.get(key) ?? this.#ask(key, route, query).finally(() => this.#running.delete(key));
      this.#running.set(key, running);
      return await running;
    };
  }

  async #ask(key: string, route: UiRoute, query: URLSearchParams): Promise<Aged<unknown>> {
    try {
      // A page that leaves does not end the question: another may wait for it.
      const aged = { answer: await route(query, new AbortController().signal, ''), atMs: this.#clock() };
      this.#kept.delete(key);
      this.#kept.set(key, aged);
      const [oldest] = this.#kept.keys();
      if (this.#kept.size > KEPT_MAX && oldest !== undefined) this.#kept.delete(oldest);
      return aged;
    } catch (thrown) {
      const error = SeineError.from(thrown, 'answer');
      const kept = this.#kept.get(key);
      if (error.code === 'UNAVAILABLE' && kept) return { ...kept, stale: error.rawMessage };
      throw error;
    }
  }
}
