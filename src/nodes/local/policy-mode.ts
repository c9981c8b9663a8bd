import { type PolicyMode, policyModes } from '../../dataplane/compile/environment.ts';

/** What has been said of a node's policy mode, by whoever may say it; none of it need be a mode. */
interface SaidModes {
  /** Of this node, by its annotation `seine.dev/policy-mode`. */
  readonly annotation?: string | undefined;
  /** Of all nodes, by `policy.mode` in the ConfigMap `seine-live`. */
  readonly live?: string | undefined;
  /** By the agent's own configuration. */
  readonly configured: PolicyMode;
}

/** What holds on a node: the first of annotation, ConfigMap and configuration that is a mode. Pure. */
export function nodePolicyMode({ annotation, live, configured }: SaidModes): PolicyMode {
  return modeOf(annotation) ?? modeOf(live) ?? configured;
}

/** Why something that was said does not count, in sentences; empty if all of it does. Pure. */
export function policyModeFaults(said: SaidModes): readonly string[] {
  const holds = nodePolicyMode(said);
  const fault = (where: string, text: string | undefined): readonly string[] =>
    text === undefined || modeOf(text) !== undefined
      ? []
      : [`${where} is ${JSON.stringify(text)}, and none of ${policyModes.join(', ')}: ${holds} holds`];
  return [
    ...fault("the Node's annotation seine.dev/policy-mode", said.annotation),
    ...fault('policy.mode in ConfigMap seine-system/seine-live', said.live),
  ];
}

function modeOf(text: string | undefined): PolicyMode | undefined {
  return policyModes.find((mode) => mode === text);
}
