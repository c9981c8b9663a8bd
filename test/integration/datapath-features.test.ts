import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { publishedCapabilities, readDatapathFacts } from '../../src/dataplane/targets/switch/datapath-facts.ts';
import { capabilitiesOf, missingIn } from '../../src/dataplane/targets/switch/datapath-features.ts';
import { readDatapathLoad } from '../../src/dataplane/targets/switch/datapath-load.ts';
import { familyNumber } from '../../src/netlink/generic.ts';
import { listKernelDatapaths } from '../../src/netlink/kernel-datapath.ts';
import { NetlinkSocket } from '../../src/netlink/socket.ts';
import { DatapathProbe } from '../../src/operations/diagnose/datapath-capabilities.ts';
import userspaceAbilities from '../fixtures/data-paths/netdev.json' with { type: 'json' };
import { becomeNode, type TestNode } from '../support/node-wiring.ts';

/** The userspace data path; test/kernel has the same for the kernel's. */
let node: TestNode;
const signal = AbortSignal.timeout(60_000);
const patience = { timeout: 20_000 };

beforeAll(async () => {
  node = await becomeNode();
  await vi.waitUntil(() => publishedCapabilities('netdev', node.plane.database), { timeout: 10_000 });
});
afterAll(async () => {
  await node?.close();
});

it('has the documented features', async () => {
  const abilities = capabilitiesOf(await readDatapathFacts('netdev', node.plane, signal));
  expect(missingIn(abilities)).toEqual([]);
  const version = node.ovs.exec('ovs-vswitchd', '--version').split('\n', 1)[0];
  // The table of the documentation is of this version; another one may do more.
  if (version?.endsWith(' 3.1.0')) expect(abilities).toEqual(userspaceAbilities);
});

it('reports the same as OVS prints', () => {
  const shown = node.ovs.exec('ovs-appctl', 'dpif/show-dp-features', 'br-int');
  const published = publishedCapabilities('netdev', node.plane.database);
  const pairs = { 'CT zone': 'ct_zone', 'CT state NAT': 'ct_state_nat', 'CT orig tuple for IPv6': 'ct_orig_tuple6', Recirc: 'recirc' };
  for (const [line, capability] of Object.entries(pairs))
    expect([line, shown.includes(`${line}: Yes`)]).toEqual([line, published?.get(capability) === 'true']);
});

it('is logged once, also when ovs-vswitchd restarts', async () => {
  const lines: string[] = [];
  const log = { info: (message: string, fields?: object) => lines.push(`${message} ${JSON.stringify(fields)}`) };
  const stop = new AbortController();
  const probe = new DatapathProbe();
  const following = probe.follow({ dataPath: 'netdev', plane: node.plane, warnings: new Map() }, log, stop.signal);
  node.plane.datapathChanged.ring();
  await expect.poll(() => probe.capabilities, patience).toEqual(capabilitiesOf(await readDatapathFacts('netdev', node.plane, signal)));
  const { connects } = node.plane.openflow.counters;
  await node.ovs.killVswitchd();
  node.ovs.startVswitchd();
  await expect.poll(() => node.plane.openflow.counters.connects, patience).toBeGreaterThan(connects);
  await node.plane.openflow.untilUp(signal);
  stop.abort();
  await following;
  expect(lines).toEqual([`detected data path capabilities ${JSON.stringify({ dataPath: 'netdev', ...probe.capabilities })}`]);
});

it('counts connections and losses like OVS', async () => {
  const ask = (...words: readonly string[]) => Number(node.ovs.exec('ovs-appctl', ...words));
  const lost = () => ['upcall', 'lock'].reduce((sum, why) => sum + ask('coverage/read-counter', `datapath_drop_${why}_error`), 0);
  const before = lost();
  const load = await readDatapathLoad('netdev', node.ovs.runDir, signal);
  expect(load.lost).toBeGreaterThanOrEqual(before);
  expect(load.lost).toBeLessThanOrEqual(lost());
  const limit = ask('dpctl/ct-get-maxconns');
  expect(load.connections.find(({ table }) => table === 'userspace')).toEqual({ table: 'userspace', entries: expect.any(Number), limit });
  expect(load.lostFragments).toBe(ask('coverage/read-counter', 'ipf_stuck_frag_list_purged'));
  expect(load).not.toHaveProperty('megaflows');
});

it('finds netlink families by name, and no data path if the kernel has none', () => {
  const socket = NetlinkSocket.open({ protocol: 'generic' });
  try {
    expect(familyNumber(socket, 'nlctrl')).toBe(0x10);
    expect(familyNumber(socket, 'no_such_family')).toBeUndefined();
    // This namespace has none, whether or not the module is loaded.
    expect(listKernelDatapaths(socket)).toEqual([]);
  } finally {
    socket.close();
  }
});
