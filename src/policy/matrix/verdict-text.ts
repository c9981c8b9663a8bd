import type { PolicyOutcome } from './matrix.ts';

/** Returns a verdict as text, with what the sender of a denied packet gets if a namespace or a policy states it. */
export function verdictText({ verdict, denial }: Pick<PolicyOutcome, 'verdict' | 'denial'>): string {
  return denial ? `${verdict}, ${denial}` : verdict;
}
