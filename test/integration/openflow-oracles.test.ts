import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, describe, expect, it } from 'vitest';
import { decodeFlowMod } from '../../src/openflow/flows/flow-mod.ts';
import { decodeMessage, encodeMessage, type Message, type MessageKind, messageName } from '../../src/openflow/message.ts';
import { OPENFLOW_13, OPENFLOW_15, type Version, versionNames } from '../../src/openflow/protocol.ts';
import { printFlow } from '../../src/openflow/text/flow-text.ts';
import { printGroup } from '../../src/openflow/text/group-text.ts';
import { parseGroup } from '../../src/openflow/text/parse-group.ts';
import { modOf, randomFlow } from '../support/openflow-flows.ts';

/** The installed Open vSwitch, and os-ken, read our encoded messages. */

const dir = mkdtempSync(join(tmpdir(), 'seine-judges-'));
afterAll(() => rmSync(dir, { recursive: true, force: true }));

const fixtures = ['openflow-session', 'openflow-vectors', 'openflow-corpus', 'openflow13-corpus'].flatMap((file) =>
  readFileSync(new URL(`../fixtures/${file}.jsonl`, import.meta.url), 'utf8')
    .trim()
    .split('\n')
    .map((line) => decodeMessage(Uint8Array.from(Buffer.from((JSON.parse(line) as { hex: string }).hex, 'hex')))),
);

const seed = Number(process.env['SEINE_FC_SEED'] ?? 7);

function randomFlowMods(version: Version): Message[] {
  return fc.sample(randomFlow, { seed, numRuns: 300 }).map((flow, index): Message => {
    return { kind: 'flowMod', version, xid: index, body: { ...modOf(flow, index, version), cookie: BigInt(index) } };
  });
}

/** Messages of OpenFlow 1.5 that Open vSwitch 3.1 does not support. */
const beyond: ReadonlySet<MessageKind | 'unknown'> = new Set<MessageKind>([
  'controllerStatus',
  'controllerStatusRequest',
  'controllerStatusReply',
  'flowStatsRequest',
  'flowStatsReply',
  'bundleFeaturesRequest',
  'bundleFeaturesReply',
]);

describe('ovs-ofctl', () => {
  it('reads every message that we write, by our name', () => {
    const messages = [...fixtures, ...randomFlowMods(OPENFLOW_13), ...randomFlowMods(OPENFLOW_15)].filter(({ kind }) => !beyond.has(kind));
    const numbered = messages.map(
      (message, index): Message =>
        // A message in a bundle has the number of the bundle message.
        message.kind === 'bundleAdd' ? message : { ...message, xid: 0x10000 + index },
    );
    const file = join(dir, 'stream');
    writeFileSync(file, Buffer.concat(numbered.map(encodeMessage)));
    const text = execFileSync('ovs-ofctl', ['--no-names', 'ofp-parse', file], {
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
      maxBuffer: 1 << 26,
    });
    expect(text).not.toMatch(/decode error|truncated to|only uses/);
    const names = new Map(
      [...text.matchAll(/^((?:OFP|NX|ONF)\w+(?: request| reply)?) \(OF1\.[35]\) \(xid=0x([0-9a-f]+)\)/gm)].map(
        ([, name = '', xid = '']) => [Number.parseInt(xid, 16), name],
      ),
    );
    for (const message of numbered) {
      if (message.kind !== 'unknown' && message.kind !== 'bundleAdd')
        expect(names.get(message.xid), message.kind).toBe(messageName(message.kind, message.version));
    }
  });

  it.each<Version>([OPENFLOW_13, OPENFLOW_15])('reads our text of flows in version %d as intended', (version) => {
    const mods = randomFlowMods(version).flatMap((message) => (message.kind === 'flowMod' ? [message.body] : []));
    const texts = mods.map((mod) => {
      const { cookie = 0n } = mod;
      return printFlow({ ...mod, cookie, idleTimeout: 0, hardTimeout: 0, importance: 0, flags: 0 }, {}, version);
    });
    // The tool reads masks that begin with digits as prefix lengths, even in its own output.
    const ours = texts.filter((text) => !/\/\d[0-9a-f]*:/.test(text));
    const file = join(dir, 'flows');
    writeFileSync(file, `${ours.join('\n')}\n`);
    const theirs = execFileSync('ovs-ofctl', ['-O', versionNames[version], '--no-names', 'parse-flows', file], {
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
      maxBuffer: 1 << 26,
    });
    const read = theirs.split('\n').filter((line) => line.startsWith('OFPT_FLOW_MOD'));
    expect(read).toHaveLength(ours.length);
    for (const [index, line] of read.entries()) {
      const text = ours[index] ?? '';
      expect(line.slice(line.indexOf(' actions='))).toBe(text.slice(text.indexOf(' actions=')));
    }
  });

  it('reads our text of groups', () => {
    const groups = [
      'group_id=1,type=select,selection_method=hash,selection_method_param=3,fields(ip_src=255.255.255.0,tcp_dst),bucket=weight:7,actions=output:1',
      'group_id=2,type=ff,bucket=watch_port:1,watch_group:3,actions=output:1',
      'group_id=3,type=all',
    ];
    for (const text of groups) {
      const ours = printGroup(parseGroup(text));
      const theirs = execFileSync('ovs-ofctl', ['-O', 'OpenFlow15', '--no-names', 'parse-group', ours], {
        encoding: 'utf8',
        stdio: ['ignore', 'pipe', 'ignore'],
      });
      expect(theirs).toContain(` ADD ${ours}`);
    }
  });
});

interface Reading {
  readonly name?: string;
  readonly unread?: string;
  readonly xid?: number;
  readonly fields?: readonly number[];
  readonly match?: string;
  readonly instructions?: string;
}

/** Decodes all messages in one process. */
function osKen(messages: readonly Message[]): Reading[] {
  const script = new URL('../fixtures/os-ken-decode.py', import.meta.url).pathname;
  const input = messages.map((message) => `${Buffer.from(encodeMessage(message)).toString('hex')}\n`).join('');
  const output = execFileSync('/usr/bin/python3', [script], {
    input,
    encoding: 'utf8',
    stdio: ['pipe', 'pipe', 'ignore'],
    maxBuffer: 1 << 26,
    timeout: 60_000,
  });
  return output
    .trim()
    .split('\n')
    .map((line): Reading => JSON.parse(line));
}

describe('os-ken', () => {
  const commands = ['add', 'modify', 'modifyStrict', 'delete', 'deleteStrict'];

  it('reads our flow-mods, and writes matches and instructions of its own like us', () => {
    const mods = [...fixtures.filter(({ kind }) => kind === 'flowMod'), ...randomFlowMods(OPENFLOW_13), ...randomFlowMods(OPENFLOW_15)];
    const readings = osKen(mods);
    expect(readings).toHaveLength(mods.length);
    let sameAnswer = 0;
    for (const [index, reading] of readings.entries()) {
      const message = mods[index];
      if (message?.kind !== 'flowMod' || reading.unread !== undefined) continue;
      const { table, command, priority, idleTimeout, hardTimeout, flags, match, instructions } = decodeFlowMod(encodeMessage(message));
      expect(reading.fields).toEqual([table, commands.indexOf(command), priority, idleTimeout, hardTimeout, flags]);
      expect(reading.match).toBe(Buffer.from(match).toString('hex'));
      // It drops the padding of a nat in a ct, and the properties of an encap.
      if (reading.instructions === Buffer.from(instructions).toString('hex')) sameAnswer++;
    }
    expect(readings.filter(({ unread }) => unread === undefined).length).toBeGreaterThan(mods.length * 0.9);
    expect(sameAnswer).toBeGreaterThan(mods.length * 0.8);
  });

  it('reads what Open vSwitch does not support: controllers’ states, features of bundles', () => {
    const reported = fixtures.filter(({ kind }) =>
      [
        'controllerStatus',
        'controllerStatusReply',
        'bundleFeaturesReply',
        'flowStatsReply',
        'roleStatus',
        'tableStatus',
        'requestForward',
      ].includes(kind),
    );
    const readings = osKen(reported);
    expect(readings.map(({ name, xid }) => [name, xid])).toEqual(
      reported.map(({ kind, xid }) => [
        (
          {
            controllerStatus: 'OFPControllerStatus',
            controllerStatusReply: 'OFPControllerStatusStatsReply',
            bundleFeaturesReply: 'OFPBundleFeaturesStatsReply',
            flowStatsReply: 'OFPFlowStatsReply',
            roleStatus: 'OFPRoleStatus',
            tableStatus: 'OFPTableStatus',
            requestForward: 'OFPRequestForward',
          } as Record<string, string>
        )[kind],
        xid,
      ]),
    );
  });
});
