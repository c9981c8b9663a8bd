import { dropNames, drops } from '../../src/dataplane/pipeline/drops.ts';

/** Table of all named drops, in the order of the tables. */
export function dropsTable(): string {
  const rows = dropNames.map((name) => {
    const { table, message, cause, remedy } = drops[name];
    return `| \`${name}\` | \`${table}\` | ${message} | ${cause} | ${remedy} |`;
  });
  return ['| Reason | Table | Meaning | Usual cause | What to do |', '|---|---|---|---|---|', ...rows].join('\n');
}
