import { randomInt } from 'node:crypto';
import { afterEach, beforeEach, expect, it } from 'vitest';
import type { Finding } from '../../src/api/check.ts';
import { type Family, parseIp } from '../../src/base/net/ip.ts';
import { parseMac } from '../../src/base/net/mac.ts';
import { readDatapathLoad } from '../../src/dataplane/targets/switch/datapath-load.ts';
import { fragments } from '../../src/operations/diagnose/checks/agent-state.ts';
import { encodeFrame } from '../support/frame.ts';
import { fragmentsOf } from '../support/frame-fragments.ts';
import { startSwitch, type TestSwitch } from '../support/open-vswitch.ts';
import { Unixctl } from '../support/unixctl.ts';

/** Datagrams whose fragments the userspace data path does not reassemble: all of more than 32 fragments. */

/** Bytes of each fragment; Open vSwitch reassembles only fragments of 1,200 bytes and more. */
const fragmentBytes = 1_288;
const addresses = { ipv4: ['10.0.0.1', '10.0.0.2'], ipv6: ['fd00::1', 'fd00::2'] } as const;
const signal = AbortSignal.timeout(60_000);

let ovs: TestSwitch;
let control: Unixctl;

beforeEach(async () => {
  ovs = startSwitch('--enable-dummy');
  const ports = ['p1', 'p2'].flatMap((name, at) => [
    '--',
    'add-port',
    'br-int',
    name,
    '--',
    'set',
    'Interface',
    name,
    'type=dummy',
    `ofport_request=${at + 1}`,
  ]);
  ovs.exec('ovs-vsctl', 'add-br', 'br-int', '--', 'set', 'bridge', 'br-int', 'datapath_type=dummy', 'fail_mode=secure', ...ports);
  for (const payload of ['ip', 'ipv6']) ovs.exec('ovs-ofctl', 'add-flow', 'br-int', `in_port=1,${payload},actions=ct(table=1)`);
  for (const payload of ['ip', 'ipv6']) ovs.exec('ovs-ofctl', 'add-flow', 'br-int', `table=1,${payload},ct_state=+trk+new,actions=2`);
  control = await Unixctl.open(ovs.runDir);
});
afterEach(async () => {
  control.close();
  await ovs.stop();
});

async function send(family: Family, fragmentCount: number): Promise<void> {
  const [ipSrc, ipDst] = addresses[family];
  const packet = {
    ethSrc: parseMac('0e:00:00:00:00:01'),
    ethDst: parseMac('0e:00:00:00:00:02'),
    payload: family,
    protocol: 'udp',
    ttl: 64,
    ipSrc: parseIp(ipSrc),
    ipDst: parseIp(ipDst),
    portSrc: 1_000,
    portDst: 2_000,
  } as const;
  const udpHeader = 8;
  const frame = encodeFrame(packet, Buffer.alloc(fragmentCount * fragmentBytes - udpHeader));
  const frames = fragmentsOf(frame, randomInt(2 ** 16), fragmentBytes);
  expect(frames).toHaveLength(fragmentCount);
  for (const each of frames) await control.run('netdev-dummy/receive', 'p1', Buffer.from(each).toString('hex'));
}

function sent(): number {
  return Number(/rx pkts=\d+.*?\n\s*tx pkts=(\d+)/.exec(ovs.exec('ovs-ofctl', 'dump-ports', 'br-int', 'p2'))?.[1]);
}

async function found(): Promise<Finding> {
  const findings: Finding[] = [];
  const check = fragments({ config: { ovsDatapathType: 'netdev', ovsRunDir: ovs.runDir } });
  await check.run({} as never, { finding: (finding: Finding) => findings.push(finding) } as never, signal);
  return findings[0] ?? expect.fail('no finding');
}

/** Lets the time pass after which Open vSwitch drops fragments that wait. It does so when it processes another fragment. */
async function outlive(family: Family): Promise<void> {
  await control.run('time/warp', '60000', '1000');
  await send(family, 2);
}

it.each(['ipv4', 'ipv6'] as const)('reassembles 32 fragments of %s, and counts and reports the fragments of 33', async (family) => {
  await send(family, 32);
  await expect.poll(sent).toBe(32);
  await outlive(family);
  expect(await readDatapathLoad('netdev', ovs.runDir, signal)).toMatchObject({ lostFragments: 0 });
  expect((await found()).state).toBe('ok');
  const before = sent();
  await send(family, 33);
  let datagrams = 0;
  const lost = async () => {
    await outlive(family);
    datagrams++;
    return (await readDatapathLoad('netdev', ovs.runDir, signal)).lostFragments;
  };
  await expect.poll(lost, { timeout: 30_000 }).toBeGreaterThan(0);
  // Open vSwitch forwards the first 32 without the last, so that the receiver cannot complete the datagram either; on a busy host, whose
  // fragments come in several batches, it may forward none of them.
  await expect.poll(() => [0, 32].includes(sent() - before - 2 * datagrams)).toBe(true);
  const finding = await found();
  expect(finding).toMatchObject({ check: 'ovs.fragments', state: 'warning' });
  expect(finding.what).toMatch(/^[1-9]\d* IP fragments were dropped/);
});
