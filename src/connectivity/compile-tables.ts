import { reg } from '../pipeline/fields.ts';
import type { Flow, Step } from '../pipeline/flow.ts';
import { drop, goto, load, priority, resubmit } from '../pipeline/flow.ts';
import { type TableName, tableNames, tables } from '../pipeline/tables.ts';

/** The flow of lowest priority in each table: what the table list says happens to packets that nobody wants. */
export function compileTables(): readonly Flow[] {
  return tableNames
    .filter((name) => tables[name].miss !== 'return')
    .map((table) => ({ table, priority: priority.miss, match: {}, steps: missSteps(table) }));
}

function missSteps(table: TableName): readonly Step[] {
  const { miss } = tables[table];
  switch (miss) {
    case 'drop':
    case 'return':
      return drop;
    case 'chooseEndpoint':
      return [load(reg.serviceState('choose'))];
    // Learned flows cannot `goto`, so whoever remembers a client's choice has to come back here before `balance`.
    case 'balanceOrPass':
      return [resubmit('affinity'), resubmit('balance')];
    default:
      return [goto(miss)];
  }
}
