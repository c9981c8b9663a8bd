import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { agentProcess, killAgent, startAgent } from '../../lab/node/agent.ts';
import { ConvergeLab, until } from '../support/converge-lab.ts';
import { CrashRuntime } from '../support/crash-runtime.ts';
import { holdingsOf } from '../support/node-holdings.ts';
import { generator } from '../support/random.ts';
import { testPodInterface } from '../support/test-datapath.ts';

/** The shipped bundle, which starts in a third of the time. */
const agent = join(import.meta.dirname, '..', '..', 'dist', 'seine-agent.mjs');
/**
 * The acceptance requires 200, which `npm run test:crash` executes of each kind; `npm run test:random` executes 40, and every test run a
 * few.
 */
const kills = Number(process.env['SEINE_TEST_KILLS'] ?? 8);
const seed = Number(process.env['SEINE_TEST_SEED'] ?? Date.now() % 1_000_000_000);
const containersMax = 12;
const inspectEvery = Math.min(10, Math.ceil(kills / 3));
/** An ADD or a DEL takes about 10 ms; a start of the agent some hundreds. */
const killWithinMs = { call: 30, start: 400 };
const goneWithinMs = 10_000;
/** Two checks of the addresses in quarantine. */
const reclaimedWithinMs = 40_000;

const never = new AbortController().signal;
const { podInterface: asked } = testPodInterface;
const kinds = asked === undefined ? (['veth', 'standing'] as const) : [asked];

/** Quarantines of each kind, after its crashes: the waiting time of its addresses is the same for all. */
const quarantines: { readonly podInterface: string; readonly lab: ConvergeLab | undefined }[] = [];
afterAll(async () => {
  for (const { lab } of quarantines) await lab?.remove();
});

describe.each(kinds)('a node whose pods have interfaces of `podInterface: %s`', (podInterface) => {
  let lab: ConvergeLab;
  let runtime: CrashRuntime;
  /** Number of pods seen with a pre-plugged port. */
  let standing = 0;

  beforeAll(async () => {
    lab = await ConvergeLab.start(1, agent, { podInterface });
    runtime = await CrashRuntime.start(lab, containersMax, never);
  });
  afterAll(() => {
    quarantines.push({ podInterface, lab });
  });

  async function expectNothingLeaked(): Promise<void> {
    const live = [...runtime.live.keys()].toSorted();
    await expect
      .poll(async () => ({ ...(await holdingsOf(lab)), quarantined: 'any' }), { timeout: goneWithinMs, interval: 50 })
      .toEqual({ interfaces: live.length, ports: live, flows: live.length, leases: live, quarantined: 'any' });
    await runtime.checkAll();
    expect(runtime.faults).toEqual([]);
    if (podInterface !== 'veth') standing += (await lab.amongPorts(1, '-o', 'link')).split(' alias ').length - 1;
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
    console.log(`${kills} crashes, seed ${seed}`, runtime.counts);
    expect(agentProcess(lab.plan, lab.node(1))).toBeDefined();
    expect(standing > 0).toBe(podInterface !== 'veth');
  });
});

it('releases the addresses that crashes have left in quarantine', { timeout: 120_000 }, async () => {
  for (const { podInterface, lab } of quarantines) {
    if (lab === undefined) throw new Error(`there is no lab of ${podInterface}`);
    const reclaimedMs = await until(
      async () => (await holdingsOf(lab)).quarantined === 0,
      reclaimedWithinMs,
      () => `${podInterface}: addresses stay in quarantine`,
    );
    console.log(`${podInterface}: the quarantine is empty after ${reclaimedMs} ms`);
  }
});
