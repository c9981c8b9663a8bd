import type { Items } from '../../api/entry.ts';
import type { RuleCounters } from '../../api/policy.ts';
import { pause } from '../../base/async/pause.ts';
import type { AgentClient } from '../agent-client.ts';
import { exitCodes } from '../exit-codes.ts';
import { type OutputForm, print } from '../output.ts';
import { type TableColumn, tableLines } from '../table.ts';
import type { Terminal } from '../terminal.ts';

interface TopRun {
  readonly agent: AgentClient;
  readonly terminal: Terminal;
}

interface TopOptions {
  readonly seconds: number;
  readonly output: OutputForm;
}

interface RatedRule extends RuleCounters {
  readonly packetsPerSecond: number;
}

/** `seinectl policy top`: rules by their packets during the measurement, the busiest first; then by all packets. */
export async function top({ agent, terminal }: TopRun, { seconds, output }: TopOptions): Promise<number> {
  const before = new Map((await counters(agent)).map((each) => [keyOf(each), BigInt(each.packets)]));
  const began = performance.now();
  await pause(seconds * 1_000, new AbortController().signal);
  const tookSeconds = (performance.now() - began) / 1_000;
  const items = (await counters(agent)).map((each): RatedRule => {
    const counted = BigInt(each.packets) - (before.get(keyOf(each)) ?? 0n);
    // Less than before: its flow was recreated meanwhile.
    return { ...each, packetsPerSecond: counted < 0n ? 0 : Number((Number(counted) / tookSeconds).toFixed(1)) };
  });
  items.sort(
    (a, b) => b.packetsPerSecond - a.packetsPerSecond || compared(BigInt(b.packets), BigInt(a.packets)) || (keyOf(a) < keyOf(b) ? -1 : 1),
  );
  if (output === 'json' || output === 'yaml') print(terminal, { seconds, items }, output);
  else if (items.length === 0) terminal.remark('no policy isolates a pod of this node');
  else for (const line of tableLines(columns, items, terminal.room)) terminal.line(line);
  return exitCodes.ok;
}

async function counters(agent: AgentClient): Promise<readonly RuleCounters[]> {
  return ((await agent.json('/v1/policy/counters')) as Items<RuleCounters>).items;
}

function keyOf({ direction, verdict, by }: RuleCounters): string {
  return JSON.stringify([by, direction, verdict]);
}

function compared(a: bigint, b: bigint): number {
  return a === b ? 0 : a < b ? -1 : 1;
}

const columns: readonly TableColumn<RatedRule>[] = [
  { title: 'PACKETS/S', of: ({ packetsPerSecond }) => String(packetsPerSecond), align: 'right' },
  { title: 'PACKETS', of: ({ packets }) => packets, align: 'right' },
  { title: 'BYTES', of: ({ bytes }) => bytes, align: 'right' },
  { title: 'DIRECTION', of: ({ direction }) => direction },
  { title: 'VERDICT', of: ({ verdict }) => verdict, tone: ({ verdict }) => (verdict === 'deny' ? 'warning' : undefined) },
  { title: 'BY', of: ({ by }) => by.join(', '), flexible: true },
];
