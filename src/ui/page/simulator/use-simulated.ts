import { useEffect, useState } from 'preact/hooks';
import type { SimulatorAnswers, SimulatorQuestions, SimulatorTopic } from '../../answers/simulator.ts';
import type { Asked } from '../questions.ts';
import { loadedObjects } from './loaded-objects.ts';
import { simulatorWorker } from './simulator-worker.ts';

/** Asks the simulator about the loaded objects. @param question undefined: nothing is asked */
export function useSimulated<T extends Exclude<SimulatorTopic, 'load' | 'check'>>(
  topic: T,
  question: SimulatorQuestions[T] | undefined,
): Asked<SimulatorAnswers[T]> {
  const loaded = loadedObjects.value;
  const key = loaded?.state === 'loaded' && question ? `${loaded.revision} ${JSON.stringify(question)}` : undefined;
  const [state, setState] = useState<{ readonly key: string | undefined; readonly asked: Asked<SimulatorAnswers[T]> }>();
  const [turn, setTurn] = useState(0);
  const ask = (): void => setTurn((value) => value + 1);
  useEffect(() => {
    if (key === undefined || question === undefined) return;
    let isGone = false;
    void simulatorWorker.ask(topic, question).then((result) => {
      if (isGone) return;
      const known =
        'answer' in result
          ? { answer: result.answer }
          : { failure: { kind: result.kind === 'invalid' ? 'invalid' : 'unavailable', message: result.failure } as const };
      setState({ key, asked: { isLoading: false, ask, ...known } });
    });
    return () => {
      isGone = true;
    };
    // The key contains the question.
  }, [key, topic, turn]);
  return state?.key === key && state ? state.asked : { isLoading: key !== undefined, ask };
}
