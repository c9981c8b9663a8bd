import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { openSwitchDatabase, type SwitchDatabase } from '../../src/dataplane/targets/switch/switch-database.ts';
import { SwitchRetry } from '../../src/dataplane/targets/switch/switch-retry.ts';
import { startSwitch, type TestSwitch } from '../support/open-vswitch.ts';

const patience = { timeout: 20_000 };
const lock = 'seine_test';

let ovs: TestSwitch;
let over: AbortController;
let database: SwitchDatabase;
/** Reasons for which OVS was made to retry. */
let tried: string[];
let holder: ChildProcess | undefined;

beforeEach(async () => {
  ovs = startSwitch();
  [over, tried] = [new AbortController(), []];
  database = openSwitchDatabase(join(ovs.runDir, 'db.sock'), {});
  void database.run(over.signal);
  await database.synced(over.signal);
  await database.lock(lock).whenHeld(over.signal);
});
afterEach(async () => {
  over.abort();
  await releaseTap();
  await ovs.stop();
});

const isThere = (): boolean => existsSync(join(ovs.runDir, 'br-int.mgmt'));
const gateway = () => database.tables.Interface.find('name', 'gw0');

/** linux/if_tun.h: TUNSETIFF with IFF_TAP and IFF_NO_PI. Prints a line once it has the tap. */
const tapHolder = `
import fcntl, signal, struct, sys
tun = open('/dev/net/tun', 'r+b', buffering=0)
fcntl.ioctl(tun, 0x400454ca, struct.pack('16sH22x', sys.argv[1].encode(), 0x1002))
print('held', flush=True)
signal.pause()
`;

/** A process that has a tap, like a killed switch until it has ended. */
async function holdTap(tap: string): Promise<void> {
  const started = spawn('nsenter', [`--net=/run/netns/${ovs.netns}`, 'python3', '-c', tapHolder, tap], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  holder = started;
  await once(started.stdout, 'data');
}

async function releaseTap(): Promise<void> {
  if (!holder || holder.exitCode !== null || holder.signalCode !== null) return;
  holder.kill('SIGKILL');
  await once(holder, 'exit');
}

function addBridge(): void {
  const port = ['--', 'add-port', 'br-int', 'gw0', '--', 'set', 'Interface', 'gw0', 'type=internal'];
  ovs.exec('ovs-vsctl', '--no-wait', 'add-br', 'br-int', '--', 'set', 'bridge', 'br-int', 'datapath_type=netdev', ...port);
}

function startRetry(): SwitchRetry {
  const retry = new SwitchRetry({ database, bridge: 'br-int', lock, tried: (cause) => tried.push(cause) }, over.signal);
  void retry.run(over.signal);
  return retry;
}

it('has the bridge created once no other process has its data path', async () => {
  await holdTap('ovs-netdev');
  const retry = startRetry();
  addBridge();
  retry.bridgeAway();
  await expect.poll(() => tried.length, patience).toBeGreaterThan(1);
  expect(isThere()).toBe(false);
  await releaseTap();
  await expect.poll(isThere, patience).toBe(true);
  retry.bridgeUp();
  expect(new Set(tried)).toEqual(new Set(['the bridge is not there']));
});

it('has an interface opened once no other process has it', async () => {
  await holdTap('gw0');
  startRetry();
  addBridge();
  await expect.poll(() => tried.length, patience).toBeGreaterThan(1);
  expect(gateway()?.error).toBe('could not open network device gw0 (Device or resource busy)');
  await releaseTap();
  await expect.poll(() => gateway()?.ofport, patience).toBeGreaterThan(0);
  expect(gateway()?.error).toBeUndefined();
});

it('reports a missing switch once, and one that has returned', async () => {
  addBridge();
  await ovs.killVswitchd();
  await holdTap('ovs-netdev');
  const retry = startRetry();
  retry.bridgeAway();
  await expect.poll(() => tried.length, patience).toBe(1);
  const [row] = database.tables.Open_vSwitch.rows();
  expect(row && row.next_cfg - row.cur_cfg).toBe(1n);
  ovs.startVswitchd();
  await expect.poll(() => tried.length, patience).toBeGreaterThan(1);
});

it('does not touch a switch of another agent', async () => {
  await holdTap('ovs-netdev');
  let ended = 0;
  const counted: Pick<SwitchDatabase, 'tables' | 'transact' | 'onChange'> = {
    tables: database.tables,
    onChange: (...listener) => database.onChange(...listener),
    transact: async (...change) => {
      return await database.transact(...change).finally(() => ended++);
    },
  };
  const retry = new SwitchRetry({ database: counted, bridge: 'br-int', lock: 'another', tried: (cause) => tried.push(cause) }, over.signal);
  void retry.run(over.signal);
  addBridge();
  retry.bridgeAway();
  const before = ovs.exec('ovs-vsctl', 'get', 'Open_vSwitch', '.', 'next_cfg');
  await expect.poll(() => ended, patience).toBeGreaterThan(0);
  expect([ovs.exec('ovs-vsctl', 'get', 'Open_vSwitch', '.', 'next_cfg'), tried]).toEqual([before, []]);
});
