import { afterEach, beforeEach, expect, it } from 'vitest';
import { forgetMegaflows, mayKeepOldActions, StaleMegaflows } from '../../src/dataplane/targets/switch/stale-megaflows.ts';
import { startSwitch, type TestSwitch } from '../support/open-vswitch.ts';

const patience = { timeout: 20_000 };

let ovs: TestSwitch;

beforeEach(() => {
  ovs = startSwitch('--enable-dummy');
  const ports = ['1', '2'].flatMap((number) => [
    ...['--', 'add-port', 'br-int', `p${number}`, '--', 'set', 'Interface', `p${number}`, 'type=dummy', `ofport_request=${number}`],
  ]);
  ovs.exec('ovs-vsctl', 'add-br', 'br-int', '--', 'set', 'bridge', 'br-int', 'datapath_type=dummy', 'fail_mode=secure', ...ports);
});
afterEach(async () => {
  await ovs.stop();
});

/** Sets the deciding flow, in place of all others. */
function only(text: string): void {
  ovs.exec('sh', '-c', `echo '${text}' | ovs-ofctl -O OpenFlow15 --bundle replace-flows br-int -`);
}

/** Sends from port 1. */
function send(packet: string): void {
  const ethernet = 'in_port(1),eth(src=02:00:00:00:00:01,dst=02:00:00:00:00:02)';
  ovs.exec('ovs-appctl', '-t', 'ovs-vswitchd', 'netdev-dummy/receive', 'p1', `${ethernet},${packet},udp(src=1000,dst=53)`);
}
const to = (address: string): string => `eth_type(0x0800),ipv4(src=10.0.0.9,dst=${address},proto=17,tos=0,ttl=64,frag=no)`;
const ipv6 = 'eth_type(0x86dd),ipv6(src=fd00::9,dst=fd00::1,label=0,proto=17,tclass=0,hlimit=64,frag=no)';

const megaflows = (): string[] =>
  ovs
    .exec('ovs-appctl', 'dpctl/dump-flows')
    .split('\n')
    .filter((line) => line.includes('ipv4'));
const allAre = (actions: string, count: number): boolean =>
  megaflows().length === count && megaflows().every((line) => line.endsWith(`actions:${actions}`));

/**
 * Two megaflows for the same packets, the narrower one created first. The data path checks the mask of the wider one first: another
 * megaflow has it, created before both.
 */
async function overlap(): Promise<void> {
  only('priority=10,in_port=1,ip,nw_dst=10.0.0.1,actions=drop');
  send(ipv6);
  send(to('10.0.0.1'));
  await expect.poll(() => allAre('drop', 1), patience).toBe(true);
  only('priority=5,in_port=1,actions=drop');
  send(to('10.0.0.2'));
  await expect.poll(() => allAre('drop', 2), patience).toBe(true);
}

it('keeps a stale megaflow or not, by its version, and drops it on a purge', async () => {
  const keeps = mayKeepOldActions(/\d+\.\d+\.\d+/.exec(ovs.exec('ovs-vswitchd', '--version'))?.[0]);
  await overlap();
  only('priority=5,in_port=1,actions=output:2');
  await expect.poll(() => megaflows().some((line) => line.endsWith('actions:2')), patience).toBe(true);
  ovs.exec('ovs-appctl', 'revalidator/wait');
  expect(megaflows().some((line) => line.endsWith('actions:drop'))).toBe(keeps);
  await forgetMegaflows(ovs.runDir, AbortSignal.timeout(30_000));
  send(to('10.0.0.1'));
  await expect.poll(() => allAre('2', 1), patience).toBe(true);
});

it('admits traffic of an allowed pair soon after each of many changes, while there are few megaflows', { timeout: 120_000 }, async () => {
  const over = new AbortController();
  const failures: string[] = [];
  const version = async (): Promise<string> => '3.1.0'; // purged on every version, so that this runs on every version
  const stale = new StaleMegaflows({
    ...{ runDir: ovs.runDir, version, forgotten: () => {} },
    ...{ failed: ({ message }) => failures.push(message), now: () => performance.now() },
  });
  const running = stale.run(over.signal);
  const waitsMs: number[] = [];
  for (let change = 0; change < 8; change++) {
    await overlap();
    only('priority=5,in_port=1,actions=output:2');
    const beganMs = performance.now();
    stale.changed();
    await expect
      .poll(
        () => {
          send(to('10.0.0.1'));
          send(to('10.0.0.2'));
          return allAre('2', 1);
        },
        { ...patience, interval: 20 },
      )
      .toBe(true);
    waitsMs.push(performance.now() - beganMs);
    await forgetMegaflows(ovs.runDir, AbortSignal.timeout(30_000));
  }
  over.abort();
  await running;
  process.stdout.write(`allowed after ${waitsMs.map(Math.round).join(', ')} ms\n`);
  expect(failures).toEqual([]);
  // A pause of ten seconds for each change would be 70 s.
  expect(waitsMs.reduce((sum, ms) => sum + ms)).toBeLessThan(20_000);
});
