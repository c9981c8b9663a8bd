import type { FlowLogState, FlowSummaries, FlowSummary, FlowView } from '../../api/flow-log.ts';
import { print } from '../output.ts';
import { type TableColumn, tableLines } from '../table.ts';
import type { Terminal } from '../terminal.ts';
import { count } from '../words.ts';
import { flowLine, lossLines, pairText, sizeText } from './flow-lines.ts';
import type { FlowQuery, SummaryForm } from './flow-query.ts';
import { joinedSummaries } from './joined-summaries.ts';
import { mergeFlows } from './merge-flows.ts';

/** Prints records that are complete, with what they lack. */
export function printFlows(flows: readonly FlowView[], states: readonly FlowLogState[], options: FlowQuery, terminal: Terminal): void {
  const merged = mergeFlows(flows);
  const isWhole = options.last === undefined && (options.since !== undefined || options.now === true);
  const shown = isWhole ? merged : merged.slice(-(options.last ?? 20));
  if (options.output === 'json') {
    for (const flow of shown) terminal.line(JSON.stringify(flow));
    for (const state of states) terminal.remark(JSON.stringify({ state }));
    return;
  }
  for (const flow of shown) terminal.line(flowLine(flow, terminal.room.paint, options.output === 'wide'));
  if (shown.length === 0 && states.some(({ enabled }) => enabled)) terminal.remark('no connection matches');
  for (const state of states) for (const line of lossLines(state)) terminal.remark(line);
}

/** Prints records as they arrive. */
export function printNewFlows(flows: readonly FlowView[], { output }: FlowQuery, terminal: Terminal): void {
  for (const flow of mergeFlows(flows))
    terminal.line(output === 'json' ? JSON.stringify(flow) : flowLine(flow, terminal.room.paint, output === 'wide'));
}

/** Row of a summary of several nodes. */
interface TopRow {
  readonly name: string;
  readonly connections: number;
  readonly denied: number;
  readonly bytes?: string;
}

const topColumns: readonly TableColumn<TopRow>[] = [
  { title: 'CONNECTIONS', of: ({ connections }) => String(connections), align: 'right' },
  {
    title: 'DENIED',
    of: ({ denied }) => (denied === 0 ? '' : String(denied)),
    tone: () => 'bad',
    align: 'right',
  },
  { title: 'BYTES', of: ({ bytes }) => (bytes === undefined ? '' : sizeText(bytes)), align: 'right' },
  { title: 'NAME', of: ({ name }) => name, flexible: true },
];

const matrixColumns: readonly TableColumn<FlowSummary>[] = [
  { title: 'FROM', of: ({ source }) => source },
  { title: 'TO', of: ({ destination }) => destination },
  { title: 'SERVICE', of: ({ service = '' }) => service },
  { title: 'PORT', of: ({ protocol, port }) => (port === undefined ? protocol : `${port}/${protocol}`) },
  { title: 'VERDICT', of: ({ verdict }) => verdict, tone: ({ verdict }) => (verdict === 'allowed' ? undefined : 'bad') },
  { title: 'CONNECTIONS', of: ({ connections }) => String(connections), align: 'right' },
  { title: 'BYTES', of: ({ bytes }) => (bytes === undefined ? '' : sizeText(bytes)), align: 'right' },
  { title: 'RULE', of: ({ rule = '' }) => rule, flexible: true },
];

/** Prints summaries of nodes, with what they lack. */
export function printSummaries(answers: readonly FlowSummaries[], form: SummaryForm, options: FlowQuery, terminal: Terminal): void {
  const namespace = options.filters.find(([name]) => name === 'namespace')?.[1];
  const items = joinedSummaries(answers, namespace);
  const others = answers.reduce((sum, each) => sum + each.others, 0);
  const rows = form.what === 'top' ? topRows(items, form.by) : [];
  if (options.output === 'json') print(terminal, { items: form.what === 'top' ? rows : items, others }, 'json');
  else if (items.length === 0) terminal.remark('no connections in this time');
  else
    for (const line of form.what === 'top' ? tableLines(topColumns, rows, terminal.room) : tableLines(matrixColumns, items, terminal.room))
      terminal.line(line);
  if (others > 0) terminal.remark(`(${count(others, 'more connection')} between other workloads)`);
  for (const { state } of answers) for (const line of lossLines(state)) terminal.remark(line);
}

function topRows(items: readonly FlowSummary[], by: (SummaryForm & { what: 'top' })['by']): readonly TopRow[] {
  const rows = new Map<string, TopRow>();
  for (const item of items) {
    const name = nameOf(item, by);
    const { connections = 0, denied = 0, bytes } = rows.get(name) ?? {};
    const isDenied = item.verdict !== 'allowed';
    const sum = item.bytes === undefined ? bytes : String(BigInt(bytes ?? 0) + BigInt(item.bytes));
    rows.set(name, {
      name,
      connections: connections + item.connections,
      denied: denied + (isDenied ? item.connections : 0),
      ...(sum !== undefined && { bytes: sum }),
    });
  }
  return [...rows.values()].sort((a, b) => b.connections - a.connections || (a.name < b.name ? -1 : 1));
}

function nameOf(item: FlowSummary, by: (SummaryForm & { what: 'top' })['by']): string {
  const { source, destination, service, protocol, port } = item;
  switch (by) {
    case 'pair':
      return pairText(item);
    case 'namespace':
      return `${namespaceIn(source)} -> ${namespaceIn(destination)}`;
    case 'service':
      return service ?? '(no Service)';
    case 'port':
      return port === undefined ? protocol : `${port}/${protocol}`;
  }
}

function namespaceIn(end: string): string {
  const slash = end.indexOf('/');
  return slash < 0 ? end : end.slice(0, slash);
}
