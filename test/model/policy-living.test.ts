import fc from 'fast-check';
import { expect, it } from 'vitest';
import type { Wanted } from '../../src/dataplane/desired/host-entries.ts';
import type { Owner } from '../../src/dataplane/pipeline/cookie.ts';
import { ctMark, reg } from '../../src/dataplane/pipeline/fields.ts';
import { type Flow, type LearnAssociation, load, resubmit, type Step } from '../../src/dataplane/pipeline/flow.ts';
import { ConnectionTracker } from '../../src/dataplane/switch-model/connection-tracker.ts';
import { SwitchModel } from '../../src/dataplane/switch-model/switch-model.ts';
import { batches, timeoutOf } from '../support/batches.ts';
import { associationLifetimes, type LivingBridge, lifetimes, liveThrough, livingScene, noCounts } from './living.ts';

const seed = Number(process.env['SEINE_TEST_SEED'] ?? Date.now() % 1_000_000);
const connections = Number(process.env['SEINE_TEST_POLICY_CONNECTIONS'] ?? 200);
/** Number of runs for each bug, with its own seed. */
const bugged = Number(process.env['SEINE_TEST_POLICY_MUTANTS'] ?? 0) >= 1_000 ? 30 : 1;
/** About two in five attempted connections are established. */
const openings = 100;
const livingOfEach = 40;

/** A bug: replacement flows for one. */
type Change = (flow: Flow) => readonly Flow[];

class ModelBridge implements LivingBridge {
  readonly #tracker: ConnectionTracker;
  readonly #change: Change;
  readonly #learned = new Map<string, Flow>();
  #model: SwitchModel | undefined;

  constructor(datapath: 'userspace' | 'kernel', change: Change = (flow) => [flow]) {
    this.#tracker = new ConnectionTracker(datapath);
    this.#change = change;
  }

  receive({ inPort, packet }: Parameters<LivingBridge['receive']>[0]) {
    return this.#model?.receive(inPort, packet).outputs ?? [];
  }

  become(wanted: ReadonlyMap<Owner, Wanted>): void {
    const flows = [...wanted.values()].flatMap((each) => each.flows.flatMap(this.#change));
    const groups = [...wanted.values()].flatMap((each) => each.groups);
    this.#model = new SwitchModel({
      flows,
      groups,
      tracker: this.#tracker,
      choose: () => 0,
      tunnelPort: livingScene.node.tunnel.ofPort,
      learned: this.#learned,
    });
  }
}

it.each(['userspace', 'kernel'] as const)(
  `on the %s data path exactly the denied established connections end (SEINE_TEST_SEED=${seed})`,
  { timeout: timeoutOf(connections) },
  async (datapath) => {
    const counts = noCounts();
    for await (const batch of batches(`living on ${datapath}`, { seed, runs: Math.ceil(connections / livingOfEach) }))
      await fc.assert(
        fc.asyncProperty(lifetimes(openings), async (lifetime) => {
          const wrong = await liveThrough(new ModelBridge(datapath), lifetime, counts, { datapath });
          expect(wrong.slice(0, 3)).toEqual([]);
        }),
        { seed: batch.seed, numRuns: batch.runs, endOnFailure: true },
      );
    process.stdout.write(`${JSON.stringify(counts)}\n`);
    expect(counts.lived).toBeGreaterThan(connections / 2);
    expect(Math.min(counts.stopped, counts.healed)).toBeGreaterThan(connections / 20);
    expect(counts.silenced).toBeGreaterThan(connections / 200);
  },
);

it.each(['userspace', 'kernel'] as const)(
  `on the %s data path no established connection ends if they are kept, whatever policies change (SEINE_TEST_SEED=${seed})`,
  async (datapath) => {
    const counts = noCounts();
    const lives = fc.asyncProperty(lifetimes(openings), async (lifetime) => {
      const wrong = await liveThrough(new ModelBridge(datapath), lifetime, counts, { datapath, keeps: true });
      expect(wrong.slice(0, 3)).toEqual([]);
    });
    await fc.assert(lives, { seed, numRuns: 3, endOnFailure: true });
    expect([counts.lived > 30, counts.wentOn > counts.lived, counts.stopped]).toEqual([true, true, 0]);
  },
);

it.each([
  ['userspace', {}],
  ['kernel', {}],
  ['userspace', { keeps: true }],
] as const)(`on the %s data path SCTP associations are independent, %j (SEINE_TEST_SEED=${seed})`, async (datapath, options) => {
  const counts = noCounts();
  const lives = fc.asyncProperty(associationLifetimes(60), async (lifetime) => {
    const wrong = await liveThrough(new ModelBridge(datapath), lifetime, counts, { datapath, ...options });
    expect(wrong.slice(0, 3)).toEqual([]);
  });
  await fc.assert(lives, { seed, numRuns: 10, endOnFailure: true });
  process.stdout.write(`${JSON.stringify(counts)}\n`);
  expect(counts.lived).toBeGreaterThan(50);
});

const isAbout = ({ match }: Flow, barred: 'yes' | 'no'): boolean =>
  match.ctMarks?.some(({ field, value }) => field === 'unadmitted' && value === ctMark.unadmitted(barred).value) === true;
const isOfOpener = ({ table, match: { ctState } }: Flow): boolean => table === 'state' && ctState?.new === '-' && ctState.rpl === '-';
const standing = (flow: Flow): Flow => ({ ...flow, steps: [load(reg.verdict('standing')), ...flow.steps] });
const isVerdict = ({ table }: Flow): boolean => table === 'egressVerdict' || table === 'ingressVerdict';

const marksAnswers = ({ steps }: Flow): boolean => steps.some((step) => step.do === 'load' && /^answer(From|To)$/.test(step.mark.field));
const asItIs = (step: Step): Step => (step.do === 'resubmit' ? resubmit(step.table) : step);

it.each<[string, Change]>([
  ['bars nothing that is denied', (flow) => (isVerdict(flow) && isAbout(flow, 'no') ? [] : [flow])],
  ['passes answers to what is barred', (flow) => (flow.table === 'state' && isAbout(flow, 'yes') && flow.steps.length === 0 ? [] : [flow])],
  ['never lets in again what it barred', (flow) => (flow.table === 'commit' && isAbout(flow, 'yes') ? [] : [flow])],
  ['passes answers of datagrams without asking policy', (flow) => (flow.table === 'state' && marksAnswers(flow) ? [] : [flow])],
  ['asks policy about servers alone', (flow) => (flow.table === 'ingressEntry' && marksAnswers(flow) ? [] : [flow])],
  ['asks policy about clients alone', (flow) => (flow.table === 'egressEntry' && marksAnswers(flow) ? [] : [flow])],
  ['asks policy about answers as if they opened a connection', (flow) => [{ ...flow, steps: flow.steps.map(asItIs) }]],
  ['asks the node, which may ask everybody', (flow) => (flow.table === 'ingressLookup' && flow.match.ipDst ? [] : [flow])],
  ['asks policy for what opens a connection only', (flow) => [isOfOpener(flow) ? standing(flow) : flow]],
])('detects that on a bridge that %s', { timeout: timeoutOf(bugged) }, async (_, change) => {
  for (let run = 0; run < bugged; run++) {
    const counts = noCounts();
    const lives = fc.asyncProperty(lifetimes(openings), async (lifetime) => {
      return (await liveThrough(new ModelBridge('userspace', change), lifetime, counts)).length === 0;
    });
    const { failed } = await fc.check(lives, { seed: seed + run, numRuns: 400, endOnFailure: true });
    expect(failed).toBe(true);
  }
});

const isOfSctp = ({ match }: Flow): boolean => match.protocol === 'sctp';
const without = (flow: Flow, which: (step: LearnAssociation) => boolean): Flow => ({
  ...flow,
  steps: flow.steps.filter((step) => step.do !== 'learnAssociation' || !which(step)),
});

it.each<[string, Change]>([
  ['believes the tracker about SCTP', (flow) => (flow.table === 'state' && isOfSctp(flow) ? [] : [flow])],
  ['passes answers to what it denies by now', (flow) => (flow.table === 'egressEntry' && isOfSctp(flow) ? [] : [flow])],
  ['denies the opener only', (flow) => (isVerdict(flow) && isOfSctp(flow) ? [without(flow, () => true)] : [flow])],
  ['forgets at a denial who opened it', (flow) => [without(flow, ({ side, as }) => side === 'opener' && as === 'letIn')]],
  ['learns no answers', (flow) => [without(flow, ({ side, as }) => side === 'answer' && as === 'letIn')]],
  ['bars the connection of all associations', (flow) => (isVerdict(flow) && isOfSctp(flow) ? [] : [flow])],
  [
    'lets answers teach',
    (flow) => (flow.table === 'commit' && isOfSctp(flow) ? [{ ...flow, match: { ...flow.match, regs: [] } }] : [flow]),
  ],
])('detects that for SCTP on a bridge that %s', { timeout: timeoutOf(bugged) }, async (_, change) => {
  for (let run = 0; run < bugged; run++) {
    const lives = fc.asyncProperty(associationLifetimes(60), async (lifetime) => {
      return (await liveThrough(new ModelBridge('userspace', change), lifetime, noCounts())).length === 0;
    });
    const { failed } = await fc.check(lives, { seed: seed + run, numRuns: 50, endOnFailure: true });
    expect(failed).toBe(true);
  }
});
