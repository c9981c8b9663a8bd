import type { Agent } from './agent.ts';

/** What is wrong with the node itself, in sentences. */
export function warningsOf({ node, warnings }: Pick<Agent, 'node' | 'warnings'>): readonly string[] {
  const problem = node()?.environmentProblem;
  return [...(problem === undefined ? [] : [`the node is served as it was: ${problem}`]), ...[...warnings.values()].flat()];
}
