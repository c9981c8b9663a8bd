import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { CniFiles } from './cni-files-check.ts';
import { type Installation, install, remove, rollBack } from './install.ts';

let base: string;
let want: Installation;
let nowMs = 0;
let files: CniFiles;
const report = (): void => undefined;
const conf = () => join(want.conf, '10-seine.conflist');
const plugin = () => join(want.bin, 'seine');

function writePlugin(folder: string, name: string, mark = ''): void {
  mkdirSync(folder, { recursive: true });
  const answer = JSON.stringify({ cniVersion: '1.0.0', supportedVersions: ['0.4.0', '1.0.0'] });
  writeFileSync(join(folder, name), `#!/bin/sh\n# ${mark}\ncat >/dev/null\necho '${answer}'\n`, { mode: 0o755 });
}

interface List {
  plugins: { type: string; [key: string]: unknown }[];
  name: string;
}
const listed = (): List => JSON.parse(readFileSync(conf(), 'utf8')) as List;
const change = (how: (list: List) => void): void => {
  const list = listed();
  how(list);
  writeFileSync(conf(), JSON.stringify(list));
};
const types = (): string[] => listed().plugins.map(({ type }) => type);
const abouts = () => files.compare().problems.map(({ kind, about }) => `${kind} ${about}`);

beforeEach(() => {
  base = mkdtempSync(join(tmpdir(), 'seine-cni-look-'));
  nowMs = 0;
  want = {
    bin: join(base, 'bin'),
    conf: join(base, 'net.d'),
    state: join(base, 'state'),
    source: join(base, 'source'),
    conflist: join(base, 'list'),
  };
  for (const name of ['seine', 'portmap', 'loopback']) writePlugin(want.source, name);
  const plugins = [{ type: 'seine', agentSocket: '/run/x.sock' }, { type: 'portmap' }];
  writeFileSync(want.conflist, JSON.stringify({ name: 'seine', cniVersion: '1.0.0', plugins }));
  install(want, report);
  files = new CniFiles({ folders: want, nowMs: () => nowMs });
});
afterEach(() => rmSync(base, { recursive: true, force: true }));

it('finds no problem after an installation', () => {
  expect(files.compare()).toEqual({ problems: [], repaired: [] });
  expect(files.chain).toEqual({ chain: ['seine', 'portmap'], added: [] });
});

it('compares nothing without an installation, nor after its removal', () => {
  remove(want, report);
  expect(files.compare()).toEqual({ problems: [] });
});

describe('additions of others to the list', () => {
  it('are reported and kept', () => {
    change((list) => list.plugins.push({ type: 'istio-cni', kubernetes: { x: 1 } }));
    const before = readFileSync(conf(), 'utf8');
    expect(files.compare()).toEqual({ problems: [], repaired: [] });
    expect(files.chain).toEqual({ chain: ['seine', 'portmap', 'istio-cni'], added: ['istio-cni'] });
    expect(readFileSync(conf(), 'utf8')).toBe(before);
  });

  it('stay in place when our part is restored around them', () => {
    change((list) => {
      list.plugins = [{ type: 'first' }, { type: 'seine', agentSocket: '/run/other.sock' }, { type: 'linkerd-cni' }];
    });
    expect(files.compare().repaired).toEqual([
      `${conf()}: plugin "portmap" is missing; plugin "seine" is configured otherwise than installed`,
    ]);
    expect(types()).toEqual(['first', 'seine', 'linkerd-cni', 'portmap']);
    expect(listed().plugins[1]).toEqual({ type: 'seine', agentSocket: '/run/x.sock' });
    expect(files.compare()).toEqual({ problems: [], repaired: [] });
  });
});

describe('missing or changed parts of ours are restored', () => {
  it.each<[string, () => void]>([
    ['the configuration is gone', () => rmSync(conf())],
    ['it is damaged', () => writeFileSync(conf(), '{"plugins": [')],
    ['the network has another name', () => change((list) => (list.name = 'other'))],
    ['the plugins are in another order', () => change((list) => list.plugins.reverse())],
    ['the plugin is gone', () => rmSync(plugin())],
    ['it is another', () => writePlugin(want.bin, 'seine', 'another')],
    ['it cannot be executed', () => chmodSync(plugin(), 0o644)],
  ])('if %s', (_, damage) => {
    const [list, bytes] = [listed(), readFileSync(plugin())];
    expect(files.compare().repaired).toEqual([]);
    damage();
    expect(files.compare()).toMatchObject({ problems: [], repaired: [expect.any(String)] });
    expect([listed(), readFileSync(plugin()), statSync(plugin()).mode & 0o777]).toEqual([list, bytes, 0o755]);
    expect(files.compare()).toEqual({ problems: [], repaired: [] });
  });

  it('but not repeatedly', () => {
    for (let time = 0; time < 5; time++) {
      rmSync(conf());
      expect(files.compare().repaired).toHaveLength(1);
    }
    rmSync(conf());
    expect(files.compare().problems[0]?.message).toContain('keeps changing it');
    nowMs = 10 * 60_000;
    expect(files.compare()).toMatchObject({ problems: [], repaired: [expect.any(String)] });
  });
});

describe('reported only', () => {
  it('a configuration of another network under our name', () => {
    writeFileSync(conf(), JSON.stringify({ name: 'x', cniVersion: '1.0.0', plugins: [{ type: 'bridge' }] }));
    expect(abouts()).toEqual([`cni ${conf()}`]);
    expect(types()).toEqual(['bridge']);
  });

  it('a configuration that precedes ours', () => {
    writeFileSync(join(want.conf, '05-other.conf'), '{}');
    expect(files.compare().problems).toMatchObject([{ about: join(want.conf, '05-other.conf'), remedy: expect.stringMatching(/^mv /) }]);
  });

  it('an unfinished installation', () => {
    writePlugin(want.source, 'seine', 'newer');
    writeFileSync(want.conflist, JSON.stringify({ name: 'seine', cniVersion: '9.9.9', plugins: [{ type: 'seine' }] }));
    expect(() => install(want, report)).toThrow();
    expect(abouts()).toEqual(['cni install']);
    rollBack(want, report);
    expect(files.compare()).toEqual({ problems: [], repaired: [] });
  });
});
