import { type PolicyMode, policyModes } from '../connectivity/environment.ts';
import type { Node } from '../kube/node.ts';

type AnnotatedNode = Pick<Node, 'policyMode'>;

/** What holds on a node: its annotation, if that is a mode, else what is configured. Pure. */
export function nodePolicyMode(configured: PolicyMode, { policyMode }: AnnotatedNode): PolicyMode {
  return policyModes.find((mode) => mode === policyMode) ?? configured;
}

/** Why the annotation does not count, in a sentence; undefined if it does, or if there is none. Pure. */
export function policyModeFault(configured: PolicyMode, { policyMode }: AnnotatedNode): string | undefined {
  if (policyMode === undefined || policyModes.some((mode) => mode === policyMode)) return undefined;
  const known = policyModes.join(', ');
  return `the Node's annotation seine.dev/policy-mode is ${JSON.stringify(policyMode)}, and none of ${known}: ${configured} stays, as configured`;
}
