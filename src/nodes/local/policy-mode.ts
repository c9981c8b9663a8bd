import { type PolicyMode, policyModes } from '../../dataplane/compile/environment.ts';

/** Policy modes set for a node from each source; any may be invalid. */
interface ReportedModes {
  /** Mode of this node, from its annotation `seine.dev/policy-mode`. */
  readonly annotation?: string | undefined;
  /** Mode of all nodes, from `policy.mode` in the ConfigMap `seine-live`. */
  readonly live?: string | undefined;
  /** Mode from the agent's own configuration. */
  readonly configured: PolicyMode;
}

/** Returns the mode of a node: the first valid one of annotation, ConfigMap and configuration. Pure. */
export function nodePolicyMode({ annotation, live, configured }: ReportedModes): PolicyMode {
  return modeOf(annotation) ?? modeOf(live) ?? configured;
}

/** Returns the reasons why set modes do not count, one sentence each; empty if all do. Pure. */
export function policyModeFaults(said: ReportedModes): readonly string[] {
  const holds = nodePolicyMode(said);
  const fault = (where: string, text: string | undefined): readonly string[] =>
    text === undefined || modeOf(text) !== undefined
      ? []
      : [`${where} is ${JSON.stringify(text)}, which is not one of ${policyModes.join(', ')}: ${holds} is in force`];
  return [
    ...fault("the Node's annotation seine.dev/policy-mode", said.annotation),
    ...fault('policy.mode in ConfigMap seine-system/seine-live', said.live),
  ];
}

function modeOf(text: string | undefined): PolicyMode | undefined {
  return policyModes.find((mode) => mode === text);
}
