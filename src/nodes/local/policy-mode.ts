import { deniedChoices, type PolicyMode, policyModes } from '../../dataplane/compile/environment.ts';

/** Values of one setting of a node from each source; any may be invalid. */
interface ReportedValues<V extends string> {
  /** Value for this node, from an annotation of its Node object. */
  readonly annotation?: string | undefined;
  /** Value for all nodes, from the ConfigMap `seine-live`. */
  readonly live?: string | undefined;
  /** Value of the agent's own configuration. */
  readonly configured: V;
}

/** Annotation of the Node, if it can set a value, and key of the ConfigMap. */
interface SettingNames {
  readonly annotation?: string;
  readonly key: string;
}

/** Setting of a node that takes effect without a restart. */
export class LiveChoice<V extends string> {
  readonly #choices: readonly V[];
  readonly #names: SettingNames;

  constructor(choices: readonly V[], names: SettingNames) {
    this.#choices = choices;
    this.#names = names;
  }

  /** Returns the value of a node: the first valid one of annotation, ConfigMap and configuration. Pure. */
  of({ annotation, live, configured }: ReportedValues<V>): V {
    return this.#valid(annotation) ?? this.#valid(live) ?? configured;
  }

  /** Returns the reasons why set values do not count, one sentence each; empty if all do. Pure. */
  faults(reported: ReportedValues<V>): readonly string[] {
    const inForce = this.of(reported);
    const fault = (where: string, text: string | undefined): readonly string[] =>
      text === undefined || this.#valid(text) !== undefined
        ? []
        : [`${where} is ${JSON.stringify(text)}, which is not one of ${this.#choices.join(', ')}: ${inForce} is in force`];
    return [
      ...fault(`the Node's annotation ${this.#names.annotation ?? ''}`, reported.annotation),
      ...fault(`${this.#names.key} in ConfigMap seine-system/seine-live`, reported.live),
    ];
  }

  #valid(text: string | undefined): V | undefined {
    return this.#choices.find((choice) => choice === text);
  }
}

/** Policy mode of a node. */
export const nodePolicyMode = new LiveChoice<PolicyMode>(policyModes, { annotation: 'seine.dev/policy-mode', key: 'policy.mode' });

/** Answer to denied clients on a node. */
export const nodeDenied = new LiveChoice<(typeof deniedChoices)[number]>(deniedChoices, {
  annotation: 'seine.dev/denied',
  key: 'policy.denied',
});
