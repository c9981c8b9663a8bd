import { SeineError } from '../../base/errors/seine-error.ts';
import type { SimulatorAnswers, SimulatorMessage, SimulatorQuestions, SimulatorReply, SimulatorTopic } from '../../ui/answers/simulator.ts';
import { Simulation } from './simulation.ts';

type Topics = { readonly [T in SimulatorTopic]: (question: SimulatorQuestions[T]) => SimulatorAnswers[T] | Promise<SimulatorAnswers[T]> };

/**
 * Answers questions one after another: each about the cluster that the last `load` before it made.
 *
 * @returns takes a message, and resolves with its reply; never rejects
 */
export function simulatorAnswers(nowMs: () => number): (message: SimulatorMessage) => Promise<SimulatorReply> {
  const simulation = new Simulation(nowMs);
  const topics: Topics = {
    load: ({ files }) => simulation.load(files),
    trace: (question) => simulation.trace(question),
    matrix: ({ namespace }) => simulation.matrix(namespace),
    whatIf: (question) => simulation.whatIf(question),
    test: ({ text }) => simulation.test(text),
    check: ({ checks }) => simulation.check(checks),
  };
  let last: Promise<unknown> = Promise.resolve();
  return (message) => {
    const reply = last.then(() => replyTo(message, topics));
    last = reply;
    return reply;
  };
}

async function replyTo<T extends SimulatorTopic>({ id, topic, question }: SimulatorMessage<T>, topics: Topics): Promise<SimulatorReply<T>> {
  try {
    return { id, answer: await topics[topic](question) };
  } catch (thrown) {
    const error = SeineError.from(thrown, 'simulate');
    return { id, failure: error.rawMessage, kind: error.code === 'INVALID_INPUT' ? 'invalid' : 'defect' };
  }
}
