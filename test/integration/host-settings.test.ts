import { execFileSync } from 'node:child_process';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { settingKey, tapChecksumKey } from '../../src/dataplane/targets/host/setting-key.ts';
import { SettingsTarget } from '../../src/dataplane/targets/host/settings-target.ts';
import { readTransmitChecksum } from '../../src/netlink/ethtool.ts';
import { getLink } from '../../src/netlink/links.ts';
import { readSysctl, writeSysctl } from '../../src/netlink/sysctl.ts';
import { contestedSettings } from '../../src/nodes/local/contested-settings.ts';
import { wantHostSettings } from '../../src/nodes/local/host-settings.ts';
import { exampleNode } from '../support/example-node.ts';
import { becomeNode, type TestNode } from '../support/node-wiring.ts';

/** The agent's own host configuration on the real kernel, in a namespace of this process. */
let node: TestNode;
const forward = ['net', 'ipv4', 'ip_forward'] as const;
const forward6 = ['net', 'ipv6', 'conf', 'all', 'forwarding'] as const;
const ofGateway = (name: string) => ['net', 'ipv4', 'conf', exampleNode.gateway.name, name] as const;
const read = (name: readonly string[]) => () => readSysctl(name).trim();

beforeAll(async () => {
  node = await becomeNode();
});
afterAll(async () => {
  await node.close();
});

it('are set to the desired values, whatever they were while no agent ran', async () => {
  for (const name of [forward, forward6]) writeSysctl(name, 0);
  writeSysctl(ofGateway('accept_redirects'), 1);
  wantHostSettings(exampleNode, { interfaces: [] }, node.plane.nodeState);
  await expect.poll(read(forward)).toBe('1');
  await expect.poll(read(forward6)).toBe('1');
  await expect.poll(read(ofGateway('accept_redirects'))).toBe('0');
  await expect.poll(read(ofGateway('rp_filter'))).toBe('2');
});

it.each([
  ['forwarding of IPv4', forward, '1'],
  ['forwarding of IPv6', forward6, '1'],
  ['forwarding from the gateway', ofGateway('forwarding'), '1'],
  ['the gateway’s reverse path filter', ofGateway('rp_filter'), '2'],
])('%s: restored immediately, since the kernel reports it', async (_, name, wanted) => {
  const startedMs = performance.now();
  writeSysctl(name, name.at(-1) === 'rp_filter' ? 1 : 0);
  await expect.poll(read(name), { timeout: 10_000 }).toBe(wanted);
  // The sweep alone would need four seconds at least.
  expect(performance.now() - startedMs).toBeLessThan(3_500);
});

it('are restored by the next check if the kernel reports nothing', async () => {
  writeSysctl(ofGateway('accept_source_route'), 1);
  await expect.poll(read(ofGateway('accept_source_route')), { timeout: 15_000 }).toBe('0');
});

/** Opens a tap like switches with (1) or without (0) checksum offload, one after another; it stays. */
const openedBySwitches = `
import fcntl, os, struct, sys
name, *headers = sys.argv[1:]
for header in headers:
    tap = os.open('/dev/net/tun', os.O_RDWR)
    flags = 0x5002 if header == '1' else 0x1002 # IFF_TAP, IFF_NO_PI, IFF_VNET_HDR
    fcntl.ioctl(tap, 0x400454ca, struct.pack('16sH22x', name.encode(), flags)) # TUNSETIFF
    fcntl.ioctl(tap, 0x400454cb, 1) # TUNSETPERSIST
    if header == '1':
        fcntl.ioctl(tap, 0x400454d0, 1) # TUNSETOFFLOAD, TUN_F_CSUM
    os.close(tap)
`;

function openBySwitches(name: string, ...headers: readonly (0 | 1)[]): void {
  execFileSync('/usr/bin/python3', ['-c', openedBySwitches, name, ...headers.map(String)]);
}

it('of the gateway: checksums that OVS left to the device are filled in where the next one does not', async () => {
  const { socket } = node.plane.host;
  const { name } = exampleNode.gateway;
  wantHostSettings(exampleNode, { interfaces: [] }, node.plane.nodeState);
  node.ovs.exec('ip', 'link', 'set', name, 'up');
  await node.ovs.killVswitchd();
  openBySwitches(name, 1);
  expect([getLink(socket, name)?.vnetHeader, readTransmitChecksum(socket, name)]).toEqual([true, 'on']);
  node.ovs.startVswitchd();
  const startedMs = performance.now();
  await expect.poll(() => getLink(socket, name)?.carrier, { timeout: 10_000 }).toBe(true);
  // Newer switches request the header, and the offload stays.
  const expected = getLink(socket, name)?.vnetHeader ? 'on' : 'off';
  await expect.poll(() => readTransmitChecksum(socket, name), { timeout: 10_000 }).toBe(expected);
  // The sweep alone would need up to four seconds, and the node is unreachable meanwhile.
  expect(performance.now() - startedMs).toBeLessThan(2_500);
});

it('stay while repair is paused, and are restored afterwards', async () => {
  const { nodeState } = node.plane;
  nodeState.pauseRepair();
  writeSysctl(forward, 0);
  await new Promise((resolve) => setTimeout(resolve, 300));
  expect(read(forward)()).toBe('0');
  nodeState.resumeRepair();
  await expect.poll(read(forward), { timeout: 10_000 }).toBe('1');
});

it('that another program sets repeatedly are contested: reported, and restored more slowly', async () => {
  const { nodeState } = node.plane;
  const disturb = async (): Promise<string> => {
    writeSysctl(forward, 0);
    await new Promise((resolve) => setTimeout(resolve, 100));
    return contestedSettings(nodeState).join('\n');
  };
  const said = /^net\.ipv4\.ip_forward must be 1, and another program keeps changing it \(\d+ times\)/m;
  await expect.poll(disturb, { timeout: 20_000 }).toMatch(said);
  await expect.poll(read(forward), { timeout: 30_000 }).toBe('1');
});

it('are only reported if configured to check', async () => {
  const key = settingKey(forward);
  const changed: string[] = [];
  const wanted = new Map([[key, '2']]);
  const target = new SettingsTarget({
    socket: node.plane.host.socket,
    wanted: () => ({ keys: () => wanted.keys(), wanted: (each) => wanted.get(each) }),
    mode: 'check',
    changed: (setting) => changed.push(setting),
  });
  const before = read(forward)();
  expect(await target.observe()).toEqual(new Map([[key, before]]));
  await expect(async () => target.apply({ put: wanted, remove: new Set() })).rejects.toMatchObject({
    code: 'REFUSED',
    message: expect.stringContaining(`net.ipv4.ip_forward is ${before} and not 2; hostSettings is check: sysctl -w net.ipv4.ip_forward=2`),
  });
  expect([read(forward)(), changed]).toEqual([before, []]);
});

it('of a tap: are read from it, and only reported if configured to check', async () => {
  const { socket } = node.plane.host;
  openBySwitches('older', 1, 0);
  openBySwitches('newer', 1);
  const [older, newer] = [tapChecksumKey('older'), tapChecksumKey('newer')];
  const wanted = new Map([older, newer, tapChecksumKey('lo'), tapChecksumKey('nowhere')].map((key) => [key, 'off']));
  const target = (mode: 'check' | 'manage') =>
    new SettingsTarget({
      socket,
      wanted: () => ({ keys: () => wanted.keys(), wanted: (each) => wanted.get(each) }),
      mode,
      changed: () => {},
    });
  expect(await target('check').observe()).toEqual(new Map([...wanted, [older, 'on']]));
  await expect(async () => target('check').apply({ put: wanted, remove: new Set() })).rejects.toMatchObject({
    code: 'REFUSED',
    message: expect.stringContaining('tx-checksumming of older is on and not off; hostSettings is check: ethtool -K older tx off'),
  });
  await target('manage').apply({ put: wanted, remove: new Set() });
  expect(await target('manage').observe()).toEqual(wanted);
  expect([readTransmitChecksum(socket, 'older'), readTransmitChecksum(socket, 'newer')]).toEqual(['off', 'on']);
});

it('of a deleted interface are no difference', async () => {
  const key = settingKey(['net', 'ipv4', 'conf', 'nowhere', 'rp_filter']);
  const target = new SettingsTarget({
    socket: node.plane.host.socket,
    wanted: () => ({ keys: () => [key], wanted: () => '2' }),
    mode: 'manage',
    changed: () => {},
  });
  expect(await target.observe()).toEqual(new Map([[key, '2']]));
  await target.apply({ put: new Map([[key, '2']]), remove: new Set() });
});
