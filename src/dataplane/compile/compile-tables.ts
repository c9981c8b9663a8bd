import { reg } from '../pipeline/fields.ts';
import type { Flow, Step } from '../pipeline/flow.ts';
import { drop, goto, load, priority, resubmit } from '../pipeline/flow.ts';
import { type PipelineTableName, tableNames, tables } from '../pipeline/tables.ts';

/** Compiles the flow of lowest priority in each table: the miss of the table list. */
export function compileTables(): readonly Flow[] {
  return tableNames
    .filter((name) => tables[name].miss !== 'return')
    .map((table) => ({ table, priority: priority.miss, match: {}, steps: missSteps(table) }));
}

function missSteps(table: PipelineTableName): readonly Step[] {
  const { miss } = tables[table];
  switch (miss) {
    case 'drop':
    case 'return':
      return drop;
    case 'chooseEndpoint':
      return [load(reg.serviceState('choose'))];
    // Learned flows cannot `goto`, so a client with a learned endpoint has to return here before `balance`.
    case 'balanceOrPass':
      return [resubmit('affinity'), resubmit('balance')];
    default:
      return [goto(miss)];
  }
}
