import { chmodSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type Installation, install, remove, rollBack } from './install.ts';

let base: string;
let wish: Installation;
const said: string[] = [];
const say = (line: string): void => void said.push(line.replaceAll(base, ''));
const inBin = (name: string): string => join(wish.bin, name);
const conf = (): string => join(wish.conf, '10-seine.conflist');
const modeOf = (path: string): string => (statSync(path).mode & 0o7777).toString(8);

/** A program that answers VERSION as a plugin does. */
function plugin(folder: string, name: string, versions: readonly string[], mark = ''): void {
  mkdirSync(folder, { recursive: true });
  const answer = JSON.stringify({ cniVersion: '1.0.0', supportedVersions: versions });
  writeFileSync(join(folder, name), `#!/bin/sh\n# ${mark}\necho '${answer}'\n`);
  chmodSync(join(folder, name), 0o755);
}

function list(...types: readonly string[]): void {
  writeFileSync(wish.conflist, JSON.stringify({ cniVersion: '1.0.0', name: 'seine', plugins: types.map((type) => ({ type })) }));
}

beforeEach(() => {
  base = mkdtempSync(join(tmpdir(), 'seine-install-'));
  said.length = 0;
  wish = {
    source: join(base, 'source'),
    bin: join(base, 'bin'),
    conf: join(base, 'net.d'),
    state: join(base, 'state'),
    conflist: join(base, 'wanted.conflist'),
  };
  plugin(wish.source, 'seine', ['0.3.1', '0.4.0', '1.0.0', '1.1.0']);
  plugin(wish.source, 'portmap', ['0.4.0', '1.0.0'], 'of the image');
  plugin(wish.source, 'loopback', ['1.0.0']);
  list('seine', 'portmap');
});
afterEach(() => rmSync(base, { recursive: true, force: true }));

describe('install', () => {
  it('puts plugin and configuration in place, with what the node lacks, and offers what all of the chain speak', () => {
    install(wish, say);
    expect(readdirSync(wish.bin).toSorted()).toEqual(['loopback', 'portmap', 'seine']);
    expect([modeOf(inBin('seine')), modeOf(conf()), modeOf(wish.state)]).toEqual(['755', '600', '700']);
    expect(JSON.parse(readFileSync(conf(), 'utf8'))).toMatchObject({ cniVersion: '1.0.0', cniVersions: ['0.4.0', '1.0.0'] });
  });

  it('changes nothing when done again', () => {
    install(wish, say);
    const before = [inBin('seine'), conf()].map((path) => statSync(path).ino);
    said.length = 0;
    install(wish, say);
    expect([inBin('seine'), conf()].map((path) => statSync(path).ino)).toEqual(before);
    expect(said).toEqual(['/bin/seine is there already', '/net.d/10-seine.conflist is there already']);
  });

  it('leaves the node its own plugins', () => {
    plugin(wish.bin, 'portmap', ['1.0.0'], 'of the node');
    install(wish, say);
    expect(readFileSync(inBin('portmap'), 'utf8')).toContain('of the node');
    remove(wish, say);
    expect(readdirSync(wish.bin)).toEqual(['portmap']);
  });

  it.each([
    ['cannot be executed', () => writeFileSync(join(wish.source, 'seine'), 'cut off')],
    ['answers nonsense', () => writeFileSync(join(wish.source, 'seine'), '#!/bin/sh\necho hello\n')],
    ['is not there', () => rmSync(join(wish.source, 'seine'))],
  ])('never replaces a plugin that works by one that %s', (_, damage) => {
    install(wish, say);
    const [before, list] = [readFileSync(inBin('seine')), readFileSync(conf())];
    damage();
    expect(() => install(wish, say)).toThrow();
    expect(readFileSync(inBin('seine'))).toEqual(before);
    expect(readFileSync(conf())).toEqual(list);
    expect(readdirSync(wish.bin).toSorted()).toEqual(['loopback', 'portmap', 'seine']);
  });

  it.each([
    ['{', /not JSON/],
    ['{"name":"seine","cniVersion":"1.0.0","plugins":[]}', /plugins/],
    ['{"name":"seine","cniVersion":"1.0.0","plugins":[{"type":"bridge"}]}', /none is of type "seine"/],
    ['{"name":"seine","cniVersion":"1.0.0","plugins":[{"type":"../seine"}]}', /plugins.0.type/],
    ['{"name":"seine","cniVersion":"1.0.0","plugins":[{"type":"seine"},{"type":"tuning"}]}', /"tuning" is neither in/],
    [
      '{"name":"seine","cniVersion":"1.1.0","plugins":[{"type":"seine"},{"type":"portmap"}]}',
      /"portmap" speaks CNI 0.4.0, 1.0.0, and not 1.1.0/,
    ],
  ])('refuses %j and leaves what was there', (text, message) => {
    install(wish, say);
    const before = readFileSync(conf());
    writeFileSync(wish.conflist, text);
    expect(() => install(wish, say)).toThrow(message);
    expect(readFileSync(conf())).toEqual(before);
  });

  it('clears away what an installation that was killed has left', () => {
    install(wish, say);
    for (const left of [join(wish.bin, '.seine.0123abcd'), join(wish.conf, '.10-seine.conflist.0123abcd')]) writeFileSync(left, 'half');
    writeFileSync(join(wish.bin, '.seine.mine'), '');
    plugin(wish.source, 'seine', ['1.0.0'], 'newer');
    list('seine');
    install(wish, say);
    expect([readdirSync(wish.bin), readdirSync(wish.conf)].flat().filter((name) => name.startsWith('.'))).toEqual(['.seine.mine']);
  });

  it('names a damaged record of what it has brought', () => {
    install(wish, say);
    writeFileSync(join(wish.state, 'cni-installed.json'), '{"por');
    rmSync(inBin('portmap'));
    expect(() => install(wish, say)).toThrow(/cni-installed.json is damaged/);
  });

  it('says which configuration the runtime prefers', () => {
    mkdirSync(wish.conf);
    writeFileSync(join(wish.conf, '05-other.conflist'), '{}');
    install(wish, say);
    expect(said.at(-1)).toContain('WARNING: /net.d/05-other.conflist comes before 10-seine.conflist');
  });
});

describe('rollBack', () => {
  it('brings back the plugin and the configuration from before', () => {
    install(wish, say);
    const before = readFileSync(inBin('seine'), 'utf8');
    plugin(wish.source, 'seine', ['1.0.0'], 'newer');
    list('seine');
    install(wish, say);
    expect(readFileSync(inBin('seine'), 'utf8')).not.toBe(before);
    rollBack(wish, say);
    expect(readFileSync(inBin('seine'), 'utf8')).toBe(before);
    expect(readFileSync(conf(), 'utf8')).toContain('portmap');
  });

  it('brings back a configuration that alone was changed', () => {
    install(wish, say);
    list('seine');
    install(wish, say);
    rollBack(wish, say);
    expect(readFileSync(conf(), 'utf8')).toContain('portmap');
  });

  it('brings back both from before a change that was tried more than once', () => {
    install(wish, say);
    const before = readFileSync(inBin('seine'), 'utf8');
    plugin(wish.source, 'seine', ['1.0.0'], 'newer');
    list('seine', 'tuning');
    expect(() => install(wish, say)).toThrow('"tuning"');
    list('seine');
    install(wish, say);
    rollBack(wish, say);
    expect(readFileSync(inBin('seine'), 'utf8')).toBe(before);
    expect(readFileSync(conf(), 'utf8')).toContain('portmap');
  });

  it('brings back the newer plugin with the configuration that alone was changed after an upgrade', () => {
    install(wish, say);
    plugin(wish.source, 'seine', ['0.4.0', '1.0.0'], 'newer');
    install(wish, say);
    const newer = readFileSync(inBin('seine'), 'utf8');
    list('seine');
    install(wish, say);
    rollBack(wish, say);
    expect(readFileSync(inBin('seine'), 'utf8')).toBe(newer);
    expect(readFileSync(conf(), 'utf8')).toContain('portmap');
  });

  it('is forgotten by the next change: that one is gone back from, and no further', () => {
    install(wish, say);
    plugin(wish.source, 'seine', ['1.0.0'], 'newer');
    list('seine', 'tuning');
    expect(() => install(wish, say)).toThrow('"tuning"');
    rollBack(wish, say);
    plugin(wish.source, 'seine', ['0.4.0', '1.0.0'], 'newest');
    list('seine', 'portmap');
    install(wish, say);
    list('seine');
    install(wish, say);
    rollBack(wish, say);
    expect([readFileSync(inBin('seine'), 'utf8'), readFileSync(conf(), 'utf8')]).toEqual([
      expect.stringContaining('newest'),
      expect.stringContaining('portmap'),
    ]);
  });

  it('has nothing to bring back at first', () => {
    install(wish, say);
    expect(() => rollBack(wish, say)).toThrow('nothing is kept');
  });
});

describe('remove', () => {
  it('takes away what was installed and nothing else, the configuration first', () => {
    plugin(wish.bin, 'host-local', ['1.0.0']);
    install(wish, say);
    writeFileSync(join(wish.state, 'ipam.journal'), '');
    said.length = 0;
    remove(wish, say);
    expect(said[0]).toBe('/net.d/10-seine.conflist removed');
    expect(readdirSync(wish.bin)).toEqual(['host-local']);
    expect(existsSync(conf())).toBe(false);
    expect(readdirSync(wish.state).toSorted()).toEqual(['ipam.journal']);
    expect(existsSync(join(wish.state, 'ipam.journal'))).toBe(true);
    remove(wish, say);
  });

  it('keeps a plugin that somebody has replaced since', () => {
    install(wish, say);
    plugin(wish.bin, 'portmap', ['1.0.0'], 'the administrator’s');
    remove(wish, say);
    expect(readdirSync(wish.bin)).toEqual(['portmap']);
  });

  it.each([
    ['a damaged one', '{"plug', false],
    ['an empty one', '', false],
    ['somebody else’s', '{"name":"x","cniVersion":"1.0.0","plugins":[{"type":"bridge"}]}', true],
  ])('treats %s under our name as what it is, and takes away the rest', (_, text, stays) => {
    install(wish, say);
    writeFileSync(conf(), text);
    remove(wish, say);
    expect(existsSync(conf())).toBe(stays);
    expect(readdirSync(wish.bin)).toEqual([]);
  });
});
