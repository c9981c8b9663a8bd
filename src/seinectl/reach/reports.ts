import type { ReachDisagreement } from '../../policy/reach/confirm.ts';
import { partyName } from '../../policy/reach/party.ts';
import { portsText } from '../../policy/reach/table.ts';
import { safeLine } from '../escape.ts';
import type { Terminal } from '../terminal.ts';
import { count } from '../words.ts';

/** Maximum number of disagreements that are printed. */
const SHOWN_MAX = 5;

/** Reports results that the reference does not confirm. They are bugs of Seine, and the other results may be wrong too. */
export function reportDisagreements(disagreements: readonly ReachDisagreement[], terminal: Terminal): void {
  if (disagreements.length === 0) return;
  terminal.remark(`seinectl: ${count(disagreements.length, 'result')} not confirmed by the reference: a bug, please report it`);
  for (const { from, to, family, range, reference } of disagreements.slice(0, SHOWN_MAX))
    terminal.remark(
      safeLine(
        `  ${partyName(from)} to ${partyName(to)}, ${family}, ${portsText([range])}: engine ${range.verdict}, reference ${reference}`,
      ),
    );
}

/** Reports objects that a support bundle does not have. */
export function remarkLack(lack: string, terminal: Terminal): void {
  terminal.remark(safeLine(`seinectl: ${lack}`));
}
