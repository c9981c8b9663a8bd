export interface WarningsPort {
  readonly node: () => { readonly environmentProblem: string | undefined } | undefined;
  /** Of the node, in sentences, by the part of the agent that found them. */
  readonly warnings: ReadonlyMap<string, readonly string[]>;
}

/** What is wrong with the node itself, in sentences. */
export function warningsOf({ node, warnings }: WarningsPort): readonly string[] {
  const problem = node()?.environmentProblem;
  return [...(problem === undefined ? [] : [`the node is served as it was: ${problem}`]), ...[...warnings.values()].flat()];
}
