import type { NodePaths } from '../lab.ts';
import type { StepKind } from '../step.ts';
import { alertSteps } from './alert-steps.ts';
import { flowSteps } from './flows.ts';
import { hostSteps } from './host.ts';
import { lifeSteps } from './life.ts';
import { objectSteps } from './objects.ts';
import { directSteps, encryptionSteps } from './paths.ts';
import { podSteps } from './pods.ts';
import { standingSteps } from './pre-plugged.ts';
import { serviceSteps } from './services.ts';
import { stallSteps } from './stalls.ts';

/** Kinds of steps that are drawn by family; those of pods are drawn separately. */
export const stepFamilies: readonly (readonly StepKind[])[] = [
  flowSteps,
  hostSteps,
  [...serviceSteps, ...objectSteps],
  lifeSteps,
  stallSteps,
];

/** Like `stepFamilies`, with pre-plugged ports. */
export const standingFamilies: readonly (readonly StepKind[])[] = stepFamilies.map((kinds) =>
  kinds === hostSteps ? [...hostSteps, ...standingSteps] : kinds,
);

/** Steps of labs whose nodes do not use the tunnel; other labs have no such targets. */
export const pathSteps: Readonly<Record<NodePaths, readonly StepKind[]>> = { noEncap: directSteps, wireguard: encryptionSteps };

/** Every kind that seeds draw in a lab with the tunnel, once. */
export const drawnKinds: readonly StepKind[] = [
  ...new Map([...stepFamilies.flat(), ...podSteps, ...standingSteps].map((kind) => [kind.name, kind])).values(),
];

/**
 * All of these and those without a family, which no seed draws, so that seeds keep their meaning: they are executed if `--kind` names them.
 */
export const everyKind: readonly StepKind[] = [...drawnKinds, ...new Set([...directSteps, ...encryptionSteps]), ...alertSteps];
