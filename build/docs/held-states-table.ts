import { heldStates } from '../../test/support/held-states.ts';

/** The table of `docs/reliability.md` of what is watched, from the data that its tests run by. */
export function heldStatesTable(): string {
  const rows = Object.entries(heldStates).map(([id, { state, found, withinMs, repaired, said, alerts, tests }]) => {
    const cells = [`${state} (${id})`, found, `${withinMs / 1_000} s`, repaired, said];
    return `| ${[...cells, ...[alerts, tests].map((names) => names.map((name) => `\`${name}\``).join(', '))].join(' | ')} |`;
  });
  return ['| State (row) | Found | Within | Repaired | Said | Alerts | Tests |', '|---|---|---|---|---|---|---|', ...rows].join('\n');
}
