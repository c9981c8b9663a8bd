import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { afterAll, describe, expect, it } from 'vitest';
import { plain } from '../paint.ts';
import { run } from '../program.ts';

const dir = mkdtempSync(join(tmpdir(), 'seine-wire-'));
afterAll(() => rmSync(dir, { recursive: true, force: true }));

interface Outcome {
  readonly code: number;
  readonly out: readonly string[];
  readonly err: readonly string[];
}

/** No agent runs, and none is queried. */
async function wire(args: readonly string[], stdin = ''): Promise<Outcome> {
  const [out, err]: [string[], string[]] = [[], []];
  const room = { width: Number.POSITIVE_INFINITY, paint: plain };
  const terminal = { room, line: (text: string) => void out.push(text), remark: (text: string) => void err.push(text) };
  const code = await run(['wire', ...args], terminal, Readable.from([Buffer.from(stdin)]));
  return { code, out, err };
}

const barrier = '0615000800000001';
const flowMod =
  '060e0048000000020000000000000000000000000000000000000000000000c8ffffffffffffffffffffffff000000000001000a80000a0208060000000000000001000801000000';

describe('seinectl wire decode', () => {
  it('prints a message in the form of ovs-ofctl', async () => {
    expect(await wire(['decode', flowMod])).toEqual({
      code: 0,
      out: ['OFPT_FLOW_MOD (OF1.5) (xid=0x2): ADD priority=200,arp actions=goto_table:1'],
      err: [],
    });
  });

  it('accepts bytes in usual notations, and several messages at once', async () => {
    const { out } = await wire(['decode', `0x06 15:00 08 00,00 00 01 ${barrier}`]);
    expect(out).toEqual(['OFPT_BARRIER_REPLY (OF1.5) (xid=0x1):; OFPT_BARRIER_REPLY (OF1.5) (xid=0x1):']);
  });

  it('accepts bytes in several words', async () => {
    expect(await wire(['decode', '06150008', '00000001'])).toEqual({ code: 0, out: ['OFPT_BARRIER_REPLY (OF1.5) (xid=0x1):'], err: [] });
  });

  it('prints one answer per line, and errors on their line', async () => {
    const { code, out } = await wire(['decode', '-'], `${barrier}\nzz\n06150009\n\n0615000\n060b000c0000000100000000\n${barrier}`);
    expect(code).toBe(1);
    expect(out).toEqual([
      'OFPT_BARRIER_REPLY (OF1.5) (xid=0x1):',
      'error: INVALID_INPUT: "z" is not a hexadecimal digit',
      'error: PROTOCOL: message at byte 0 declares 9 bytes, 4 are left',
      'error: INVALID_INPUT: no bytes',
      'error: INVALID_INPUT: 7 hexadecimal digits are not whole bytes',
      expect.stringMatching(/^error: PROTOCOL: message: 2 bytes expected at/),
      'OFPT_BARRIER_REPLY (OF1.5) (xid=0x1):',
    ]);
  });

  it('prints JSON with decoded matches and instructions', async () => {
    const { out } = await wire(['decode', '--json', '-'], `${flowMod}\n00\n${barrier}${barrier}\n`);
    const [first, second, third] = out.map((line) => JSON.parse(line));
    expect(first).toMatchObject({
      name: 'OFPT_FLOW_MOD',
      version: '1.5',
      xid: 2,
      body: { match: { eth_type: 0x806 }, instructions: { gotoTable: 1 } },
    });
    expect(second).toMatchObject({ error: 'PROTOCOL' });
    expect(third).toHaveLength(2);
  });

  it('answers every message, on one line each', async () => {
    const lines = ['openflow-session', 'openflow-vectors'].flatMap((file) =>
      readFileSync(new URL(`../../../test/fixtures/${file}.jsonl`, import.meta.url), 'utf8')
        .trim()
        .split('\n')
        .map((line) => (JSON.parse(line) as { hex: string }).hex),
    );
    for (const flags of [[], ['--json']]) {
      const { code, out } = await wire(['decode', ...flags], lines.join('\n'));
      expect(code).toBe(0);
      expect(out).toHaveLength(lines.length);
    }
  });

  it('prints no control characters of a switch', async () => {
    const name = Buffer.from('\u001b[2Jx'.padEnd(16, '\0')).toString('hex');
    const port = `000000010048000002000000000100${'00'}${name}${'0000000000000000'}0000002000000000${'00'.repeat(24)}`;
    const body = `0200000000000000${port}`;
    const { out } = await wire(['decode', `060c${(8 + body.length / 2).toString(16).padStart(4, '0')}00000001${body}`]);
    expect(out.join('')).not.toContain('\u001b');
  });
});

describe('seinectl wire flows', () => {
  const text = [
    '# a comment',
    'OFPST_FLOW reply (OF1.5) (xid=0x2):',
    ' cookie=0x5, duration=3.2s, table=3, n_packets=1, n_bytes=2, tcp,tp_dst=80 actions=mod_nw_ttl:9,2',
    'group_id=5,type=select,bucket=weight:5,actions=output:1',
    'meter=5,kbps,burst,bands=type=drop,rate=7,burst_size=9,type=dscp_remark,rate=8,burst_size=1,prec_level=2',
  ].join('\n');

  it('prints flows, groups and meters in one form, which it reads again', async () => {
    const first = await wire(['flows'], text);
    expect(first).toEqual({
      code: 0,
      out: [
        'cookie=0x5, table=3, tcp,tp_dst=80 actions=mod_nw_ttl:9,output:2',
        'group_id=5,type=select,bucket=bucket_id:0,weight:5,actions=output:1',
        'meter=5,kbps,burst,bands=type=drop,rate=7,burst_size=9,type=dscp_remark,rate=8,burst_size=1,prec_level=2',
      ],
      err: [],
    });
    expect((await wire(['flows', '-'], first.out.join('\n'))).out).toEqual(first.out);
  });

  it.each(['OpenFlow13', 'OpenFlow15'])('prints the bytes of %s, which decode reads', async (version) => {
    const file = join(dir, 'flows.txt');
    writeFileSync(file, text);
    const { out } = await wire(['flows', '--hex', '-O', version, file]);
    const again = await wire(['decode'], out.join('\n'));
    expect(again.code).toBe(0);
    expect(again.out.map((line) => line.replace(/^\S+ (\S+) \S+ /, '$1 '))).toEqual([
      `(OF1.${version.at(-1)}) ADD table:3 tcp,tp_dst=80 cookie:0x5 actions=mod_nw_ttl:9,output:2`,
      `(OF1.${version.at(-1)}) ADD group_id=5,type=select,bucket=${version === 'OpenFlow15' ? 'bucket_id:0,' : ''}weight:5,actions=output:1`,
      `(OF1.${version.at(-1)}) ADD meter=5 kbps burst bands= type=drop rate=7 burst_size=9 type=dscp_remark rate=8 burst_size=1 prec_level=2`,
    ]);
  });

  it('reports line, column and words of errors, and continues', async () => {
    const { code, out, err } = await wire(
      ['flows'],
      'ip,foo=5,actions=drop\ntable=1,actions=ouput:5\nactions=drop\n meter=5,band=type=drop,rate=1\n',
    );
    expect(code).toBe(1);
    expect(out).toEqual(['actions=drop']);
    expect(err).toEqual([
      'standard input:1:4: no such field: "foo=5"',
      'standard input:2:17: no such port: "ouput:5"',
      'standard input:4:2: meter with neither kbps nor pktps: "meter=5,band=type=drop,rate=1"',
    ]);
  });

  it('reports what a version cannot encode', async () => {
    const { code, err } = await wire(
      ['flows', '-O', 'OpenFlow13'],
      'group_id=1,type=select,selection_method=dp_hash,bucket=actions=output:1',
    );
    expect(code).toBe(1);
    expect(err.join('')).toMatch(/OpenFlow 1.3 has no selection methods/);
  });

  it('rejects an unknown version, and a missing file', async () => {
    expect((await wire(['flows', '-O', 'OpenFlow10'])).code).toBe(2);
    expect((await wire(['flows', join(dir, 'none')])).code).toBe(2);
  });
});
