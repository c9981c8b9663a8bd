import { setImmediate } from 'node:timers/promises';
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { SeineError } from '../../src/base/errors/seine-error.ts';
import { AssumedConnections } from '../../src/dataplane/flow-walk/assumed-tracking.ts';
import { walkPacket } from '../../src/dataplane/flow-walk/flow-walk.ts';
import type { FlowsInMemory } from '../../src/dataplane/flow-walk/flows-in-memory.ts';
import { type Flow, type Match, priority, type Step } from '../../src/dataplane/pipeline/flow.ts';
import { formatFlow } from '../../src/dataplane/pipeline/format.ts';
import { tableName, tableNames, tables } from '../../src/dataplane/pipeline/tables.ts';
import { ConnectionTracker } from '../../src/dataplane/switch-model/connection-tracker.ts';
import { isSameHop } from '../../src/operations/trace/trace-paths.ts';
import { timeoutOf } from '../support/batches.ts';
import { generator } from '../support/random.ts';
import { installedFlows, walkFieldsOf } from '../support/walk-fields.ts';
import { type Arrival, conversations } from './conversation.ts';
import { forgeries } from './forgeries.ts';
import { compileScene, exampleScene } from './scene.ts';
import { interpretedFate, modelledFate, type PacketFate } from './walked-packet.ts';

/*
 * Faults in any table of a bridge: one flow is missing, matches more, has another priority, does less, or something else. The model of a
 * switch and the interpreter of bytes both notice each that changes the fate of a packet, and the comparison with the desired flows names
 * the table of the fault.
 */

/** Number of mutants that must be noticed; `npm run test:random -- --only mutants` has more. */
const wanted = Number(process.env['SEINE_TEST_FLOW_MUTANTS'] ?? 25);
const seed = Number(process.env['SEINE_TEST_SEED'] ?? Date.now() % 1_000_000);
/** Packets of which each mutant gets those that reach its table, and how many of them at most. */
const PACKETS = 400;
const PACKETS_OF_MUTANT = 40;
/** Mutants of a run at most, for each that must be noticed: many change nothing that a packet of the run shows. */
const TRIED = 12;

type Pick = <T>(from: readonly T[]) => T | undefined;
/** Returns the changed flow, or flows in its place; undefined if this change does not apply. */
type Mutation = (flow: Flow, pick: Pick) => readonly Flow[] | undefined;

const parts = ({ table, priority: level, match, steps }: Flow): Flow => ({ table, priority: level, match, steps });

const mutations: Readonly<Record<string, Mutation>> = {
  'a missing flow': () => [],
  'a match without one field': (flow, pick) => {
    const lost = pick(Object.keys(flow.match).filter((field) => field !== 'payload' && field !== 'protocol') as (keyof Match)[]);
    if (lost === undefined) return undefined;
    const { [lost]: _, ...match } = flow.match;
    return [{ ...parts(flow), match }];
  },
  'a match without one register': (flow, pick) => {
    const regs = flow.match.regs ?? [];
    const lost = pick(regs);
    return lost && [{ ...parts(flow), match: { ...flow.match, regs: regs.filter((mark) => mark !== lost) } }];
  },
  'a lower priority': (flow) => [{ ...parts(flow), priority: Math.max(1, flow.priority - 101) }],
  'a higher priority': (flow) => [{ ...parts(flow), priority: flow.priority + 101 }],
  'one step less': (flow, pick) => {
    const lost = pick(flow.steps);
    return lost && [{ ...parts(flow), steps: flow.steps.filter((step) => step !== lost) }];
  },
  'a drop': (flow) => (flow.steps.length > 0 ? [{ ...parts(flow), steps: [] }] : undefined),
  'another register': (flow, pick) => {
    const load = pick(flow.steps.filter((step) => step.do === 'load'));
    if (load?.do !== 'load') return undefined;
    const { mark } = load;
    const other = { ...load, mark: { ...mark, value: (mark.value ^ (mark.mask & -mark.mask)) >>> 0 } };
    return [{ ...parts(flow), steps: flow.steps.map((step): Step => (step === load ? other : step)) }];
  },
  'another table': (flow, pick) => {
    const jump = flow.steps.find((step) => step.do === 'goto');
    if (jump?.do !== 'goto') return undefined;
    const later = tableNames.filter((name) => tables[name].id > tables[flow.table].id && name !== jump.table);
    const table = pick(later);
    return table && [{ ...parts(flow), steps: flow.steps.map((step): Step => (step === jump ? { do: 'goto', table } : step)) }];
  },
  'a flow of another program': (flow) => [parts(flow), { ...parts(flow), priority: priority.probe + 40, steps: [] }],
};

const scene = exampleScene;
const correct = compileScene(scene);
const desired = installedFlows(correct);

/** A packet with its fate by the correct flows. */
interface FatedPacket {
  readonly arrival: Arrival;
  readonly fate: PacketFate;
}

const textOf = ({ tables: path, outputs }: PacketFate): string => `${path}\n${outputs}`;

/** Fate by the model; `undefined` where a switch does not define which of two flows applies, or the packet never ends, `fatal` where Open vSwitch ends. */
function byModel(compiled: typeof correct, arrival: Arrival): PacketFate | 'undefined' | 'fatal' {
  try {
    return modelledFate(scene, compiled, arrival, { tracker: new ConnectionTracker('userspace') });
  } catch (thrown) {
    if (thrown instanceof SeineError && /undefined which|never ends/.test(thrown.message)) return 'undefined';
    if (thrown instanceof SeineError && thrown.message.includes('is translated')) return 'fatal';
    throw thrown;
  }
}

async function walk(source: FlowsInMemory, { inPort, packet }: Arrival) {
  return await walkPacket(source, walkFieldsOf(inPort, packet), { tracking: new AssumedConnections(), choose: () => 0 });
}

interface Judged {
  readonly model: boolean;
  readonly bytes: boolean;
  /** First table at which the paths by the desired and by the changed flows differ. */
  readonly table: string | undefined;
}

/** @returns undefined for a packet that ends Open vSwitch, which has no fate */
async function judged(mutant: typeof correct, source: FlowsInMemory, { arrival, fate }: FatedPacket): Promise<Judged | undefined> {
  const modelled = byModel(mutant, arrival);
  if (modelled === 'fatal') return undefined;
  const walked = await walk(source, arrival);
  const wantedPath = await walk(desired, arrival);
  const at = wantedPath.hops.findIndex((hop, index) => !isSameHop(hop, walked.hops[index]));
  const differing = at < 0 ? walked.hops[wantedPath.hops.length] : wantedPath.hops[at];
  return {
    model: modelled === 'undefined' || textOf(modelled) !== textOf(fate),
    bytes: walked.unreadable !== undefined || textOf(interpretedFate(walked, arrival.inPort)) !== textOf(fate),
    table: walked.unreadable === undefined ? differing && tableName(differing.table) : undefined,
  };
}

/** Reports whether connection tracking lets a packet open a connection, which the interpreter assumes of each. */
function isOpening({ packet: { protocol, tcpFlags = 'syn', icmpType } }: Arrival): boolean {
  if (protocol === 'tcp') return tcpFlags === 'syn';
  if (protocol === 'icmp') return icmpType === 8;
  return protocol !== 'icmp6' || icmpType === 128;
}

/** A flow has one place in a bridge: the last one with its table, priority and match counts. */
function changed(flow: Flow, others: readonly Flow[]): typeof correct {
  const key = ({ table, priority: level, match }: Flow): string =>
    JSON.stringify([table, level, match], (_, value) => (typeof value === 'bigint' ? `${value}` : value));
  const keys = new Set(others.map(key));
  return { ...correct, flows: [...correct.flows.filter((each) => each !== flow && !keys.has(key(each))), ...others] };
}

/** @returns undefined for a match that lacks a prerequisite, which a switch refuses */
function encoded(mutant: typeof correct): FlowsInMemory | undefined {
  try {
    return installedFlows(mutant);
  } catch (thrown) {
    if (thrown instanceof SeineError && thrown.message.includes('without its prerequisite')) return undefined;
    throw thrown;
  }
}

it(`the model and the interpreter notice faults in any table, and name it (SEINE_TEST_SEED=${seed})`, {
  timeout: timeoutOf(wanted),
}, async () => {
  const random = generator(seed);
  const pick: Pick = (from) => from[Math.floor(random() * from.length)];
  const arrivals = fc.sample(
    fc.oneof(
      conversations(scene).map(({ opening }) => opening),
      forgeries(scene).filter(isOpening),
    ),
    { seed, numRuns: PACKETS },
  );
  const packets = arrivals.map(
    (arrival): FatedPacket => ({ arrival, fate: modelledFate(scene, correct, arrival, { tracker: new ConnectionTracker('userspace') }) }),
  );
  const reaching = (table: string) => packets.filter(({ fate }) => fate.tables.split(' ').includes(table));
  const noticed = new Map<string, number>();
  let [all, equal] = [0, 0];
  for (let tried = 0; all < wanted && tried < wanted * TRIED; tried++) {
    const [kind = '', mutate] = pick(Object.entries(mutations)) ?? [];
    const table = pick([...new Set(packets.flatMap(({ fate }) => fate.tables.split(' ')))]);
    const flow = pick(correct.flows.filter((each) => each.table === table));
    const others = flow && mutate?.(flow, pick);
    if (!flow || !others) continue;
    const mutant = changed(flow, others);
    const source = encoded(mutant);
    if (!source) continue;
    let isNoticed = false;
    for (const packet of reaching(flow.table).slice(0, PACKETS_OF_MUTANT)) {
      const judgement = await judged(mutant, source, packet);
      if (!judgement) continue;
      const { model, bytes, table: named } = judgement;
      const what = () =>
        `${kind}: ${formatFlow(flow)}\n  becomes ${others.map(formatFlow).join('; ')}\n  for ${JSON.stringify(packet.arrival, (_, value) => (typeof value === 'bigint' ? `${value}` : value))}`;
      expect({ model, bytes }, what()).toEqual({ model, bytes: model });
      if (!model) continue;
      isNoticed = true;
      if (named !== undefined) expect(named, what()).toBe(flow.table);
    }
    if (isNoticed) {
      all++;
      noticed.set(kind, (noticed.get(kind) ?? 0) + 1);
    } else equal++;
    await setImmediate();
  }
  process.stdout.write(`${[...noticed].map(([kind, count]) => `${count} × ${kind}`).join(', ')}\n`);
  process.stdout.write(`${all} mutants noticed by two judges, each by its table; ${equal} more change no packet of the run\n`);
  expect(all).toBe(wanted);
});
