import { collapse } from '../../policy/reach/collapse.ts';
import type { ReachChange } from '../../policy/reach/difference.ts';
import type { WhatIfRow, WhatIfView } from '../../ui/answers/simulator.ts';
import type { ServedChange } from '../what-if/service-cells.ts';
import type { WhatIf } from '../what-if/what-if.ts';

const ROWS_MAX = 500;
const NAMES_SHOWN = 4;

const effects = { closed: 'breaks', opened: 'opens', 'other endpoints': 'moves' } as const;
const order: readonly WhatIfRow['effect'][] = ['breaks', 'opens', 'moves'];

type VerdictChange = ReachChange & { readonly change: 'opened' | 'closed' };

/** Texts about the use of rows today, in the order in which their connections collapse. */
interface UsedTexts {
  readonly connections: readonly (string | undefined)[];
  readonly services: readonly (string | undefined)[];
}

/** Converts the effect of a proposal for the page: connections with the same change are one row. */
export function whatIfView({ connections, services, units, ...result }: WhatIf, used?: UsedTexts): WhatIfView {
  const changes = connections.filter((each): each is VerdictChange => each.change !== 'other rule');
  const rows = [
    ...collapse(changes, units).map(
      ({ from, to, outcome }, at): WhatIfRow => ({
        ...rowOf({ from, to }, outcome, verdictText(outcome.before), verdictText(outcome.after)),
        ...usedOf(used?.connections[at]),
      }),
    ),
    ...collapse(services, units).map(
      ({ from, to, outcome }, at): WhatIfRow => ({
        ...rowOf({ from, to }, outcome, outcome.before, outcome.after),
        ...usedOf(used?.services[at]),
      }),
    ),
  ].toSorted((a, b) => order.indexOf(a.effect) - order.indexOf(b.effect));
  return {
    changed: result.changed,
    rows: rows.slice(0, ROWS_MAX),
    more: Math.max(0, rows.length - ROWS_MAX),
    conflicts: result.conflicts,
    notConsidered: result.notConsidered,
    confirmed: result.confirmed,
    contradicted: result.disagreements.length + result.serviceDisagreements.length,
  };
}

const usedOf = (used: string | undefined): Pick<WhatIfRow, 'used'> => (used === undefined ? {} : { used });

type RowEnds = { readonly from: readonly string[]; readonly to: readonly string[] };

function rowOf(
  { from, to }: RowEnds,
  { change, family, ports }: Pick<VerdictChange | ServedChange, 'change' | 'family' | 'ports'>,
  before: string,
  after: string,
): WhatIfRow {
  const of = family === undefined ? '' : ` (${{ ipv4: 'IPv4', ipv6: 'IPv6' }[family]})`;
  return { effect: effects[change], from: namesText(from), to: namesText(to), ports: `${ports}${of}`, before, after };
}

function verdictText({ verdict, by }: ReachChange['before']): string {
  const word = verdict === 'allow' ? 'allowed' : 'denied';
  return `${word} by ${by.length > 0 ? by.join(', ') : 'default'}`;
}

function namesText(names: readonly string[]): string {
  const shown = names.slice(0, NAMES_SHOWN).map((name) => (name === '*' ? 'all pods' : name));
  return `${shown.join(', ')}${names.length > NAMES_SHOWN ? ` and ${names.length - NAMES_SHOWN} more` : ''}`;
}
