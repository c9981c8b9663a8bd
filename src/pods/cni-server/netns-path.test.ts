import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { assertTrustedNetnsPath } from './netns-path.ts';

const folder = mkdtempSync(join(tmpdir(), 'seine-path-'));
const at = (...parts: readonly string[]) => join(folder, ...parts);

beforeAll(() => {
  mkdirSync(at('netns'));
  writeFileSync(at('netns', 'a'), '');
  symlinkSync(at('netns', 'a'), at('netns', 'link'));
  symlinkSync(at('netns'), at('linked'));
});
afterAll(() => rmSync(folder, { recursive: true }));

describe('a path to a namespace', () => {
  it.each([
    ['a plain one', () => at('netns', 'a')],
    ['of a process', () => '/proc/123/ns/net'],
    ['of a thread', () => '/proc/123/task/124/ns/net'],
    ['that does not exist, which shows later', () => '/nonexistent/netns/a'],
  ])('is accepted: %s', (_, path) => {
    expect(() => assertTrustedNetnsPath(path())).not.toThrow();
  });

  it.each([
    ['"..", ".*"', () => `${at('netns')}/../netns/a`],
    ['"..", ".*"', () => `${at('netns')}//a`],
    ['"..", ".*"', () => `${at('netns')}/./a`],
    ['a symbolic link', () => at('netns', 'link')],
    ['under /proc only', () => '/proc/self/root/run/netns/a'],
    ['under /proc only', () => '/proc/1/cwd/netns'],
    ['under /proc only', () => '/proc/1/fd/3'],
    ['under /proc only', () => '/proc/1/ns/mnt'],
  ])('is rejected: %s', (why, path) => {
    expect(() => assertTrustedNetnsPath(path())).toThrow(new RegExp(`^CNI_NETNS: .*${why}`));
  });

  it('is accepted through a link of a trusted user, and rejected through any other', () => {
    const own = process.getuid?.() ?? 0;
    expect(() => assertTrustedNetnsPath(at('linked', 'a'), own)).not.toThrow();
    expect(() => assertTrustedNetnsPath(at('linked', 'a'), own + 1)).toThrow(/linked" is a symbolic link that is not root's$/);
  });
});
