import { setTimeout } from 'node:timers/promises';
import type { Command } from 'commander';
import type { DropCounter } from '../../api/trace.ts';
import type { AgentClient } from '../agent-client.ts';
import { safeLine } from '../escape.ts';
import { exitCodes } from '../exit-codes.ts';
import type { AgentsContext, ClusterFlags } from '../fleet/agents-command.ts';
import { addClusterOptions, clusterHelp, runWithAgents } from '../fleet/agents-of-command.ts';
import { type OutputForm, outputOption, print } from '../output.ts';
import { type Room, type TableColumn, tableLines } from '../table.ts';
import type { Terminal } from '../terminal.ts';
import { secondsUpToADay } from '../time-option.ts';

interface DropsContext extends AgentsContext {
  /** Called with the exit code. */
  readonly exitWith: (work: Promise<number>) => Promise<void>;
}

interface DropsFlags extends ClusterFlags {
  readonly for?: number;
  readonly all?: true;
  readonly output: OutputForm;
}

const help = `
Counts are those of the flows in Open vSwitch since they were installed; with --for, those of that time. Packets that the data path drops
with a cached decision are counted up to ten seconds later. Names are explained in docs/reference/drops.md, and by -o wide.

Examples:
  seinectl drops                  every reason with packets
  seinectl drops --for 10s        packets of the next ten seconds
  seinectl drops -o wide          with the usual cause and what to do
  seinectl drops --node node-1    of a node of the cluster, from any host
${clusterHelp} Without --node it asks all agents.`;

const columns: readonly TableColumn<DropCounter>[] = [
  { title: 'PACKETS', of: ({ packets }) => packets, align: 'right' },
  { title: 'REASON', of: ({ name }) => name },
  { title: 'TABLE', of: ({ table }) => table },
  { title: 'MEANING', of: ({ message }) => message, flexible: true },
];

const REMEDY_INDENT = ' '.repeat(9);

/** Returns a table whose rows are followed by their cause and remedy, which no column of a terminal has room for. */
function wideLines(drops: readonly DropCounter[], room: Room): readonly string[] {
  const [titles = '', ...rows] = tableLines(columns, drops, room);
  return [
    titles,
    ...rows.flatMap((row, at) => [
      row,
      safeLine(`${REMEDY_INDENT}Usual cause: ${drops[at]?.cause}`),
      safeLine(`${REMEDY_INDENT}What to do: ${drops[at]?.remedy}`),
    ]),
  ];
}

/** Adds `seinectl drops`. */
export function addDrops(root: Command, { exitWith, ...context }: DropsContext): void {
  addClusterOptions(root.command('drops'))
    .description('count the dropped packets of this node, or of all nodes, by reason')
    .option('--for <time>', 'count only packets from now on, for this long, e.g. 10s; at most a day', secondsUpToADay)
    .option('--all', 'also reasons without a packet')
    .addOption(outputOption(['table', 'wide', 'json', 'yaml']))
    .addHelpText('after', help)
    .action((flags: DropsFlags) => exitWith(dropsOnNodes(context, flags)));
}

async function dropsOnNodes(context: AgentsContext, flags: DropsFlags): Promise<number> {
  const { for: seconds, all, output } = flags;
  return await runWithAgents(context, flags, {
    output,
    ...(seconds !== undefined && { seconds }),
    args: ['drops', ...(seconds === undefined ? [] : ['--for', `${seconds}s`]), ...(all ? ['--all'] : [])],
    run: (agent, terminal, form) => showDrops(agent, { ...flags, output: form }, terminal),
  });
}

async function showDrops(agent: AgentClient, { for: seconds, all, output }: DropsFlags, terminal: Terminal): Promise<number> {
  const read = async (): Promise<readonly DropCounter[]> => ((await agent.json('/v1/drops')) as { items: readonly DropCounter[] }).items;
  const first = await read();
  const items = seconds === undefined ? first : await since(first, seconds, read);
  const shown = all ? items : items.filter(({ packets }) => packets !== '0');
  if (output === 'json' || output === 'yaml') print(terminal, { items: shown }, output);
  else if (shown.length === 0) terminal.remark('no packets were dropped');
  else
    for (const line of output === 'wide' ? wideLines(shown, terminal.room) : tableLines(columns, shown, terminal.room)) terminal.line(line);
  return exitCodes.ok;
}

/** Returns what was added after some time. A flow that was installed again has counted from zero. */
async function since(
  first: readonly DropCounter[],
  seconds: number,
  read: () => Promise<readonly DropCounter[]>,
): Promise<readonly DropCounter[]> {
  await setTimeout(seconds * 1_000);
  const before = new Map(first.map(({ name, packets }) => [name, BigInt(packets)]));
  return (await read()).map((drop) => {
    const [earlier, now] = [before.get(drop.name) ?? 0n, BigInt(drop.packets)];
    return { ...drop, packets: (now >= earlier ? now - earlier : now).toString() };
  });
}
