import { ByteWriter } from '../../src/base/bytes/bytes.ts';
import { writeFlow } from '../../src/openflow/flows/flow.ts';
import { visitFlowEntries } from '../../src/openflow/flows/flow-stats.ts';
import { decodeInstructions, writeInstructions } from '../../src/openflow/flows/instructions.ts';
import { decodeMatch, writeMatch } from '../../src/openflow/match/match.ts';
import { benchFlow } from './openflow-flows.ts';
import type { Measured } from './row.ts';

export const codecRowNames = ['of.encode', 'of.encode.memory', 'of.decode', 'of.decode.values'] as const;

const different = 256;
const runs = 25;
const warmUps = 5;
const flows = Array.from({ length: different }, (_, index) => benchFlow(index));

/** Rows without a switch. Each run goes through the same flows often enough to take some tens of milliseconds. */
export function codecRows(selected: (name: string) => boolean, print: (text: string) => void): Measured[] {
  const rows: Measured[] = [];
  if (codecRowNames.some(selected)) print('encoding and decoding flows');
  const w = new ByteWriter(1024 * 1024);
  const encode = (): number => {
    w.truncate(0);
    for (const flow of flows) writeFlow(w, flow);
    return flows.length;
  };
  if (selected('of.encode')) rows.push({ name: 'of.encode', unit: '1/s', ours: rates(encode, 200) });
  if (selected('of.encode.memory')) rows.push({ name: 'of.encode.memory', unit: 'B', ours: allocations(encode) });
  const bodies = repliesOf();
  if (selected('of.decode')) rows.push({ name: 'of.decode', unit: '1/s', ours: rates(() => readAll(bodies), 400) });
  if (selected('of.decode.values')) rows.push({ name: 'of.decode.values', unit: '1/s', ours: rates(() => readValues(bodies), 40) });
  return rows;
}

/** CPU time of the process: other work on the host is not measured. */
function rates(work: () => number, times: number): number[] {
  const found: number[] = [];
  for (let run = 0; run < warmUps + runs; run++) {
    let done = 0;
    const before = process.cpuUsage();
    for (let time = 0; time < times; time++) done += work();
    const { user, system } = process.cpuUsage(before);
    if (run >= warmUps) found.push((done / (user + system)) * 1_000_000);
  }
  return found;
}

/** Heap bytes for each unit of `work`. A garbage collection in between spoils a run, which the median ignores. */
function allocations(work: () => number): number[] {
  return Array.from({ length: runs }, () => {
    let done = 0;
    const before = process.memoryUsage().heapUsed;
    for (let time = 0; time < 8; time++) done += work();
    return Math.max(0, process.memoryUsage().heapUsed - before) / done;
  });
}

/** Answer of a switch to a request for its flows: bodies of flow description replies, of about 60 KiB each. */
function repliesOf(): Uint8Array[] {
  const bodies: Uint8Array[] = [];
  const w = new ByteWriter(0x10000);
  for (const [index, flow] of flows.entries()) {
    const start = w.length;
    w.zeros(4).u8(flow.table).u8(0).u16(flow.priority).zeros(8).u64(flow.cookie);
    writeMatch(w, flow.match);
    writeStatistics(w, BigInt(index));
    writeInstructions(w, flow.does);
    w.patchU16(start, w.length - start);
    if (w.length < 60_000 && index < flows.length - 1) continue;
    bodies.push(w.finish());
    w.truncate(0);
  }
  return bodies;
}

/** Duration, idle time, packets, bytes: as Open vSwitch 3.1 writes them. */
function writeStatistics(w: ByteWriter, count: bigint): void {
  const start = w.length;
  w.zeros(4);
  for (const field of [0, 1, 4, 5])
    w.u16(0x8002)
      .u8(2 * field)
      .u8(8)
      .u64(1_000n * count);
  w.patchU16(start + 2, w.length - start).alignTo(8, start);
}

/** Every member of every entry, match and instructions as the bytes they are compared by. */
function readAll(bodies: readonly Uint8Array[]): number {
  let entries = 0;
  for (const body of bodies)
    visitFlowEntries(
      body,
      ({ table, priority, idleTimeout, hardTimeout, flags, match, instructions, cookie, packets, bytes, durationNs }) => {
        entries++;
        const small = table + priority + idleTimeout + hardTimeout + flags + match.length + instructions.length;
        if (cookie + packets + bytes + durationNs < 0n || small < 0) throw new Error('a flow that cannot be');
      },
    );
  return entries;
}

/** The same entries decoded down to each field and action. */
function readValues(bodies: readonly Uint8Array[]): number {
  let entries = 0;
  for (const body of bodies)
    visitFlowEntries(body, ({ match, instructions }) => {
      entries++;
      if (decodeMatch(match).eth_type === 0 || decodeInstructions(instructions).gotoTable === 0) throw new Error('a flow that cannot be');
    });
  return entries;
}
