import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type Server, type ServerResponse } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { CheckEvent, Finding } from '../../api/check.ts';
import { plain } from '../paint.ts';
import { run } from '../program.ts';
import { parseConfiguration } from './cni-files.ts';

const plan: CheckEvent = {
  kind: 'plan',
  node: 'node-1',
  facts: { version: '0.1.0', cniSocket: '/run/seine/cni.sock' },
  checks: ['agent', 'tunnel'],
};
const good: CheckEvent = { kind: 'finding', finding: { check: 'agent.ready', state: 'ok', what: 'pods are served' } };
const bad: CheckEvent = {
  kind: 'finding',
  finding: { check: 'tunnel.reach', state: 'problem', what: 'node-2\u001b[2J is silent', effect: 'no packets', remedy: 'iptables …' },
};
const chain = {
  cniVersion: '1.0.0',
  name: 'seine',
  plugins: [{ type: 'seine', agentSocket: '/run/seine/cni.sock' }, { type: 'portmap' }],
};
/** Plugin as a shell script with the answers of ours. */
const plugin = (version = '0.1.0', status = 0) => `#!/bin/sh
cat > /dev/null
[ "$1" = --version ] && { echo "seine ${version}"; exit 0; }
[ "$CNI_COMMAND" = VERSION ] && { echo '{"cniVersion":"1.1.0","supportedVersions":["0.4.0","1.0.0","1.1.0"]}'; exit 0; }
[ "$CNI_COMMAND" = STATUS ] && [ ${status} != 0 ] && echo '{"code":${status},"msg":"no agent"}'
exit $([ ${status} = 0 ] && echo 0 || echo 1)
`;

let folder = '';
let server: Server | undefined;
let answer: (response: ServerResponse) => void;
let asked: string[] = [];

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'seine-check-'));
  for (const name of ['net.d', 'bin']) mkdirSync(join(folder, name));
  configure('10-seine.conflist', chain);
  install('seine', plugin());
  install('portmap', plugin());
  asked = [];
  answer = (response) => response.end(lines(plan, good, { kind: 'end' }));
  server = createServer((request, response) => {
    asked.push(`${request.method} ${request.url}`);
    answer(response);
  });
  await new Promise<void>((resolve) => server?.listen(join(folder, 'agent.sock'), resolve));
});
afterEach(async () => {
  server?.closeAllConnections();
  await new Promise((resolve) => server?.close(resolve));
  rmSync(folder, { recursive: true, force: true });
});

const lines = (...events: readonly CheckEvent[]) => events.map((event) => `${JSON.stringify(event)}\n`).join('');

function configure(name: string, value: object | string, mode = 0o600): void {
  const path = join(folder, 'net.d', name);
  writeFileSync(path, typeof value === 'string' ? value : JSON.stringify(value));
  chmodSync(path, mode);
}

function install(name: string, script: string, mode = 0o755): void {
  writeFileSync(join(folder, 'bin', name), script);
  chmodSync(join(folder, 'bin', name), mode);
}

async function seinectl(args: readonly string[], socket = join(folder, 'agent.sock')) {
  const [out, err]: [string[], string[]] = [[], []];
  const room = { width: Number.POSITIVE_INFINITY, paint: plain };
  const terminal = { room, line: (text: string) => void out.push(text), remark: (text: string) => void err.push(text) };
  const folders = ['--conf-dir', join(folder, 'net.d'), '--bin-dir', join(folder, 'bin'), '--ovs-run-dir', folder];
  const code = await run(['--socket', socket, 'check', ...folders, ...args], terminal, Readable.from(['']));
  return { code, out: out.join('\n'), err: err.join('\n') };
}

async function findings(...args: readonly string[]): Promise<readonly Finding[]> {
  const { out } = await seinectl(['--json', ...args]);
  return (JSON.parse(out) as { findings: Finding[] }).findings;
}

async function cniFindings(): Promise<readonly string[]> {
  return (await findings()).filter(({ check }) => check.startsWith('cni')).map(({ check, state, what }) => `${check} ${state}: ${what}`);
}

describe('findings of the agent', () => {
  it('are shown as they arrive, with 0 if all is well', async () => {
    const { code, out, err } = await seinectl([]);
    expect([code, out.split('\n')[0]]).toEqual([0, 'ok       agent.ready          pods are served']);
    expect(err).toBe('5 of 5 checks passed');
    expect(asked).toEqual(['POST /v1/check?seconds=28']);
  });

  it('exit with 1 for a problem: its meaning and remedy, without terminal control sequences', async () => {
    answer = (response) => response.end(lines(plan, { kind: 'progress', says: 'asking' }, good, bad, { kind: 'end' }));
    const { code, out, err } = await seinectl(['--peer', 'node-2', '--timeout', '10s']);
    expect(code).toBe(1);
    expect(out).toContain(
      'PROBLEM  tunnel.reach         node-2\\u001b[2J is silent\n         effect: no packets\n         remedy: iptables …\n',
    );
    expect(err).toBe('… asking\n5 of 6 checks passed; 1 problem');
    expect(asked).toEqual(['POST /v1/check?seconds=8&peer=node-2']);
  });

  it('are unknown if the answer breaks off, or does not end in time', async () => {
    answer = (response) => {
      response.write(lines(plan, good));
      setTimeout(() => response.destroy(), 20);
    };
    expect(await seinectl([])).toMatchObject({ code: 1, out: expect.stringContaining('unknown  tunnel') });
    answer = (response) => void response.write(lines(plan, bad));
    const { code, out } = await seinectl(['--timeout', '4s']);
    expect([code, out]).toEqual([
      1,
      expect.stringMatching(/PROBLEM {2}tunnel\.reach.*unknown {2}agent {16}not known: the time is over.*ok {7}cni\.config/s),
    ]);
  });

  it('are missing without an agent, with 3; other findings are shown', async () => {
    const { code, out } = await seinectl([], join(folder, 'missing.sock'));
    expect(code).toBe(3);
    expect(out).toMatch(/PROBLEM {2}agent {16}no agent answers on .*PROBLEM {2}ovs {18}no answer from OVSDB.*ok {7}cni\.config/s);
    expect(out).not.toContain('cni.version');
  });

  it.each([
    ['--timeout', '1s'],
    ['--timeout', '11m'],
    ['--peers', 'some'],
  ])('are not requested with %s %s', async (...args) => {
    expect((await seinectl(args)).code).toBe(2);
    expect(asked).toEqual([]);
  });
});

describe('the CNI files', () => {
  it('may be another network’s, which precedes by its name', async () => {
    configure('05-other.conflist', { cniVersion: '1.0.0', name: 'other', plugins: [{ type: 'bridge' }] });
    const [first] = (await findings()).filter(({ check }) => check === 'cni.config');
    expect(first).toMatchObject({ state: 'problem', what: expect.stringContaining('has the network "other" of bridge') });
    expect(first?.remedy).toBe(`mv ${folder}/net.d/05-other.conflist ${folder}/net.d/05-other.conflist.disabled`);
    configure('05-other.conflist', '{');
    expect(await cniFindings()).toContainEqual(expect.stringMatching(/cni.config problem: .*05-other.conflist precedes .* is not JSON/));
  });

  it.each(['15-other.conflist', '05-other.conflist.disabled', '05-readme.md'])('are not affected by %s', async (name) => {
    configure(name, { name: 'other', plugins: [{ type: 'bridge' }] });
    expect((await seinectl([])).code).toBe(0);
  });

  it('may be missing, be links, or be readable by everybody', async () => {
    configure('10-seine.conflist', { ...chain, plugins: [{ type: 'seine', agentSocket: '/run/old/cni.sock' }] });
    expect(await cniFindings()).toContainEqual(
      expect.stringContaining('sends the plugin to /run/old/cni.sock; the agent serves /run/seine/cni.sock'),
    );
    configure('10-seine.conflist', chain, 0o644);
    expect(await cniFindings()).toContainEqual(expect.stringMatching(/cni.config warning: .* has mode 0644/));
    expect((await seinectl([])).code).toBe(0);
    rmSync(join(folder, 'net.d', '10-seine.conflist'));
    expect(await cniFindings()).toContainEqual(expect.stringMatching(/cni.config problem: no file in .* names the plugin seine$/));
    rmSync(join(folder, 'net.d'), { recursive: true });
    expect(await cniFindings()).toContainEqual(expect.stringMatching(/cni.config problem: there is no /));
  });

  it.each([
    [
      'is another version',
      () => install('seine', plugin('0.0.9')),
      'cni.version warning: the plugin is of version 0.0.9, the agent of 0.1.0',
    ],
    [
      'is too old to say',
      () => install('seine', plugin().replace('= --version', '= --v')),
      'cni.version warning: the plugin is of version unknown',
    ],
    [
      'reaches no agent',
      () => install('seine', plugin('0.1.0', 50)),
      'cni.status problem: the plugin, started like by a runtime, reports: no agent (code 50)',
    ],
    [
      'waits for an agent for the given time',
      () =>
        install(
          'seine',
          plugin('0.1.0', 50).replace('cat > /dev/null', `grep -q '"deadline":2' || [ "$CNI_COMMAND" != STATUS ] || sleep 20`),
        ),
      'cni.status problem: the plugin, started like by a runtime, reports: no agent (code 50)',
    ],
    ['is missing', () => rmSync(join(folder, 'bin', 'seine')), `/bin/seine is not there`],
    ['may not be executed', () => install('seine', plugin(), 0o644), 'bin/seine cannot be executed'],
    ['has a missing successor', () => rmSync(join(folder, 'bin', 'portmap')), '/bin/portmap is not there'],
    ['has an old successor', () => install('portmap', plugin().replace(',"1.0.0","1.1.0"', '')), 'portmap does not support CNI 1.0.0'],
  ])('name a plugin that %s', async (_, break_, expected) => {
    break_();
    expect(await cniFindings()).toContainEqual(expect.stringContaining(expected));
  });

  it('are given up if a plugin hangs', async () => {
    install('seine', '#!/bin/sh\nexec sleep 60\n');
    expect(await cniFindings()).toContainEqual(
      expect.stringMatching(/cni.plugins problem: .*bin\/seine cannot be executed: .* did not end within 3 s/),
    );
  });

  it.each([
    '[]',
    'null',
    '{"plugins":{}}',
    '{"plugins":[]}',
    '{"plugins":[{"type":"../evil"}]}',
    '{"plugins":[{"type":"a/b"}]}',
    '{"type":".."}',
    '{"plugins":[null]}',
  ])('are not trusted if they contain %s', (text) => expect(parseConfiguration(text)).toEqual({ problem: expect.any(String) }));

  it('may have one plugin and no list', () => {
    expect(parseConfiguration('{"name":"n","cniVersion":"0.4.0","type":"bridge","__proto__":{"plugins":[]}}')).toMatchObject({
      network: 'n',
      plugins: [{ type: 'bridge', agentSocket: undefined }],
    });
  });
});
