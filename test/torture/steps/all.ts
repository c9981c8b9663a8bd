import type { StepKind } from '../step.ts';
import { flowSteps } from './flows.ts';
import { hostSteps } from './host.ts';
import { lifeSteps } from './life.ts';
import { objectSteps } from './objects.ts';
import { serviceSteps } from './services.ts';
import { stallSteps } from './stalls.ts';

/** Every kind of step. */
export const stepFamilies: readonly (readonly StepKind[])[] = [
  flowSteps,
  hostSteps,
  [...serviceSteps, ...objectSteps],
  lifeSteps,
  stallSteps,
];
