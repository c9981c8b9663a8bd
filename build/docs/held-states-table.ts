import { heldStates } from '../../test/support/held-states.ts';

/** The table of `docs/reliability.md` of detected and repaired changes, from the data of its tests. */
export function heldStatesTable(): string {
  const rows = Object.values(heldStates).map(({ state, found, withinMs, repaired, tests }) => {
    const cells = [state, found, `${withinMs / 1_000} s`, repaired, `\`${tests[0]}\``];
    return `| ${cells.join(' | ')} |`;
  });
  return ['| State | Detected by | Within | Repair | Test |', '|---|---|---|---|---|', ...rows].join('\n');
}
