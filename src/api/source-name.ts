/** Names for people of the two copies of Pods that an agent follows; every other copy has the name of its kind. */
const namesOfPods: Readonly<Record<string, string>> = { PolicyPod: 'Pod (all, for policies)', Pod: 'Pod (of this node)' };

/** Name for people of a followed resource. @param kind as in the JSON of `status` and in the label `kind` of metrics */
export function sourceName(kind: string): string {
  return namesOfPods[kind] ?? kind;
}
