import type { StepKind } from '../step.ts';
import { alertsOfAgent } from './alerts-of-agent.ts';
import { alertsOfApi } from './alerts-of-api.ts';
import { alertsOfPods } from './alerts-of-pods.ts';
import { alertsOfSwitch } from './alerts-of-switch.ts';

/** Kinds of steps that each make alerts true, and false again. */
export const alertSteps: readonly StepKind[] = [...alertsOfAgent, ...alertsOfApi, ...alertsOfPods, ...alertsOfSwitch];
