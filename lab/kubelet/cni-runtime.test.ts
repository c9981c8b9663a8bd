import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { aloneConfList, chainConfList, parseNetworkConf } from './cni-conf.ts';
import { CniRuntime, type RuntimeAttachment } from './cni-runtime.ts';

/**
 * Records each call as one JSON line, and answers from files next to it: `NAME.COMMAND` is printed with exit code 0, `NAME.COMMAND.error`
 * with exit code 1.
 */
const fakePlugin = `#!/usr/bin/env node
const { appendFileSync, existsSync, readFileSync } = require('node:fs');
const { basename, dirname } = require('node:path');
const env = Object.fromEntries(Object.entries(process.env).filter(([key]) => key.startsWith('CNI_')));
const stdin = readFileSync(0, 'utf8');
const name = basename(__filename);
const folder = dirname(__filename);
appendFileSync(folder + '/calls', JSON.stringify({ name, env, stdin: JSON.parse(stdin) }) + '\\n');
const file = folder + '/' + name + '.' + env.CNI_COMMAND;
if (existsSync(file + '.error')) { process.stdout.write(readFileSync(file + '.error')); process.exit(1); }
if (existsSync(file)) process.stdout.write(readFileSync(file));
`;

const signal = new AbortController().signal;
const attachment: RuntimeAttachment = {
  containerId: 'c'.repeat(64),
  netns: '/run/netns/pod',
  ifName: 'eth0',
  args: [
    ['IgnoreUnknown', '1'],
    ['K8S_POD_NAME', 'web-0'],
  ],
  capabilities: { portMappings: [{ hostPort: 80, containerPort: 8080, protocol: 'tcp' }], bandwidth: { ingressRate: 1000 } },
};
const network = parseNetworkConf(
  JSON.stringify({
    cniVersion: '1.0.0',
    name: 'net',
    plugins: [
      { type: 'first', key: 'value' },
      { type: 'second', capabilities: { portMappings: true } },
    ],
  }),
);

let folder: string;
let runtime: CniRuntime;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'seine-cni-'));
  mkdirSync(join(folder, 'bin'));
  for (const name of ['first', 'second']) {
    writeFileSync(join(folder, 'bin', name), fakePlugin);
    chmodSync(join(folder, 'bin', name), 0o755);
  }
  answer('first.ADD', { cniVersion: '1.0.0', ips: [{ address: '10.0.0.2/24', interface: 1 }] });
  answer('second.ADD', { cniVersion: '1.0.0', ips: [{ address: '10.0.0.2/24' }], mark: 'second' });
  runtime = new CniRuntime({
    nodeNetns: 'here',
    binFolders: ['/nowhere', join(folder, 'bin')],
    cacheFolder: join(folder, 'cache'),
  });
});
afterEach(() => rmSync(folder, { recursive: true }));

function answer(file: string, content: unknown): void {
  writeFileSync(join(folder, 'bin', file), JSON.stringify(content));
}

interface Call {
  readonly name: string;
  readonly env: Readonly<Record<string, string>>;
  readonly stdin: Readonly<Record<string, unknown>>;
}

function calls(): Call[] {
  const lines = readFileSync(join(folder, 'bin', 'calls'), 'utf8')
    .trim()
    .split('\n');
  return lines.map((line): Call => JSON.parse(line));
}

it('runs the chain in order, each plugin with its own configuration and the previous result', async () => {
  const result = await runtime.add(network, attachment, signal);
  expect(result).toMatchObject({ mark: 'second' });
  expect(calls()).toEqual([
    {
      name: 'first',
      env: {
        CNI_COMMAND: 'ADD',
        CNI_CONTAINERID: 'c'.repeat(64),
        CNI_NETNS: '/run/netns/pod',
        CNI_IFNAME: 'eth0',
        CNI_ARGS: 'IgnoreUnknown=1;K8S_POD_NAME=web-0',
        CNI_PATH: `/nowhere:${join(folder, 'bin')}`,
      },
      stdin: { cniVersion: '1.0.0', name: 'net', type: 'first', key: 'value' },
    },
    expect.objectContaining({
      name: 'second',
      stdin: {
        cniVersion: '1.0.0',
        name: 'net',
        type: 'second',
        capabilities: { portMappings: true },
        runtimeConfig: { portMappings: attachment.capabilities['portMappings'] },
        prevResult: { cniVersion: '1.0.0', ips: [{ address: '10.0.0.2/24', interface: 1 }] },
      },
    }),
  ]);
});

it('deletes in reverse order with the result of ADD, and then drops the result', async () => {
  await runtime.add(network, attachment, signal);
  await runtime.del(network, { ...attachment, netns: '', args: [], capabilities: {} }, signal);
  await runtime.del(network, attachment, signal);
  const undone = calls().slice(2);
  expect(undone.map(({ name }) => name)).toEqual(['second', 'first', 'second', 'first']);
  expect(undone[1]).toMatchObject({
    env: { CNI_NETNS: '', CNI_ARGS: 'IgnoreUnknown=1;K8S_POD_NAME=web-0' },
    stdin: { prevResult: { mark: 'second' } },
  });
  expect(undone[3]?.stdin).not.toHaveProperty('prevResult');
});

it('checks in order with the result of ADD, and not before ADD', async () => {
  await expect(runtime.check(network, attachment, signal)).rejects.toThrow('no ADD');
  await runtime.add(network, attachment, signal);
  await runtime.check(network, attachment, signal);
  expect(calls().slice(2)).toMatchObject([
    { name: 'first', stdin: { prevResult: { mark: 'second' } } },
    { name: 'second', stdin: { prevResult: { mark: 'second' } } },
  ]);
});

it('stops at the plugin that fails, and returns its code and message', async () => {
  answer('first.ADD.error', { cniVersion: '1.0.0', code: 11, msg: 'try again later', details: 'no agent' });
  await expect(runtime.add(network, attachment, signal)).rejects.toMatchObject({
    message: '[REFUSED] first ADD: try again later (no agent)',
    context: { cniCode: 11 },
  });
  expect(calls()).toHaveLength(1);
});

it('reports a plugin that fails without output', async () => {
  writeFileSync(join(folder, 'bin', 'first'), '#!/bin/sh\nexit 3\n');
  await expect(runtime.add(network, attachment, signal)).rejects.toThrow('first ADD: exit code 3: it printed no error');
});

it('collects garbage: DEL for what is not valid, GC with what is, from 1.1.0 on', async () => {
  const newer = { ...network, version: '1.1.0' };
  await runtime.add(newer, attachment, signal);
  await runtime.add(newer, { ...attachment, containerId: 'd'.repeat(64) }, signal);
  await runtime.gc(newer, [{ containerId: 'd'.repeat(64), ifName: 'eth0' }], signal);
  expect(calls().slice(4)).toMatchObject([
    { name: 'second', env: { CNI_COMMAND: 'DEL', CNI_CONTAINERID: 'c'.repeat(64), CNI_NETNS: '' } },
    { name: 'first', env: { CNI_COMMAND: 'DEL' } },
    {
      name: 'first',
      env: { CNI_COMMAND: 'GC' },
      stdin: { 'cni.dev/valid-attachments': [{ containerID: 'd'.repeat(64), ifname: 'eth0' }] },
    },
    { name: 'second', env: { CNI_COMMAND: 'GC' } },
  ]);
});

it('uses the highest version that both configuration and runtime support', () => {
  const conf = (more: object) => JSON.stringify({ cniVersion: '0.4.0', name: 'n', plugins: [{ type: 'x' }], ...more });
  expect(parseNetworkConf(conf({})).version).toBe('0.4.0');
  expect(parseNetworkConf(conf({ cniVersions: ['1.1.0', '1.0.0', '9.0.0'] })).version).toBe('1.1.0');
  expect(() => parseNetworkConf(conf({ cniVersion: '9.0.0' }))).toThrow('no version');
  expect(() => parseNetworkConf(conf({ plugins: [] }))).toThrow('plugins');
  expect(() => parseNetworkConf('{')).toThrow('not JSON');
});

it('offers in the chain of a node only versions that all of its plugins support', () => {
  const options = { agentSocket: '/a', stateDir: '/s', deadline: 30 };
  const debian = ['0.1.0', '0.2.0', '0.3.0', '0.3.1', '0.4.0', '1.0.0'];
  const offered = (...versions: string[][]) => JSON.parse(chainConfList(options, versions)).cniVersions;
  expect(offered([...debian, '1.1.0'], debian)).toEqual(['0.4.0', '1.0.0']);
  expect(offered([...debian, '1.1.0'], [...debian, '1.1.0'])).toEqual(['0.4.0', '1.0.0', '1.1.0']);
});

it('has a separate configuration for the newest version', () => {
  const alone = parseNetworkConf(aloneConfList({ agentSocket: '/a', stateDir: '/s', deadline: 30 }));
  expect(alone).toMatchObject({ version: '1.1.0', plugins: [{ type: 'seine', agentSocket: '/a' }] });
});
