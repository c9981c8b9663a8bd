import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { silentLog } from '../../../base/log/log.ts';
import { TrackerAccounting } from './tracker-accounting.ts';

let folder: string;
beforeEach(() => void (folder = mkdtempSync(join(tmpdir(), 'seine-tracker-'))));
afterEach(() => rmSync(folder, { recursive: true, force: true }));

function kernelWith(values: Record<string, string>) {
  const state = { boot: 'one', values: new Map(Object.entries(values)), writes: 0, killAt: 0 };
  const kernel = {
    read: (parameter: string) => {
      const value = state.values.get(parameter);
      if (value === undefined) throw new Error(`no ${parameter}`);
      return value;
    },
    write: (parameter: string, value: string) => {
      if (++state.writes === state.killAt) throw new Error('killed');
      state.values.set(parameter, value);
    },
    boot: () => state.boot,
  };
  const file = join(folder, 'state', 'tracker.json');
  return { state, file, open: () => new TrackerAccounting({ file, log: silentLog, kernel }) };
}
const off = { nf_conntrack_acct: '0', nf_conntrack_timestamp: '0' };
const on = { nf_conntrack_acct: '1', nf_conntrack_timestamp: '1' };

it('turns both parameters on, and restores them', () => {
  const { state, file, open } = kernelWith(off);
  const accounting = open();
  accounting.turnOn();
  expect(Object.fromEntries(state.values)).toEqual(on);
  accounting.restore();
  expect([Object.fromEntries(state.values), existsSync(file)]).toEqual([off, false]);
});

it.each([1, 2, 3])('restores what an agent left that was killed at write %i', (killAt) => {
  const { state, open } = kernelWith(off);
  state.killAt = killAt;
  open().turnOn();
  state.killAt = 0;
  open().turnOn(); // the next agent, with the log on
  expect(Object.fromEntries(state.values)).toEqual(on);
  open().restore(); // and another one, with the log off
  expect(Object.fromEntries(state.values)).toEqual(off);
});

it('leaves parameters alone that were on before, and those of another boot', () => {
  const { state, open } = kernelWith({ ...off, nf_conntrack_acct: '1' });
  open().turnOn();
  open().restore();
  expect(Object.fromEntries(state.values)).toEqual({ ...off, nf_conntrack_acct: '1' });
  open().turnOn();
  [state.boot, state.values] = ['two', new Map(Object.entries(on))]; // the host turns them on when it starts
  open().restore();
  expect(Object.fromEntries(state.values)).toEqual(on);
});

it('restores nothing from a file that cannot be read, and needs no parameter', () => {
  const { state, file, open } = kernelWith(off);
  open().turnOn();
  writeFileSync(file, '{"boot":"one","values":{"kernel.panic":"1"}}');
  open().restore();
  expect(Object.fromEntries(state.values)).toEqual(on);
  state.values.clear();
  open().turnOn();
  open().restore();
  expect(state.values.size).toBe(0);
});

it('lists what a killed agent has left, unless another program changed it meanwhile', () => {
  const { state, open } = kernelWith(off);
  expect(open().leftChanges()).toEqual([]);
  open().turnOn();
  expect(open().leftChanges()).toMatchObject([
    { parameter: 'net.netfilter.nf_conntrack_acct', value: '0' },
    { parameter: 'net.netfilter.nf_conntrack_timestamp', value: '0' },
  ]);
  state.values.set('nf_conntrack_timestamp', '0');
  const left = open().leftChanges();
  expect(left).toHaveLength(1);
  for (const { restore } of left) restore();
  expect(Object.fromEntries(state.values)).toEqual(off);
});
