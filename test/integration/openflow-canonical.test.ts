import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { OpenFlowConnection } from '../../src/openflow/connection.ts';
import { decodeFlowMod, noInstructions, writeFlowMod } from '../../src/openflow/flow-mod.ts';
import type { FlowEntry } from '../../src/openflow/flow-stats.ts';
import { everyGroup, writeGroupMod } from '../../src/openflow/group.ts';
import { decodeInstructions, encodeInstructions } from '../../src/openflow/instructions.ts';
import { decodeMatch, encodeMatch } from '../../src/openflow/match.ts';
import { ALL_TABLES } from '../../src/openflow/protocol.ts';
import { printFlow } from '../../src/openflow/text/flow-text.ts';
import { ByteWriter } from '../../src/wire/bytes.ts';
import { startSwitch, type TestSwitch } from '../support/open-vswitch.ts';
import { type RandomFlow, randomFlow } from '../support/openflow-flows.ts';

const stop = new AbortController();
let ovs: TestSwitch;
let connection: OpenFlowConnection;

beforeAll(async () => {
  ovs = startSwitch();
  ovs.exec('ovs-vsctl', 'add-br', 'br-int', '--', 'set', 'bridge', 'br-int', 'datapath_type=netdev', 'fail_mode=secure');
  ovs.exec('ovs-ofctl', '-O', 'OpenFlow15', 'add-tlv-map', 'br-int', '{class=0x104,type=0x0,len=4}->tun_metadata0');
  connection = new OpenFlowConnection({ endpoint: `unix:${ovs.runDir}/br-int.mgmt` });
  void connection.run(stop.signal);
  await connection.untilUp(stop.signal);
});
afterAll(async () => {
  stop.abort();
  await ovs.stop();
});
beforeEach(() =>
  connection.bundle([message((w) => writeFlowMod(w, deleteAll)), message((w) => writeGroupMod(w, everyGroup))], stop.signal),
);

const deleteAll = { command: 'delete', table: ALL_TABLES, priority: 0, match: encodeMatch({}), instructions: noInstructions } as const;

function message(write: (w: ByteWriter) => void): Uint8Array {
  const w = new ByteWriter(256);
  write(w);
  return w.finish();
}

function hex(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString('hex');
}

async function dump(): Promise<FlowEntry[]> {
  const entries: FlowEntry[] = [];
  await connection.dumpFlows({}, (entry) => entries.push(entry), stop.signal);
  return entries;
}

describe('what Open vSwitch dumps is what we encoded, byte for byte', () => {
  /** Flows of the corpus that name groups, meters or fields which this switch does not have or lets nobody match. */
  const impossible = /group:|meter:|write_actions\(output:1,group|delete_field|dp_hash|recirc_id/;
  const corpus = readFileSync(new URL('../fixtures/openflow-corpus.jsonl', import.meta.url), 'utf8')
    .trim()
    .split('\n')
    .map((line): { kind: string; hex: string; canonical: string } => JSON.parse(line))
    .filter((line) => line.kind === 'flow_mod' && line.canonical.includes(': ADD') && !impossible.test(line.canonical));

  it('for every flow of the corpus', async () => {
    const wanted = corpus.map((line, index) => {
      const mod = decodeFlowMod(Buffer.from(line.hex, 'hex'));
      const match = encodeMatch(decodeMatch(mod.match));
      return {
        line,
        match: line.canonical.includes('tun_metadata0=') ? tunMetadataMatch : match,
        instructions: encodeInstructions(decodeInstructions(mod.instructions)),
        table: mod.table,
        priority: index,
      };
    });
    await connection.bundle(
      wanted.map((flow) => message((w) => writeFlowMod(w, { command: 'add', ...flow }))),
      stop.signal,
    );
    const held = new Map((await dump()).map((entry) => [entry.priority, entry]));
    expect(held.size).toBe(wanted.length);
    for (const { line, match, instructions, priority, table } of wanted) {
      const entry = held.get(priority);
      expect(entry && { table: entry.table, match: hex(entry.match), instructions: hex(entry.instructions) }, line.canonical).toEqual({
        table,
        match: hex(match),
        instructions: hex(instructions),
      });
    }
  });

  /** As long as the option that the switch maps to the field. */
  const tunMetadataMatch = encodeMatch({
    tun_metadata0: { value: Uint8Array.of(0, 0, 0xab, 0xcd), mask: Uint8Array.of(0, 0, 0xff, 0xff) },
  });

  it('for random flows, and our text is that of ovs-ofctl', async () => {
    const runs = Number(process.env['SEINE_FC_RUNS'] ?? 20);
    await fc.assert(
      fc.asyncProperty(fc.array(randomFlow, { minLength: 30, maxLength: 30 }), async (flows) => {
        await connection
          .bundle(
            [
              message((w) => writeFlowMod(w, deleteAll)),
              ...flows.map((flow, priority) => message((w) => writeFlowMod(w, modOf(flow, priority)))),
            ],
            stop.signal,
          )
          .catch((cause) => {
            throw new Error(
              `${cause.message} ${JSON.stringify(flows[cause.context.index - 1], (_key, value) => (typeof value === 'bigint' ? `0x${value.toString(16)}` : value))}`,
            );
          });
        const held = new Map((await dump()).map((entry) => [entry.priority, entry]));
        for (const [priority, flow] of flows.entries()) {
          const entry = held.get(priority);
          expect(entry && hex(entry.match)).toBe(hex(encodeMatch(flow.match)));
          expect(entry && hex(entry.instructions)).toBe(hex(encodeInstructions(flow.instructions)));
          expect(entry && decodeInstructions(entry.instructions)).not.toHaveProperty('unknown');
        }
        expect([...held.values()].map((entry) => printFlow(entry)).toSorted()).toEqual(theirText().toSorted());
      }),
      { numRuns: runs },
    );
  });
});

function theirText(): string[] {
  const text = ovs.exec('ovs-ofctl', '-O', 'OpenFlow15', '--no-names', '--no-stats', 'dump-flows', 'br-int');
  return text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => line.trim());
}

function modOf(flow: RandomFlow, priority: number) {
  return {
    command: 'add',
    table: 10,
    priority,
    match: encodeMatch(flow.match),
    instructions: encodeInstructions(flow.instructions),
  } as const;
}
