export interface WarningsPort {
  readonly node: () => { readonly environmentProblem: string | undefined } | undefined;
  /** Warnings about the node, as sentences, by the part of the agent that found them. */
  readonly warnings: ReadonlyMap<string, readonly string[]>;
}

/** Problems of the node itself, as sentences. */
export function warningsOf(port: WarningsPort): readonly string[] {
  return namedWarnings(port).map(([, sentence]) => sentence);
}

/** The same, each with the part that found it. */
export function namedWarnings({ node, warnings }: WarningsPort): readonly (readonly [finder: string, sentence: string])[] {
  const problem = node()?.environmentProblem;
  const ofNode = problem === undefined ? [] : [['environment', `the node is served as it was: ${problem}`] as const];
  return [...ofNode, ...[...warnings].flatMap(([finder, sentences]) => sentences.map((sentence) => [finder, sentence] as const))];
}
