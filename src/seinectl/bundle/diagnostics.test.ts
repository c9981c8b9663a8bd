import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { exampleScene } from '../../../test/model/scene.ts';
import { ownerOf } from '../../dataplane/pipeline/cookie.ts';
import { compileInputs } from '../../operations/compiler-inputs/compile-inputs.ts';
import { readInputs, writeEnd, writeInput, writeStart } from '../../operations/compiler-inputs/inputs-document.ts';
import { ArchiveWriter } from '../../operations/support-bundle/archive.ts';
import type { PartRecord } from '../../operations/support-bundle/manifest.ts';
import { plain } from '../paint.ts';
import { run } from '../program.ts';

let folder: string;
let server: Server;
let answers: Record<string, unknown>;
let asked: string[];

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'seinectl-'));
  answers = {};
  asked = [];
  server = createServer((request, response) => {
    asked.push(`${request.method} ${request.url}`);
    const answer = answers[(request.url ?? '').replace(/\?.*/, '')];
    response.writeHead(answer === undefined ? 404 : 200).end(JSON.stringify(answer ?? 'nothing'));
  });
  await new Promise<void>((resolve) => server.listen(join(folder, 'agent.sock'), resolve));
});
afterEach(async () => {
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
  rmSync(folder, { recursive: true });
});

async function seinectl(...args: readonly string[]) {
  const [out, err]: [string[], string[]] = [[], []];
  const room = { width: Number.POSITIVE_INFINITY, paint: plain };
  const terminal = { room, line: (text: string) => void out.push(text), remark: (text: string) => void err.push(text) };
  const code = await run(['--socket', join(folder, 'agent.sock'), ...args], terminal, Readable.from([]));
  return { code, out: out.join('\n'), err: err.join('\n') };
}

/** Inputs of the example's node, without its Services, whose groups would need allocated numbers. */
function inputsText(): string {
  const { node: environment, peers, pods, proxying } = exampleScene;
  const { addresses, gateway } = proxying.node;
  const lines = [
    ...peers.map((peer) => writeInput('peer', peer)),
    ...pods.map((intent, at) => writeInput('pod', { owner: ownerOf('pod', 'default', `p${at}`, 'eth0@abc'), intent })),
  ];
  const start = writeStart({ node: 'n1', revision: 1 }, { environment, proxy: { addresses, gateway } });
  return [start, ...lines, writeEnd(1, lines.length)].join('\n');
}

function heldText(skip = 0): string {
  const { entries } = compileInputs(readInputs(inputsText()).inputs);
  const hex = (bytes: string): string => Buffer.from(bytes, 'latin1').toString('hex');
  const lines = [...entries].slice(skip).map(([key, value]) => JSON.stringify({ key: hex(key), value: hex(value) }));
  return lines.join('\n');
}

async function bundle(files: Readonly<Record<string, string>>, parts: readonly PartRecord[] = [], format = 1): Promise<string> {
  const path = join(folder, `${Object.keys(files).length}-${parts.length}-${format}-${Math.random()}.tar.gz`);
  const archive = new ArchiveWriter(path, 'seine-n1');
  for (const [name, text] of Object.entries(files)) await archive.add(name, Buffer.from(text));
  await archive.add('manifest.json', Buffer.from(JSON.stringify({ format, seine: '0', node: 'n1', begun: '', ended: '', parts })));
  await archive.close();
  return path;
}

describe('compile', () => {
  it('prints flows by table and priority, in each form', async () => {
    const path = await bundle({ 'agent/inputs.ndjson': inputsText() });
    const text = (await seinectl('compile', path)).out.split('\n');
    expect(text).toContainEqual(expect.stringMatching(/^meter=\d+,kbps,burst,bands=type=drop,rate=1000000/));
    expect(text.find((line) => !line.startsWith('meter='))).toMatch(/^cookie=0x[0-9a-f]+, priority=260,tun_id=0x5e1000\/0xfff000,/);
    expect((await seinectl('compile', path, '-o', 'names')).out).toContain('table=classify, priority=250');
    expect((await seinectl('compile', path, '-o', 'bundle')).out.split('\n').every((line) => line.startsWith('flow add cookie='))).toBe(
      true,
    );
    const hex = (await seinectl('compile', path, '-o', 'hex')).out.split('\n');
    expect([hex.length, hex.every((line) => /^06(?:0e|1d)[0-9a-f]+$/.test(line))]).toEqual([text.length, true]);
    expect(asked).toEqual([]);
  });

  it('compares with the recorded bridge', async () => {
    const inputs = { 'agent/inputs.ndjson': inputsText() };
    const same = await seinectl('compile', await bundle({ ...inputs, 'openflow/held.ndjson': heldText() }), '--check');
    expect(same).toMatchObject({ code: 0, out: '', err: expect.stringContaining('the bridge had exactly these') });
    const less = await seinectl('compile', await bundle({ ...inputs, 'openflow/held.ndjson': heldText(2) }), '--check');
    expect([less.code, less.out.split('\n').length, less.out.startsWith('+ cookie=')]).toEqual([1, 2, true]);
  });

  it.each<[string, () => Promise<string> | string, string]>([
    ['no file', () => '/nowhere/x.tar.gz', 'ENOENT'],
    ['no archive', () => join(folder, 'text'), 'is not a readable bundle'],
    ['of another format', () => bundle({}, [], 9), 'has format 9'],
    ['without inputs', () => bundle({}), 'has no agent/inputs.ndjson'],
    [
      'with inputs that failed',
      () => bundle({}, [{ name: 'agent/inputs.ndjson', state: 'failed', bytes: 0, tookMs: 1, reason: 'no agent answers' }]),
      'no complete inputs: no agent answers',
    ],
    ['with inputs that break off', () => bundle({ 'agent/inputs.ndjson': inputsText().slice(0, -40) }), 'inputs'],
  ])('rejects input that is %s, with 2', async (_, path, words) => {
    writeFileSync(join(folder, 'text'), 'no archive');
    const { code, err } = await seinectl('compile', await path());
    expect([code, err]).toEqual([2, expect.stringContaining(words)]);
  });
});

describe('log-level', () => {
  it('shows it, and sets it permanently or for a time', async () => {
    answers['/v1/log-level'] = { level: 'info', usual: 'info' };
    expect((await seinectl('log-level')).out).toBe('info');
    answers['/v1/log-level'] = { level: 'debug', usual: 'info', secondsLeft: 600 };
    expect((await seinectl('log-level', 'debug', '--for', '10m')).out).toBe('debug for 10m, then info again');
    answers['/v1/log-level'] = { level: 'warn', usual: 'info' };
    expect((await seinectl('log-level', 'warn')).out).toBe('warn until the agent ends; info is configured');
    expect(asked).toEqual(['GET /v1/log-level', 'POST /v1/log-level?level=debug&seconds=600', 'POST /v1/log-level?level=warn']);
    expect((await seinectl('log-level', 'debug', '--for', 'long')).code).toBe(2);
  });
});

describe('explain pod', () => {
  it('prints sentences without cursor movement, with 1 if something is wrong', async () => {
    answers['/v1/explain/pod'] = { name: 'default/a', state: 'ok', lines: ['Pod default/a is\u001b[2J fine.'], problems: [] };
    expect(await seinectl('explain', 'pod', 'a')).toEqual({ code: 0, out: 'Pod default/a is\\u001b[2J fine.', err: '' });
    answers['/v1/explain/pod'] = { name: 'shop/b', state: 'wrong', lines: ['! x.'], problems: ['x'] };
    expect(JSON.parse((await seinectl('explain', 'pod', 'shop/b', '--json')).out)).toMatchObject({ problems: ['x'] });
    expect((await seinectl('explain', 'pod', 'ab'.repeat(32))).code).toBe(1);
    expect(asked.map((each) => each.replace(/.*name=/, ''))).toEqual(['default%2Fa', 'shop%2Fb', 'ab'.repeat(32)]);
  });
});

it.each(['collect', 'compile', 'log-level', 'explain pod'])('%s --help has examples, and exit codes', async (command) => {
  const { code, out } = await seinectl(...command.split(' '), '--help');
  expect([code, out.includes('Examples:')]).toEqual([0, true]);
  if (command !== 'log-level') expect(out).toContain('Exit codes:');
});
