import { allInputs, type InputsPort } from '../compiler-inputs/current-inputs.ts';
import { type ApiAnswer, linesAnswer } from './answer.ts';

/** Inputs of all compilers for this node's bridge, one JSON object per line: `seinectl compile` computes its flows again from them. */
export function inputs(port: InputsPort): ApiAnswer {
  return linesAnswer(allInputs(port, port.running()), port.turns);
}
