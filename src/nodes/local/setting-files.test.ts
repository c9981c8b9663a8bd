import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { filesThatSet } from './setting-files.ts';

let root: string;
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'sysctl-'));
  for (const folder of ['etc/sysctl.d', 'usr/lib/sysctl.d']) mkdirSync(join(root, folder), { recursive: true });
});
afterEach(() => rmSync(root, { recursive: true }));

const file = (path: string, text: string): void => writeFileSync(join(root, path), text);

it.each([
  ['net.ipv4.ip_forward=0', true],
  [' - net.ipv4.ip_forward = 0 ', true],
  ['net/ipv4/ip_forward = 0', true],
  ['net.ipv4.conf.all.forwarding = 0', true],
  ['net.ipv4.ip_forward = 1', false],
  ['# net.ipv4.ip_forward = 0', false],
  ['net.ipv6.conf.all.forwarding = 0', false],
])('of `%s`: names the file? %s', (line, named) => {
  file('etc/sysctl.d/99-hardening.conf', `\n; a comment\n${line}\n`);
  expect(filesThatSet('net/ipv4/ip_forward', '1', root)).toEqual(named ? ['/etc/sysctl.d/99-hardening.conf'] : []);
});

it('names each file that sets another value, also for all interfaces and for one with a dot in its name', () => {
  file('etc/sysctl.conf', 'net.ipv4.conf.*.rp_filter = 1\n');
  file('etc/sysctl.d/10-a.conf', 'net.ipv4.conf.gw/7.rp_filter = 1\n');
  file('usr/lib/sysctl.d/50-b.conf', 'net/ipv4/conf/gw.7/rp_filter = 1\n');
  file('usr/lib/sysctl.d/README', 'net/ipv4/conf/gw.7/rp_filter = 1\n');
  expect(filesThatSet('net/ipv4/conf/gw.7/rp_filter', '2', root)).toEqual([
    '/etc/sysctl.conf',
    '/etc/sysctl.d/10-a.conf',
    '/usr/lib/sysctl.d/50-b.conf',
  ]);
});

it('ignores missing folders and files that are too large', () => {
  file('etc/sysctl.d/99-large.conf', `${'#'.repeat(70_000)}\nnet.ipv4.ip_forward=0\n`);
  expect(filesThatSet('net/ipv4/ip_forward', '1', root)).toEqual([]);
});
