import fc from 'fast-check';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { compileSubject } from '../../src/dataplane/compile/compile-entry.ts';
import { nothing, type Wanted } from '../../src/dataplane/desired/host-entries.ts';
import { type Owner, ownerOf } from '../../src/dataplane/pipeline/cookie.ts';
import { tables } from '../../src/dataplane/pipeline/tables.ts';
import { zones } from '../../src/dataplane/pipeline/well-known.ts';
import type { Arrival } from '../model/conversation.ts';
import { associationLifetimes, type LivingBridge, lifetimes, liveThrough, livingScene, noCounts } from '../model/living.ts';
import { wantedByOwner } from '../model/scene.ts';
import { batches, timeoutOf } from '../support/batches.ts';
import { PacketBench } from '../support/packet-bench.ts';

/* Like `test/model/policy-living.test.ts`, on a real switch with its own conntrack. */

const seed = Number(process.env['SEINE_TEST_SEED'] ?? Date.now() % 1_000_000);
const connections = Number(process.env['SEINE_TEST_POLICY_CONNECTIONS'] ?? 40);
/** About two in five attempted connections are established. */
const openings = 100;
const livingOfEach = 40;

let bench: PacketBench;
beforeAll(async () => {
  bench = await PacketBench.start(livingScene);
  // Entries of datagrams and echoes expire after half a minute by default, and a Service would choose for them again.
  const patient = ['udp_first', 'udp_single', 'udp_multiple', 'icmp_first', 'icmp_reply'].map((state) => `${state}=3600`);
  bench.ovs.exec(
    'ovs-vsctl',
    '--',
    '--id=@dp',
    'create',
    'Datapath',
    'datapath_version=0',
    '--',
    'set',
    'Open_vSwitch',
    '.',
    'datapaths:netdev=@dp',
  );
  for (const zone of Object.values(zones).flatMap((ofFamily) => Object.values(ofFamily)))
    bench.ovs.exec('ovs-vsctl', 'add-zone-tp', 'netdev', `zone=${zone}`, ...patient);
});
afterAll(() => bench?.stop());

it(`exactly the denied established connections end (SEINE_TEST_SEED=${seed})`, {
  timeout: timeoutOf(connections),
}, async () => {
  const counts = noCounts();
  const lives = fc.asyncProperty(lifetimes(openings), async (lifetime) => {
    await bench.forgetConnections();
    const wrong = await liveThrough(bench, lifetime, counts);
    expect(wrong.slice(0, 3)).toEqual([]);
  });
  for await (const { seed: own, runs } of batches('living on a switch', { seed, runs: Math.ceil(connections / livingOfEach) }))
    await fc.assert(lives, { seed: own, numRuns: runs, endOnFailure: true });
  process.stdout.write(`${JSON.stringify(counts)}\n`);
  expect(counts.lived).toBeGreaterThan(connections / 2);
  if (connections >= 1_000) expect(Math.min(counts.stopped, counts.healed)).toBeGreaterThan(connections / 20);
});

it(`SCTP associations are independent though conntrack sees no ports (SEINE_TEST_SEED=${seed})`, {
  timeout: timeoutOf(connections),
}, async () => {
  const counts = noCounts();
  // Flows learned from a packet apply to others once the data path revalidates.
  const obedient: LivingBridge = {
    become: (wanted) => bench.become(wanted),
    receive: async (arrival) => {
      const outputs = await bench.receive(arrival);
      await bench.control.run('revalidator/purge');
      return outputs;
    },
  };
  const lives = fc.asyncProperty(associationLifetimes(40), async (lifetime) => {
    await bench.forgetConnections();
    bench.forgetAssociations();
    const wrong = await liveThrough(obedient, lifetime, counts);
    expect(wrong.slice(0, 3)).toEqual([]);
  });
  await fc.assert(lives, { seed, numRuns: Math.ceil(connections / livingOfEach), endOnFailure: true });
  process.stdout.write(`${JSON.stringify(counts)}\n`);
  if (connections >= 1_000) expect(counts.lived).toBeGreaterThan(connections / 8);
});

const batch = 500;

it.each([0, 1])('a pod that opens SCTP associations without end takes no answers from others (address %i)', async (family) => {
  const [flooder, , server, client] = livingScene.pods;
  if (!flooder || !server || !client) throw new Error('the scene has too few pods');
  const scene = { ...livingScene, node: { ...livingScene.node, blindToSctp: true as const } };
  // Only its answer leaves the server.
  const closed = { ofPort: server.ofPort, addresses: server.addresses, egress: 'closed' as const };
  const subject: readonly [Owner, Wanted] = [ownerOf('subject', `${server.ofPort}`), { ...nothing, flows: compileSubject(closed) }];
  await bench.forgetConnections();
  bench.forgetAssociations();
  await bench.become(new Map([...wantedByOwner(scene), subject]));
  const ask = (from: typeof client, portSrc: number): Arrival => {
    const [ipSrc, ipDst] = [from.addresses[family], server.addresses[family]];
    if (!ipSrc || !ipDst) throw new Error('a pod has no such address');
    const ends = { ethSrc: from.mac, ethDst: server.mac, ipSrc, ipDst, portSrc, portDst: 80 };
    return { inPort: from.ofPort, packet: { ...ends, payload: ipSrc.family, protocol: 'sctp', ttl: 64 } };
  };
  const answer = ({ packet: { ethSrc, ethDst, ipSrc, ipDst, portSrc, portDst, ...rest } }: Arrival): Arrival => ({
    inPort: server.ofPort,
    packet: {
      ...rest,
      ethSrc: ethDst,
      ethDst: ethSrc,
      ...(ipSrc && { ipDst: ipSrc }),
      ...(ipDst && { ipSrc: ipDst }),
      portSrc: portDst ?? 0,
      portDst: portSrc ?? 0,
    },
  });
  const receivers = async (arrival: Arrival): Promise<readonly unknown[]> =>
    (await bench.receive(arrival)).filter(({ packet }) => packet.portSrc === arrival.packet.portSrc).map(({ to }) => to);
  const learned = (): number => {
    const dump = bench.ovs.exec('ovs-ofctl', '-O', 'OpenFlow15', 'dump-aggregate', 'br-int', `table=${tables.associations.id}`);
    return Number(/flow_count=(\d+)/.exec(dump)?.[1]);
  };
  // Under load OVS does not learn from every packet, so that no number of packets certainly fills it.
  let port = 10_000;
  for (let before = -1; learned() > before; ) {
    before = learned();
    for (const end = port + batch; port < end; port++) await bench.send(ask(flooder, port));
  }
  expect(learned()).toBeGreaterThan(0);
  expect(await receivers(answer(ask(flooder, port - 1)))).toEqual([]);
  expect(await receivers(ask(client, 5_000))).toEqual([server.ofPort]);
  expect(await receivers(answer(ask(client, 5_000)))).toEqual([client.ofPort]);
});
