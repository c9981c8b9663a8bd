import './install-buffer.ts';
import { config } from 'zod';
import type { SimulatorMessage, SimulatorReply } from '../../ui/answers/simulator.ts';
import { simulatorAnswers } from './answer-questions.ts';

/** Part of `DedicatedWorkerGlobalScope` that is used. */
interface WorkerScope {
  onmessage: (event: { readonly data: SimulatorMessage }) => void;
  postMessage(reply: SimulatorReply): void;
}

// The page's Content Security Policy forbids code from text.
config({ jitless: true });

const scope = globalThis as unknown as WorkerScope;
const answer = simulatorAnswers(() => performance.now());
scope.onmessage = ({ data }) => void answer(data).then((reply) => scope.postMessage(reply));
