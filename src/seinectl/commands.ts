import { createReadStream } from 'node:fs';
import type { Readable } from 'node:stream';
import type { Entry, Items } from '../api/entry.ts';
import type { AgentStatus } from '../api/status.ts';
import { seineVersion } from '../api/version.ts';
import type { AgentClient } from './agent-client.ts';
import { annotateLine, type Owners } from './annotate.ts';
import { diffLines } from './diff-lines.ts';
import { safeText } from './escape.ts';
import { exitCodes } from './exit-codes.ts';
import { linesOf } from './lines.ts';
import { type OutputForm, print } from './output.ts';
import { type ResourceItems, type ResourceListing, type ResourceName, resources, sorted, summary } from './resources.ts';
import { statusLines } from './status/status-page.ts';
import { tableLines } from './table.ts';
import type { Terminal } from './terminal.ts';
import { count, duration } from './words.ts';

export interface CommandContext {
  readonly agent: AgentClient;
  readonly terminal: Terminal;
  readonly stdin: Readable;
}

/** Prints the status. Each command resolves to the exit code. @throws SeineError `UNAVAILABLE` if no agent answers */
export async function status({ agent, terminal }: CommandContext, form: OutputForm): Promise<number> {
  const value = (await agent.json('/v1/status')) as AgentStatus;
  if (form === 'json' || form === 'yaml') print(terminal, value, form);
  else for (const line of statusLines(value, terminal.room)) terminal.line(line);
  return value.readiness.state === 'ready' ? exitCodes.ok : exitCodes.different;
}

export interface GetOptions {
  readonly name?: string;
  readonly namespace?: string;
  readonly output: OutputForm;
  readonly table?: string;
  readonly owner?: string;
  /** Only entries that are not in sync. */
  readonly bad?: boolean;
}

export async function get<N extends ResourceName>({ agent, terminal }: CommandContext, what: N, options: GetOptions): Promise<number> {
  const resource = resources[what] as ResourceListing<ResourceItems[N]>;
  const name = options.name === undefined ? undefined : fullName(options.name, resource, options.namespace);
  const answer = (await agent.json(`/v1/${what}${queryOf({ name, table: options.table, owner: options.owner })}`)) as Items<
    ResourceItems[N]
  >;
  const items = sorted(answer.items, resource.order).filter((item) => isAskedFor(item, options));
  if (name !== undefined && items.length === 0) {
    terminal.remark(`seinectl: this node has no ${what.replace(/s$/, '')} ${safeText(name)}`);
    return exitCodes.different;
  }
  const { output } = options;
  if (output === 'json' || output === 'yaml') print(terminal, name === undefined ? { items } : items[0], output);
  else if (items.length === 0)
    terminal.remark(safeText(`no ${what}${options.namespace === undefined ? '' : ` in namespace ${options.namespace}`}`));
  else printTable(terminal, what, resource, items, output);
  return exitCodes.ok;
}

function isAskedFor(item: { readonly name: string; readonly state: string }, { name, namespace, bad }: GetOptions): boolean {
  if (bad && ['ok', 'idle', 'learned'].includes(item.state)) return false;
  return name !== undefined || namespace === undefined || item.name.startsWith(`${namespace}/`);
}

/** A container without a pod is named by its ID, which has no namespace. */
function fullName<T>(name: string, { namespaced }: ResourceListing<T>, namespace = 'default'): string {
  return !namespaced || name.includes('/') || /^[0-9a-f]{64}$/.test(name) ? name : `${namespace}/${name}`;
}

function queryOf(fields: Readonly<Record<string, string | undefined>>): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(fields)) if (value !== undefined) query.append(name, value);
  return query.size === 0 ? '' : `?${query}`;
}

function printTable<T extends { readonly state: string }>(
  terminal: Terminal,
  what: string,
  { columns }: ResourceListing<T>,
  items: readonly T[],
  form: 'table' | 'wide',
): void {
  const shown = columns.filter(({ wide }) => form === 'wide' || !wide);
  const room = form === 'wide' ? { ...terminal.room, width: Number.POSITIVE_INFINITY } : terminal.room;
  for (const line of tableLines(shown, items, room)) terminal.line(line);
  if (items.some(({ state }) => !['ok', 'idle', 'learned'].includes(state))) terminal.remark(summary(what, items));
}

export async function diff({ agent, terminal }: CommandContext, form: OutputForm): Promise<number> {
  const { items } = (await agent.json('/v1/diff')) as Items<Entry>;
  const entries = sorted(items, ({ kind, state, name }) => [kind, state, name]);
  if (form === 'json' || form === 'yaml') print(terminal, { items: entries }, form);
  else for (const line of diffLines(entries, terminal.room.paint)) terminal.line(line);
  if (entries.length === 0) terminal.remark('no differences');
  else
    terminal.remark(`${count(entries.length, 'difference')}. The agent repairs what it can within a second or two: run the command again`);
  return entries.length === 0 ? exitCodes.ok : exitCodes.different;
}

export async function annotate({ agent, terminal, stdin }: CommandContext, file: string | undefined): Promise<number> {
  const fromFile = file !== undefined && file !== '-';
  const owners = await ownersOf(agent);
  const lines = linesOf(fromFile ? createReadStream(file) : stdin, fromFile ? file : 'standard input');
  const seen = { known: 0, learned: 0, unknown: 0, none: 0 };
  for await (const text of lines) {
    const { line, cookie } = annotateLine(text, owners, terminal.room.paint);
    seen[cookie]++;
    terminal.line(line);
  }
  if (seen.unknown > 0)
    terminal.remark(`${count(seen.unknown, 'flow')} of ${seen.known + seen.learned + seen.unknown} with a cookie of no owner on this node`);
  return exitCodes.ok;
}

async function ownersOf(agent: AgentClient): Promise<Owners> {
  const { items } = (await agent.json('/v1/owners')) as Items<{ readonly cookie: string; readonly owner: string }>;
  return new Map(items.map(({ cookie, owner }) => [BigInt(cookie), owner]));
}

/** Prints our own version, and the agent's if there is one. */
export async function version({ agent, terminal }: CommandContext): Promise<number> {
  terminal.line(`seinectl     ${seineVersion}`);
  const { versions } = (await agent.json('/v1/status')) as AgentStatus;
  terminal.line(safeText(`seine-agent  ${versions.seine} (Node ${versions.node}, Open vSwitch ${versions.ovs ?? 'unknown'})`));
  return exitCodes.ok;
}

/** @param seconds from now */
export async function pause({ agent, terminal }: CommandContext, seconds: number): Promise<number> {
  await agent.json(`/v1/pause?seconds=${seconds}`, 'POST');
  terminal.line(`Foreign changes are not repaired for ${duration(seconds)}; \`seinectl resume\` ends that.`);
  return exitCodes.ok;
}

export async function resume({ agent, terminal }: CommandContext): Promise<number> {
  const { wasPaused } = (await agent.json('/v1/resume', 'POST')) as { readonly wasPaused: boolean };
  terminal.line(wasPaused ? 'Repair resumed.' : 'Repair was not paused.');
  return exitCodes.ok;
}
