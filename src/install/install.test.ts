import { chmodSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type Installation, install, remove, rollBack } from './install.ts';

let base: string;
let want: Installation;
const said: string[] = [];
const report = (line: string): void => void said.push(line.replaceAll(base, ''));
const inBin = (name: string): string => join(want.bin, name);
const conf = (): string => join(want.conf, '10-seine.conflist');
const modeOf = (path: string): string => (statSync(path).mode & 0o7777).toString(8);

/** Program that answers VERSION like a plugin. */
function plugin(folder: string, name: string, versions: readonly string[], mark = ''): void {
  mkdirSync(folder, { recursive: true });
  const answer = JSON.stringify({ cniVersion: '1.0.0', supportedVersions: versions });
  writeFileSync(join(folder, name), `#!/bin/sh\n# ${mark}\necho '${answer}'\n`);
  chmodSync(join(folder, name), 0o755);
}

function list(...types: readonly string[]): void {
  writeFileSync(want.conflist, JSON.stringify({ cniVersion: '1.0.0', name: 'seine', plugins: types.map((type) => ({ type })) }));
}

beforeEach(() => {
  base = mkdtempSync(join(tmpdir(), 'seine-install-'));
  said.length = 0;
  want = {
    source: join(base, 'source'),
    bin: join(base, 'bin'),
    conf: join(base, 'net.d'),
    state: join(base, 'state'),
    conflist: join(base, 'wanted.conflist'),
  };
  plugin(want.source, 'seine', ['0.3.1', '0.4.0', '1.0.0', '1.1.0']);
  plugin(want.source, 'portmap', ['0.4.0', '1.0.0'], 'of the image');
  plugin(want.source, 'loopback', ['1.0.0']);
  list('seine', 'portmap');
});
afterEach(() => rmSync(base, { recursive: true, force: true }));

describe('install', () => {
  it('installs plugin and configuration, with plugins that the node lacks, and offers versions that the whole chain supports', () => {
    install(want, report);
    expect(readdirSync(want.bin).toSorted()).toEqual(['loopback', 'portmap', 'seine']);
    expect([modeOf(inBin('seine')), modeOf(conf()), modeOf(want.state)]).toEqual(['755', '600', '700']);
    expect(JSON.parse(readFileSync(conf(), 'utf8'))).toMatchObject({ cniVersion: '1.0.0', cniVersions: ['0.4.0', '1.0.0'] });
  });

  it('changes nothing when done again', () => {
    install(want, report);
    const before = [inBin('seine'), conf()].map((path) => statSync(path).ino);
    said.length = 0;
    install(want, report);
    expect([inBin('seine'), conf()].map((path) => statSync(path).ino)).toEqual(before);
    expect(said).toEqual(['/bin/seine is there already', '/net.d/10-seine.conflist is there already']);
  });

  it('keeps the node’s own plugins', () => {
    plugin(want.bin, 'portmap', ['1.0.0'], 'of the node');
    install(want, report);
    expect(readFileSync(inBin('portmap'), 'utf8')).toContain('of the node');
    remove(want, report);
    expect(readdirSync(want.bin)).toEqual(['portmap']);
  });

  it.each([
    ['cannot be executed', () => writeFileSync(join(want.source, 'seine'), 'cut off')],
    ['answers nonsense', () => writeFileSync(join(want.source, 'seine'), '#!/bin/sh\necho hello\n')],
    ['is not there', () => rmSync(join(want.source, 'seine'))],
  ])('never replaces a working plugin by one that %s', (_, damage) => {
    install(want, report);
    const [before, list] = [readFileSync(inBin('seine')), readFileSync(conf())];
    damage();
    expect(() => install(want, report)).toThrow();
    expect(readFileSync(inBin('seine'))).toEqual(before);
    expect(readFileSync(conf())).toEqual(list);
    expect(readdirSync(want.bin).toSorted()).toEqual(['loopback', 'portmap', 'seine']);
  });

  it.each([
    ['{', /not JSON/],
    ['{"name":"seine","cniVersion":"1.0.0","plugins":[]}', /plugins/],
    ['{"name":"seine","cniVersion":"1.0.0","plugins":[{"type":"bridge"}]}', /none is of type "seine"/],
    ['{"name":"seine","cniVersion":"1.0.0","plugins":[{"type":"../seine"}]}', /plugins.0.type/],
    ['{"name":"seine","cniVersion":"1.0.0","plugins":[{"type":"seine"},{"type":"tuning"}]}', /"tuning" is neither in/],
    [
      '{"name":"seine","cniVersion":"1.1.0","plugins":[{"type":"seine"},{"type":"portmap"}]}',
      /"portmap" supports CNI 0.4.0, 1.0.0, not 1.1.0/,
    ],
  ])('rejects %j and keeps the present files', (text, message) => {
    install(want, report);
    const before = readFileSync(conf());
    writeFileSync(want.conflist, text);
    expect(() => install(want, report)).toThrow(message);
    expect(readFileSync(conf())).toEqual(before);
  });

  it('removes remains of a killed installation', () => {
    install(want, report);
    for (const left of [join(want.bin, '.seine.0123abcd'), join(want.conf, '.10-seine.conflist.0123abcd')]) writeFileSync(left, 'half');
    writeFileSync(join(want.bin, '.seine.mine'), '');
    plugin(want.source, 'seine', ['1.0.0'], 'newer');
    list('seine');
    install(want, report);
    expect([readdirSync(want.bin), readdirSync(want.conf)].flat().filter((name) => name.startsWith('.'))).toEqual(['.seine.mine']);
  });

  it('names a malformed record of installed files', () => {
    install(want, report);
    writeFileSync(join(want.state, 'cni-installed.json'), '{"por');
    rmSync(inBin('portmap'));
    expect(() => install(want, report)).toThrow(/cni-installed.json is damaged/);
  });

  it('names the configuration that the runtime prefers', () => {
    mkdirSync(want.conf);
    writeFileSync(join(want.conf, '05-other.conflist'), '{}');
    install(want, report);
    expect(said.at(-1)).toContain('WARNING: /net.d/05-other.conflist precedes 10-seine.conflist');
  });
});

describe('rollBack', () => {
  it('restores the previous plugin and configuration', () => {
    install(want, report);
    const before = readFileSync(inBin('seine'), 'utf8');
    plugin(want.source, 'seine', ['1.0.0'], 'newer');
    list('seine');
    install(want, report);
    expect(readFileSync(inBin('seine'), 'utf8')).not.toBe(before);
    rollBack(want, report);
    expect(readFileSync(inBin('seine'), 'utf8')).toBe(before);
    expect(readFileSync(conf(), 'utf8')).toContain('portmap');
  });

  it('restores a configuration that alone was changed', () => {
    install(want, report);
    list('seine');
    install(want, report);
    rollBack(want, report);
    expect(readFileSync(conf(), 'utf8')).toContain('portmap');
  });

  it('restores both from before a change that was tried more than once', () => {
    install(want, report);
    const before = readFileSync(inBin('seine'), 'utf8');
    plugin(want.source, 'seine', ['1.0.0'], 'newer');
    list('seine', 'tuning');
    expect(() => install(want, report)).toThrow('"tuning"');
    list('seine');
    install(want, report);
    rollBack(want, report);
    expect(readFileSync(inBin('seine'), 'utf8')).toBe(before);
    expect(readFileSync(conf(), 'utf8')).toContain('portmap');
  });

  it('restores the newer plugin with the configuration that alone was changed after an upgrade', () => {
    install(want, report);
    plugin(want.source, 'seine', ['0.4.0', '1.0.0'], 'newer');
    install(want, report);
    const newer = readFileSync(inBin('seine'), 'utf8');
    list('seine');
    install(want, report);
    rollBack(want, report);
    expect(readFileSync(inBin('seine'), 'utf8')).toBe(newer);
    expect(readFileSync(conf(), 'utf8')).toContain('portmap');
  });

  it('is replaced by the next change: only the last change can be undone', () => {
    install(want, report);
    plugin(want.source, 'seine', ['1.0.0'], 'newer');
    list('seine', 'tuning');
    expect(() => install(want, report)).toThrow('"tuning"');
    rollBack(want, report);
    plugin(want.source, 'seine', ['0.4.0', '1.0.0'], 'newest');
    list('seine', 'portmap');
    install(want, report);
    list('seine');
    install(want, report);
    rollBack(want, report);
    expect([readFileSync(inBin('seine'), 'utf8'), readFileSync(conf(), 'utf8')]).toEqual([
      expect.stringContaining('newest'),
      expect.stringContaining('portmap'),
    ]);
  });

  it('has nothing to restore at first', () => {
    install(want, report);
    expect(() => rollBack(want, report)).toThrow('no earlier version is stored');
  });
});

describe('remove', () => {
  it('removes installed files and nothing else, the configuration first', () => {
    plugin(want.bin, 'host-local', ['1.0.0']);
    install(want, report);
    writeFileSync(join(want.state, 'ipam.journal'), '');
    said.length = 0;
    remove(want, report);
    expect(said.filter((line) => line.startsWith('/net.d') || line.startsWith('/bin'))[0]).toBe('/net.d/10-seine.conflist removed');
    expect(readdirSync(want.bin)).toEqual(['host-local']);
    expect(existsSync(conf())).toBe(false);
    expect(readdirSync(want.state).toSorted()).toEqual(['ipam.journal']);
    expect(existsSync(join(want.state, 'ipam.journal'))).toBe(true);
    remove(want, report);
  });

  it('keeps a plugin that another installer has replaced since', () => {
    install(want, report);
    plugin(want.bin, 'portmap', ['1.0.0'], 'the administrator’s');
    remove(want, report);
    expect(readdirSync(want.bin)).toEqual(['portmap']);
  });

  it.each([
    ['a damaged one', '{"plug', false],
    ['an empty one', '', false],
    ['another network’s', '{"name":"x","cniVersion":"1.0.0","plugins":[{"type":"bridge"}]}', true],
  ])('treats %s under our name as foreign or ours, and removes the rest', (_, text, stays) => {
    install(want, report);
    writeFileSync(conf(), text);
    remove(want, report);
    expect(existsSync(conf())).toBe(stays);
    expect(readdirSync(want.bin)).toEqual([]);
  });
});
