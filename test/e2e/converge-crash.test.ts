import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { decodeJournal } from '../../src/agent/ipam/journal-records.ts';
import { nodePaths } from '../../src/lab/names.ts';
import { agentProcess, killAgent, startAgent } from '../../src/lab/node/agent.ts';
import { ConvergeLab, until } from '../support/converge-lab.ts';
import { CrashRuntime } from '../support/crash-runtime.ts';

/** What ships, and starts in a third of the time. */
const agent = join(import.meta.dirname, '..', '..', 'dist', 'seine-agent.mjs');
/** The acceptance asks for 200, which `npm run test:crash` does; a part of it belongs to every run of the tests. */
const kills = Number(process.env['SEINE_TEST_KILLS'] ?? 50);
const seed = Number(process.env['SEINE_TEST_SEED'] ?? Date.now() % 1_000_000_000);
const containersMax = 12;
const inspectEvery = 10;
/** An ADD or a DEL takes some 10 ms; a start of the agent some hundreds. */
const killWithinMs = { call: 30, start: 400 };
const goneWithinMs = 10_000;
/** Two looks at the addresses in quarantine. */
const reclaimedWithinMs = 40_000;

/** Mulberry32: small, and the same for one seed on every machine. */
function generator(state: number): () => number {
  let at = state;
  return () => {
    at = (at + 0x6d2b79f5) | 0;
    let mixed = Math.imul(at ^ (at >>> 15), 1 | at);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

let lab: ConvergeLab;
let runtime: CrashRuntime;
const never = new AbortController().signal;

beforeAll(async () => {
  lab = await ConvergeLab.start(1, agent);
  runtime = await CrashRuntime.start(lab, containersMax, never);
});
afterAll(async () => {
  await lab?.remove();
});

/** What the node holds for containers; each must be one for every container that lives. */
async function holdings() {
  const paths = nodePaths(lab.plan.dir, lab.node(1).name);
  const [links, ports, flows] = await Promise.all([
    lab.exec(1, 'ip', '-br', 'link', 'show', 'type', 'veth'),
    lab.exec(1, 'ovs-vsctl', '--format=json', '--columns=external_ids', 'list', 'Port'),
    lab.exec(1, 'ovs-ofctl', '-O', 'OpenFlow15', 'dump-flows', 'br-int', 'cookie=0x1030000000000/0xffffff0000000000,table=0'),
  ]);
  const leases = new Map<number, string>();
  for (const record of decodeJournal(readFileSync(join(paths.stateDir, 'ipam.journal'), 'utf8')).records) {
    if (record.op === 'lease')
      leases.set(record.lease.serial, `${record.lease.containerId}${record.lease.state === 'allocated' ? '' : ' quarantined'}`);
    else if (record.op === 'quarantine') leases.set(record.serial, `${leases.get(record.serial)} quarantined`);
    else if (record.op === 'free') leases.delete(record.serial);
  }
  const { data } = JSON.parse(ports) as { data: [['map', [string, string][]]][] };
  const inNode = links.split('\n').filter((line) => /^pod[a-z0-9]*-[0-9a-f]{7}@/.test(line));
  return {
    interfaces: inNode.length,
    ports: data.flatMap(([[, ids]]) => ids.filter(([key]) => key === 'container-id').map(([, id]) => id)).toSorted(),
    flows: flows.split('\n').filter((line) => line.includes('actions=')).length,
    leases: [...leases.values()].filter((lease) => !lease.endsWith('quarantined')).toSorted(),
    quarantined: [...leases.values()].filter((lease) => lease.endsWith('quarantined')).length,
  };
}

async function expectNothingLeaked(): Promise<void> {
  const live = [...runtime.live.keys()].toSorted();
  await expect
    .poll(async () => ({ ...(await holdings()), quarantined: 'any' }), { timeout: goneWithinMs, interval: 50 })
    .toEqual({ interfaces: live.length, ports: live, flows: live.length, leases: live, quarantined: 'any' });
  await runtime.checkAll();
  expect(runtime.faults).toEqual([]);
}

async function startAndWait(): Promise<void> {
  startAgent(lab.plan, lab.node(1), agent);
  await lab.untilReady(1);
}

it(`leaves nothing and loses nothing in ${kills} crashes of the agent (SEINE_TEST_SEED=${seed})`, { timeout: 1_200_000 }, async () => {
  const random = generator(seed);
  const upTo = (max: number) => Math.floor(random() * max);
  for (let killed = 0; killed < kills; ) {
    const ids = [...runtime.live.keys()];
    const calls = Array.from({ length: 1 + upTo(4) }, () => {
      const [id] = ids.splice(upTo(ids.length), 1);
      return runtime.hasRoom && (id === undefined || random() < 0.55) ? runtime.add() : runtime.remove(id ?? '');
    });
    await sleep(random() * killWithinMs.call);
    await killAgent(lab.plan, lab.node(1));
    killed++;
    if (random() < 0.3) runtime.killPlugins();
    if (random() < 0.3 && killed < kills) {
      startAgent(lab.plan, lab.node(1), agent);
      await sleep(random() * killWithinMs.start);
      await killAgent(lab.plan, lab.node(1));
      killed++;
    }
    await startAndWait();
    await Promise.all(calls);
    if (killed % inspectEvery < 2) await expectNothingLeaked();
  }
  await expectNothingLeaked();
  await Promise.all([...runtime.live.keys()].map((id) => runtime.remove(id)));
  await expectNothingLeaked();
  const reclaimedMs = await until(
    async () => (await holdings()).quarantined === 0,
    reclaimedWithinMs,
    () => 'addresses stay in quarantine',
  );
  console.log(`${kills} crashes, seed ${seed}`, runtime.counts, `quarantine empty after ${reclaimedMs} ms`);
  expect(agentProcess(lab.plan, lab.node(1))).toBeDefined();
});
