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
import { type AskedUse, type LineUse, UsedConnections } from './used-by-row.ts';
import type { ConnectionEvidence } from './used-connections.ts';
import { keyOfRules, type RuleEvidence, unitName } from './used-rules.ts';

/** Exit codes of `seinectl whatif`; scripts rely on these. */
export const whatIfExitCodes = { nothingBreaks: 0, breaks: 1, usage: 2, incomplete: 3, notConfirmed: 4 } as const;

export interface WhatIfContextTexts {
  /** Sentences about objects that could not be read. */
  readonly missing: readonly string[];
  readonly remarks: readonly string[];
  readonly used: RuleEvidence;
  /** Names of Services by address. */
  readonly services: ReadonlyMap<string, string>;
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
  const { packets, nodes, unknown, connections: evidence } = texts.used;
  const lines = [...connectionLines({ ...result, connections }, texts), ...serviceLines({ ...result, services }, texts)];
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
      source: evidence.logged.length > 0 ? 'flow log' : nodes.length > 0 ? 'rule counters' : 'none',
      nodes,
      flowLog: { nodes: evidence.logged, completeFrom: evidence.completeFrom ?? null, notRecorded: evidence.lost },
      lines: lines.map(({ asked, use }) => ({
        ...asked,
        recorded: evidence.logged.length > 0 ? use.recorded : null,
        last: use.last ?? null,
        openNow: evidence.tracked.length > 0 ? use.open : null,
      })),
      rules: [...packets].map(([key, number]) => ({
        verdict: key.split(' ', 1)[0],
        rule: key.slice(key.indexOf(' ') + 1),
        packets: `${number}`,
      })),
      openConnections: evidence.tracked.length > 0 ? lines.reduce((sum, { use }) => sum + use.open, 0) : null,
      ...(evidence.openUnknown === undefined ? {} : { openUnknown: evidence.openUnknown }),
      ...(unknown === undefined ? {} : { unknown }),
    },
  };
}

/** Lists the members of units that the results name; a Service's result adds the node of the clients to the name. */
function namedUnits(units: readonly Unit[], rows: readonly Pick<ReachChange, 'from' | 'to'>[]) {
  const names = new Set(rows.flatMap(({ from, to }) => [from, unitName(from), to]));
  return units.filter(({ name }) => names.has(name)).map(({ name, parties }) => ({ name, members: parties.map(partyName) }));
}

interface ShownLine {
  readonly asked: AskedUse;
  readonly use: LineUse;
  readonly change: ShownChange;
  readonly ends: string;
  readonly reason: string;
  /** How much the change concerns today's traffic. */
  readonly used?: string;
}

function printLines(result: WhatIf, texts: WhatIfContextTexts, terminal: Terminal): void {
  const { missing, remarks, used } = texts;
  const lines = [...connectionLines(result, texts), ...serviceLines(result, texts)].sort(
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
  if (lines.length > 0) for (const text of evidenceTexts(used)) terminal.remark(safeText(text));
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

type LineParts = Pick<WhatIf, 'connections' | 'services' | 'units'>;

function connectionLines(
  { connections, units }: Omit<LineParts, 'services'>,
  { used, services }: WhatIfContextTexts,
): readonly ShownLine[] {
  const sizes = sizesOf(units);
  const uses = new UsedConnections(used.connections, units, services);
  const shown = connections.filter((each): each is ReachChange & { readonly change: 'opened' | 'closed' } => each.change !== 'other rule');
  return collapse(shown, units).map(({ from, to, outcome }) => {
    const { change, family, ranges } = outcome;
    const asked: AskedUse = { from, to, family, ranges, change };
    const use = uses.of(asked);
    const evidence = usedText(outcome, use, used);
    return {
      asked,
      use,
      change,
      ends: `${namesText(from, sizes)} -> ${namesText(to, sizes)} ${familyText(family)}${outcome.ports}`,
      reason: reasonOf(outcome),
      ...(evidence === undefined ? {} : { used: evidence }),
    };
  });
}

function serviceLines(
  { services, units }: Omit<LineParts, 'connections'>,
  { used, services: addresses }: WhatIfContextTexts,
): readonly ShownLine[] {
  const sizes = sizesOf(units);
  const uses = new UsedConnections(used.connections, units, addresses);
  return collapse(services, units).map(({ from, to, outcome }) => {
    const { change, family, ports } = outcome;
    const [, port, protocol = ''] = /^(\d+)\/([A-Z]+)$/.exec(ports) ?? [];
    const all = ['TCP', 'UDP', 'SCTP'].map((each) => ({ protocol: each, first: 0, last: 65_535 }));
    const ranges = port === undefined ? all : [{ protocol, first: Number(port), last: Number(port) }];
    const asked: AskedUse = { from, to, family, ranges, change: change === 'opened' ? 'opened' : 'closed' };
    const use = uses.of(asked);
    const evidence = [...recordedText(asked.change, use, used.connections), ...openText(asked.change, use, used.connections)].join('; ');
    return {
      asked,
      use,
      change,
      ends: `${namesText(from, sizes)} -> ${namesText(to, sizes)} ${familyText(family)}${ports}`,
      reason: `today ${outcome.before}; then ${outcome.after}`,
      ...(evidence === '' ? {} : { used: evidence }),
    };
  });
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

/** Connections of one line; undefined if nothing is known. */
function usedText({ change, before }: ShownOutcome, use: LineUse, used: RuleEvidence): string | undefined {
  const recorded = recordedText(change, use, used.connections);
  const counted =
    recorded.length > 0 || (used.unknown !== undefined && used.nodes.length === 0) ? [] : [countedText(change, before.by, used)];
  const texts = [...recorded, ...counted, ...openText(change, use, used.connections)];
  return texts.length === 0 ? undefined : texts.join('; ');
}

function recordedText(
  change: AskedUse['change'],
  { recorded, first, last }: LineUse,
  { logged, completeFrom }: ConnectionEvidence,
): readonly string[] {
  if (logged.length === 0) return [];
  const what = change === 'closed' ? count(recorded, 'connection') : count(recorded, 'denied attempt');
  const when = last ? `, last at ${last.time.slice(11, 19)} (${last.from} -> ${last.to})` : '';
  if (recorded === 0) return [`no ${change === 'closed' ? 'connection' : 'denied attempt'} since ${timeText(completeFrom)}`];
  // Denials are kept on disk: some may be older than the time from which every node has all records.
  const isOlder = first !== undefined && completeFrom !== undefined && first < completeFrom;
  return [isOlder ? `${what}${when}; all are recorded since ${timeText(completeFrom)}` : `${what} since ${timeText(completeFrom)}${when}`];
}

function openText(change: AskedUse['change'], { open }: LineUse, { tracked }: ConnectionEvidence): readonly string[] {
  return change === 'closed' && tracked.length > 0 ? [`${open} open now`] : [];
}

function timeText(time: string | undefined): string {
  return time === undefined ? 'the log was turned on' : `${time.slice(0, 10)} ${time.slice(11, 19)}`;
}

function countedText(change: AskedUse['change'], by: readonly string[], { packets, nodes }: RuleEvidence): string {
  const verdict = change === 'closed' ? 'allow' : 'deny';
  if (by.length === 0) return 'not known: no rule counts these connections';
  const counted = by.map((rule) => `${rule} ${packets.get(keyOfRules(verdict, rule)) ?? 0n}`);
  const does = change === 'closed' ? 'packets that these rules allowed' : 'packets that these policies denied';
  return `${does}, of all peers, on ${count(nodes.length, 'node')}: ${counted.join(', ')}`;
}

/** Texts about today's use of each row of a result: of `connections` and `services`, as they collapse; undefined: not known. */
export function usedTextsOf(result: WhatIf, texts: WhatIfContextTexts) {
  return {
    connections: connectionLines(result, texts).map(({ used }) => used),
    services: serviceLines(result, texts).map(({ used }) => used),
  };
}

/** Names the source of what was used, and what it does not contain. */
export function evidenceTexts({ nodes, connections }: RuleEvidence): readonly string[] {
  if (nodes.length === 0) return [];
  const { logged, lost, tracked, openUnknown } = connections;
  const without = nodes.filter((node) => !logged.includes(node));
  const source =
    logged.length === 0
      ? 'Used: from the counters of rules; the flow log is off, which counts connections.'
      : `Used: from the flow log (UTC) of ${count(logged.length, 'node')}${without.length > 0 ? `; it is off on ${without.slice(0, 4).join(', ')}` : ''}${lost > 0 ? `; ${count(lost, 'connection')} not recorded` : ''}.`;
  const open = tracked.length > 0 ? `Open now: from the trackers of ${count(tracked.length, 'node')}` : 'Connections open now: not known';
  return [source, `${open}${openUnknown === undefined ? '' : `; ${openUnknown}`}.`];
}
