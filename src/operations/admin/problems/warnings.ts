export interface WarningsPort {
  readonly node: () => { readonly environmentProblem: string | undefined } | undefined;
  /** Of the node, in sentences, by the part of the agent that found them. */
  readonly warnings: ReadonlyMap<string, readonly string[]>;
}

/** What is wrong with the node itself, in sentences. */
export function warningsOf(port: WarningsPort): readonly string[] {
  return namedWarnings(port).map(([, sentence]) => sentence);
}

/** The same, each with what found it. */
export function namedWarnings({ node, warnings }: WarningsPort): readonly (readonly [finder: string, sentence: string])[] {
  const problem = node()?.environmentProblem;
  const ofNode = problem === undefined ? [] : [['environment', `the node is served as it was: ${problem}`] as const];
  return [...ofNode, ...[...warnings].flatMap(([finder, sentences]) => sentences.map((sentence) => [finder, sentence] as const))];
}
