import type { SimulatorAnswers, SimulatorMessage, SimulatorQuestions, SimulatorReply, SimulatorTopic } from '../../answers/simulator.ts';

interface Waiting {
  readonly resolve: (reply: SimulatorReply) => void;
}

type SimulatorResult<T extends SimulatorTopic> =
  | { readonly answer: SimulatorAnswers[T] }
  | { readonly failure: string; readonly kind: 'invalid' | 'defect' };

/** The worker that simulates, so that the page does not freeze. It is started with the first question. */
class SimulatorWorker {
  readonly #waiting = new Map<number, Waiting>();
  #worker: Worker | undefined;
  #last = 0;
  /** Called with the reason when the worker has ended, and with it its objects. */
  ended: (reason: string) => void = () => {};

  /** Asks the worker; never rejects. */
  ask<T extends SimulatorTopic>(topic: T, question: SimulatorQuestions[T]): Promise<SimulatorResult<T>> {
    const id = ++this.#last;
    const message: SimulatorMessage<T> = { id, topic, question };
    return new Promise((resolve) => {
      this.#waiting.set(id, { resolve: resolve as (reply: SimulatorReply) => void });
      this.#started().postMessage(message);
    });
  }

  #started(): Worker {
    if (this.#worker) return this.#worker;
    const worker = new Worker(new URL('./simulator-worker.js', import.meta.url), { type: 'module' });
    worker.onmessage = ({ data }: MessageEvent<SimulatorReply>) => {
      this.#waiting.get(data.id)?.resolve(data);
      this.#waiting.delete(data.id);
    };
    worker.onerror = () => this.stop('the simulator has ended: the browser may have too little memory for these objects');
    this.#worker = worker;
    return worker;
  }

  /** Ends the worker and its questions; the next question starts another one, without objects. */
  stop(reason: string): void {
    this.#worker?.terminate();
    this.#worker = undefined;
    const waiting = [...this.#waiting];
    this.#waiting.clear();
    this.ended(reason);
    for (const [id, { resolve }] of waiting) resolve({ id, failure: reason, kind: 'defect' });
  }
}

export const simulatorWorker = new SimulatorWorker();
