#!/usr/bin/env node
/**
 * `npm run test:reliability`: faults of a node, one after another, under 100 Hz of traffic, and their cost. The table of
 * docs/records/faults.md is the output with `--write`.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { ConvergeLab } from '../support/converge-lab.ts';
import { setUrgency, urgent } from '../support/urgency.ts';
import type { Fault } from './fault.ts';
import { faults } from './faults.ts';
import { type FaultRow, type FaultRun, prepare, runFault } from './run-fault.ts';
import { table } from './table.ts';

/** The shipped bundle. */
const agent = join(import.meta.dirname, '..', '..', 'dist', 'seine-agent.mjs');
const help = `npm run test:reliability -- [--only NAME[,NAME…]] [--rounds N] [--seed N] [--hz N] [--datapath D] [--write] [--json] [--list]

  --only    only faults whose names begin with this (default: all)
  --rounds  repetitions of faults that can be repeated (default 3): killed agents, foreign changes, 10 s of steady
            state, 20 s without an API server
  --seed    seed of the random times (default: random, printed)
  --hz      datagrams, new connections and messages per second on each stream (default 100)
  --datapath netdev (userspace, default) or system (kernel, which needs the openvswitch module)
  --write   write the table to docs/records/faults.md
  --json    rows as JSON, as the last line
  --list    list the faults and exit
`;

const options = {
  only: { type: 'string' },
  rounds: { type: 'string', default: '3' },
  seed: { type: 'string' },
  hz: { type: 'string', default: '100' },
  datapath: { type: 'string', default: 'netdev' },
  write: { type: 'boolean', default: false },
  json: { type: 'boolean', default: false },
  list: { type: 'boolean', default: false },
  help: { type: 'boolean', default: false },
} as const;

async function main(): Promise<number> {
  const { values } = parseArgs({ options });
  if (values.help || values.list) {
    process.stdout.write(values.help ? help : faults.map(({ name, what }) => `${name.padEnd(30)}${what}\n`).join(''));
    return 0;
  }
  const chosen = select(values.only?.split(','));
  const rounds = positive('rounds', values.rounds);
  const seed = values.seed === undefined ? Math.floor(Math.random() * 2 ** 31) : positive('seed', values.seed);
  const { datapath } = values;
  if (datapath !== 'netdev' && datapath !== 'system') throw new Error(`--datapath ${datapath}: netdev or system is wanted`);
  print(`${chosen.length} faults, ${rounds} rounds, seed ${seed}`);
  const rows = await runAll(chosen, { rounds, seed, hertz: positive('hz', values.hz), datapath });
  process.stdout.write(`${table(rows)}\n`);
  if (values.write) writeTable(rows, `npm run test:reliability -- --rounds ${rounds} --seed ${seed}`);
  if (values.json) process.stdout.write(`${JSON.stringify(rows)}\n`);
  return rows.some(({ problems }) => problems.length > 0) ? 1 : 0;
}

interface Run extends Pick<FaultRun, 'rounds' | 'hertz' | 'datapath'> {
  readonly seed: number;
}

async function runAll(chosen: readonly Fault[], { seed, ...run }: Run): Promise<FaultRow[]> {
  const lab = await ConvergeLab.start(2, agent, { datapath: run.datapath });
  const putBack = setUrgency(process.pid, urgent);
  try {
    await prepare(lab);
    const rows: FaultRow[] = [];
    for (const [index, fault] of chosen.entries()) {
      // A restarted process is new: other processes of the host must not cause packet loss, nor delay the agent.
      for (const pid of [...(await lab.switchPids()), ...(await lab.agentPids())]) setUrgency(pid, urgent);
      print(`${index + 1}/${chosen.length} ${fault.name}`);
      const context = { ...run, random: randomFrom(seed + index), print: print, signal: AbortSignal.timeout(3_600_000) };
      const row = await runFault(fault, lab, context);
      for (const problem of row.problems) print(`  ✗ ${problem}`);
      rows.push(row);
    }
    return rows;
  } finally {
    putBack();
    await lab.remove();
  }
}

function select(names: readonly string[] | undefined): readonly Fault[] {
  if (names === undefined) return faults;
  const unknown = names.find((name) => !faults.some((fault) => fault.name.startsWith(name)));
  if (unknown !== undefined) throw new Error(`--only ${unknown}: no fault begins so; --list says which there are`);
  return faults.filter((fault) => names.some((name) => fault.name.startsWith(name)));
}

function positive(name: string, text: string): number {
  const number = Number(text);
  if (!Number.isSafeInteger(number) || number < 1) throw new Error(`--${name} ${text}: a whole number above 0 is wanted`);
  return number;
}

/** xorshift32: small, and the same everywhere. */
function randomFrom(seed: number): () => number {
  let state = seed | 1;
  return () => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return (state >>> 0) / 2 ** 32;
  };
}

function writeTable(rows: readonly FaultRow[], command: string): void {
  const file = join(import.meta.dirname, '..', '..', 'docs', 'records', 'faults.md');
  const [begin, end] = ['<!-- table: begin -->', '<!-- table: end -->'];
  const text = readFileSync(file, 'utf8');
  const [from, to] = [text.indexOf(begin), text.indexOf(end)];
  if (from < 0 || to < from) throw new Error(`${file} has no place for the table`);
  writeFileSync(file, `${text.slice(0, from)}${begin}\n\n\`${command}\`\n\n${table(rows)}\n\n${text.slice(to)}`);
}

function print(line: string): void {
  process.stderr.write(`${line}\n`);
}

try {
  process.exitCode = await main();
} catch (error) {
  process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`);
  process.exitCode = 2;
}
