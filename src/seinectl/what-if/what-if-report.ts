import { collapse } from '../../policy/reach/collapse.ts';
import type { ReachChange } from '../../policy/reach/difference.ts';
import { partyName } from '../../policy/reach/party.ts';
import type { Unit } from '../../policy/reach/units.ts';
import type { ServedChange } from '../../simulate/what-if/service-cells.ts';
import type { WhatIf } from '../../simulate/what-if/what-if.ts';
import { safeLine, safeText } from '../escape.ts';
import { type OutputForm, print } from '../output.ts';
import type { Tone } from '../paint.ts';
import { reportDisagreements } from '../reach/reports.ts';
import type { Terminal } from '../terminal.ts';
import { count } from '../words.ts';
import { keyOfRules, type RuleEvidence } from './used-rules.ts';

/** Exit codes of `seinectl whatif`; scripts rely on these. */
export const whatIfExitCodes = { nothingBreaks: 0, breaks: 1, usage: 2, incomplete: 3, notConfirmed: 4 } as const;

interface WhatIfContextTexts {
  /** Sentences about objects that could not be read. */
  readonly missing: readonly string[];
  readonly remarks: readonly string[];
  readonly used: RuleEvidence;
}

/** Lines with two ends that are printed one by one. */
const LINES_SHOWN = 200;
/** Names of ends that a line shows before it counts the rest. */
const NAMES_SHOWN = 4;

const words = { closed: 'BREAKS', opened: 'OPENS', 'other endpoints': 'MOVES' } as const;
const tones = { closed: 'bad', opened: 'good', 'other endpoints': 'warning' } as const satisfies Record<string, Tone>;
type ShownChange = keyof typeof words;
const order: readonly ShownChange[] = ['closed', 'opened', 'other endpoints'];

/** Prints the result. @returns the exit code */
export function reportWhatIf(result: WhatIf, texts: WhatIfContextTexts, form: OutputForm, terminal: Terminal): number {
  if (form === 'json' || form === 'yaml') print(terminal, documentOf(result, texts), form);
  else printLines(result, texts, terminal);
  reportDisagreements(result.disagreements, terminal);
  for (const text of result.serviceDisagreements.slice(0, 5))
    terminal.remark(safeLine(`seinectl: not confirmed by the reference: ${text}`));
  if (result.disagreements.length + result.serviceDisagreements.length > 0) return whatIfExitCodes.notConfirmed;
  const breaks = [...result.connections, ...result.services].some(({ change }) => change === 'closed');
  if (breaks) return whatIfExitCodes.breaks;
  return texts.missing.length > 0 ? whatIfExitCodes.incomplete : whatIfExitCodes.nothingBreaks;
}

function documentOf({ connections, services, conflicts, changed, notConsidered, confirmed, ...result }: WhatIf, texts: WhatIfContextTexts) {
  const { packets, nodes, unknown } = texts.used;
  return {
    changed,
    connections,
    services,
    conflicts,
    units: namedUnits(result.units, [...connections, ...services]),
    confirmed,
    notConfirmed: result.disagreements.length + result.serviceDisagreements.length,
    notConsidered,
    missing: texts.missing,
    remarks: texts.remarks,
    used: {
      nodes,
      rules: [...packets].map(([key, number]) => ({
        verdict: key.split(' ', 1)[0],
        rule: key.slice(key.indexOf(' ') + 1),
        packets: `${number}`,
      })),
      openConnections: null,
      ...(unknown === undefined ? {} : { unknown }),
    },
  };
}

/** Lists the members of units that the results name; a Service's result adds the node of the clients to the name. */
function namedUnits(units: readonly Unit[], rows: readonly Pick<ReachChange, 'from' | 'to'>[]) {
  const names = new Set(rows.flatMap(({ from, to }) => [from, from.replace(/ on \S+(?: and \d+ more)?$/, ''), to]));
  return units.filter(({ name }) => names.has(name)).map(({ name, parties }) => ({ name, members: parties.map(partyName) }));
}

interface ShownLine {
  readonly change: ShownChange;
  readonly ends: string;
  readonly reason: string;
  /** How much the change concerns today's traffic. */
  readonly used?: string;
}

function printLines(result: WhatIf, { missing, remarks, used }: WhatIfContextTexts, terminal: Terminal): void {
  const lines = [...connectionLines(result, used), ...serviceLines(result)].sort(
    (a, b) => order.indexOf(a.change) - order.indexOf(b.change),
  );
  const width = Math.min(72, Math.max(0, ...lines.map(({ ends }) => ends.length)));
  for (const { change, ends, reason, used: evidence } of lines.slice(0, LINES_SHOWN)) {
    const word = terminal.room.paint(tones[change], words[change].padEnd(6));
    terminal.line(`${word}  ${safeLine(`${ends.padEnd(width)}  ${reason}`)}`);
    if (evidence !== undefined) terminal.line(safeLine(`        used: ${evidence}`));
  }
  if (lines.length > LINES_SHOWN) terminal.line(`${lines.length - LINES_SHOWN} more lines: use -o json`);
  for (const text of result.conflicts) terminal.line(`${terminal.room.paint('bad', 'CONFLICT')}  ${safeLine(text)}`);
  for (const text of [...remarks, ...result.notConsidered, ...missing]) terminal.remark(safeText(text));
  terminal.remark(summary(result, lines));
  if (used.unknown !== undefined && lines.length > 0)
    terminal.remark(safeText(`How much the rules were used is not ${used.nodes.length > 0 ? 'completely ' : ''}known: ${used.unknown}.`));
}

function summary({ connections, confirmed }: WhatIf, lines: readonly ShownLine[]): string {
  const counted = order.flatMap((change) => {
    const number = lines.filter((line) => line.change === change).length;
    return number > 0 ? [`${number} ${{ closed: 'broken', opened: 'opened', 'other endpoints': 'with other endpoints' }[change]}`] : [];
  });
  const others = connections.filter(({ change }) => change === 'other rule').length;
  const same =
    others > 0 ? `; ${count(others, 'pair')} of workloads ${others === 1 ? 'has' : 'have'} another deciding rule and the same verdict` : '';
  const what = counted.length === 0 ? 'No connection breaks or opens' : `Kinds of connections: ${counted.join(', ')}`;
  return `${what}${same}. ${count(confirmed, 'verdict')} confirmed by the reference.`;
}

function connectionLines({ connections, units }: WhatIf, used: RuleEvidence): readonly ShownLine[] {
  const sizes = sizesOf(units);
  const shown = connections.filter((each): each is ReachChange & { readonly change: 'opened' | 'closed' } => each.change !== 'other rule');
  return collapse(shown, units).map(({ from, to, outcome }) => ({
    change: outcome.change,
    ends: `${namesText(from, sizes)} -> ${namesText(to, sizes)} ${familyText(outcome.family)}${outcome.ports}`,
    reason: reasonOf(outcome),
    ...(used.unknown !== undefined && used.nodes.length === 0 ? {} : { used: usedText(outcome, used) }),
  }));
}

function serviceLines({ services, units }: WhatIf): readonly ShownLine[] {
  const sizes = sizesOf(units);
  return collapse(services, units).map(({ from, to, outcome }) => ({
    change: outcome.change,
    ends: `${namesText(from, sizes)} -> ${namesText(to, sizes)} ${familyText(outcome.family)}${outcome.ports}`,
    reason: `today ${outcome.before}; then ${outcome.after}`,
  }));
}

function sizesOf(units: readonly Unit[]): ReadonlyMap<string, number> {
  return new Map(units.filter(({ parties: [first] }) => first?.is === 'pod').map(({ name, parties }) => [name, parties.length]));
}

function namesText(names: readonly string[], sizes: ReadonlyMap<string, number>): string {
  const shown = names.slice(0, NAMES_SHOWN).map((name) => {
    const size = sizes.get(name);
    if (name === '*') return '* (all pods)';
    return size !== undefined && size > 1 ? `${name} (${size} pods)` : name;
  });
  return `${shown.join(', ')}${names.length > NAMES_SHOWN ? ` and ${names.length - NAMES_SHOWN} more` : ''}`;
}

function familyText(family: ServedChange['family']): string {
  return family === undefined ? '' : `${{ ipv4: 'IPv4', ipv6: 'IPv6' }[family]} `;
}

type ShownOutcome = Pick<ReachChange, 'before' | 'after'> & { readonly change: 'opened' | 'closed' };

function reasonOf({ change, before, after }: ShownOutcome): string {
  const by = (names: readonly string[], none: string): string => (names.length === 0 ? none : names.join(', '));
  return change === 'closed'
    ? `allowed today by ${by(before.by, 'default: no policy isolates an end')}; then denied by ${by(after.by, 'default')}`
    : `denied today by ${by(before.by, 'default')}; then allowed by ${by(after.by, 'default: no policy isolates an end')}`;
}

const openUnknown = 'connections open now: not known';

function usedText({ change, before }: ShownOutcome, { packets, nodes }: RuleEvidence): string {
  const verdict = change === 'closed' ? 'allow' : 'deny';
  if (before.by.length === 0) return `not known: no rule counts these connections; ${openUnknown}`;
  const counted = before.by.map((rule) => `${rule} ${packets.get(keyOfRules(verdict, rule)) ?? 0n}`);
  const does = change === 'closed' ? 'packets that these rules allowed' : 'packets that these policies denied';
  return `${does}, of all peers, on ${count(nodes.length, 'node')}: ${counted.join(', ')}; ${openUnknown}`;
}
