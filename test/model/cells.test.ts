import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { FlowSource, InstalledFlow } from '../../src/dataplane/flow-walk/installed-flow.ts';
import { tableName } from '../../src/dataplane/pipeline/tables.ts';
import { printFlow } from '../../src/openflow/text/flow-text.ts';
import type { NodeQuestion, WholeTrace } from '../../src/operations/path/whole-trace.ts';
import { keyOf } from '../../src/policy/reach/objects.ts';
import type { SimulatedCluster } from '../../src/simulate/cluster/simulated-cluster.ts';
import { batches, timeoutOf } from '../support/batches.ts';
import { type CellBridge, tracesOf, verdictsOf } from './compared-cells.ts';
import { atHome } from './pods-at-home.ts';
import { clusterIn, type Traffic, traffics } from './traffic-modes.ts';
import { proposedCases } from './what-if-run.ts';

/*
 * Verdicts of random connections in random clusters: what the objects mean, what agents desire and what bridges do agree without a fault.
 * With one, the pair that differs and the table are those of the fault, and no other connection differs.
 */

/** Number of connections; `npm run test:random -- --only cells` has more. */
const cells = Number(process.env['SEINE_TEST_CELLS'] ?? 600);
const seed = Number(process.env['SEINE_TEST_SEED'] ?? Date.now() % 1_000_000);
const CELLS_OF_CLUSTER = 40;
const FAULTS_OF_CLUSTER = 2;
/** Rounds of a run in which no hidden policy changes a connection yet: about two in five short rounds are such. */
const ROUNDS_MAX = 25;

/** A connection, by numbers that each cluster has names for. */
const cell = fc.record({
  from: fc.nat(),
  to: fc.nat(),
  port: fc.constantFrom('80', '80', '8080', '443', '53/UDP', '1', '65535', 'icmp', '80/SCTP'),
  family: fc.constantFrom('ipv4' as const, 'ipv6' as const),
});
type Cell = typeof cell extends fc.Arbitrary<infer Value> ? Value : never;

const outside = { ipv4: '198.51.100.7', ipv6: '2001:db8::7' } as const;

/** Returns the question about a cell; undefined if neither end is a pod or a Service, so that no bridge has the packet. */
function questionOf({ objects }: SimulatedCluster, { from, to, port, family }: Cell): NodeQuestion | undefined {
  const pods = objects.pods.map(keyOf);
  const nodes = objects.nodes.map(({ metadata }) => `node:${metadata.name}`);
  const services = objects.services.map((each) => `service:${keyOf(each)}`);
  const senders = [...pods, ...pods, ...nodes, 'outside', `outside:${outside[family]}`];
  const receivers = [...pods, ...pods, ...services, ...services, ...nodes, 'outside'];
  const [sender = '', receiver = ''] = [senders[from % senders.length], receivers[to % receivers.length]];
  const isPod = (name: string): boolean => pods.includes(name);
  if (sender === receiver || (!isPod(sender) && !isPod(receiver))) return undefined;
  return { from: sender, to: receiver, port, family };
}

/** Traces a connection by its first address. */
async function traced(cluster: SimulatedCluster, question: NodeQuestion, bridge?: CellBridge): Promise<WholeTrace | undefined> {
  return (await tracesOf(cluster, question, bridge ? { bridge } : {}))[0];
}

const text = (flow: InstalledFlow): string =>
  printFlow({ ...flow, idleTimeout: 0, hardTimeout: 0, flags: 0, importance: 0 }, { table: tableName });

/** Flows of a bridge without one. */
function without(source: FlowSource, lost: string): FlowSource {
  return {
    visit: (table, visitor) => source.visit(table, (flow) => (text(flow) === lost ? undefined : visitor(flow))),
    buckets: (group) => source.buckets(group),
  };
}

interface AskedCell {
  readonly question: NodeQuestion;
  readonly trace: WholeTrace;
}

async function agreeing(
  cluster: SimulatedCluster,
  drawn: readonly Cell[],
): Promise<{ readonly asked: readonly AskedCell[]; readonly wrong: readonly string[] }> {
  const asked: AskedCell[] = [];
  const wrong: string[] = [];
  for (const each of drawn) {
    const question = questionOf(cluster, each);
    const trace = question && (await traced(cluster, question));
    if (!question || !trace) continue;
    asked.push({ question, trace });
    for (const { meaning, why, desired, bridge } of verdictsOf(cluster.objects, trace))
      if (meaning !== desired || desired !== bridge)
        wrong.push(`${JSON.stringify(question)}: meaning ${meaning} (${why}), desired ${desired}, bridge ${bridge}`);
  }
  return { asked, wrong };
}

/** Flows that the desired path of a trace meets, with node and table. */
function metBy({ paths }: WholeTrace) {
  return paths.flatMap(({ segments }) =>
    segments.flatMap(({ node, hops }) => hops.flatMap(({ table, flow }) => (flow === null ? [] : [{ node, table, flow }]))),
  );
}

/** Removes a flow of a path from the bridge of its node. @returns sentences about traces that do not show exactly that */
async function withLostFlow(cluster: SimulatedCluster, asked: readonly AskedCell[], at: number): Promise<readonly string[]> {
  const met = asked.flatMap(({ trace }) => metBy(trace));
  const lost = met[at % met.length];
  if (!lost) return [];
  const bridge: CellBridge = ({ name, flows }) => (name === lost.node ? without(flows, lost.flow) : flows);
  const wrong: string[] = [];
  for (const { question, trace } of asked) {
    const isMet = metBy(trace).some(({ node, flow }) => node === lost.node && flow === lost.flow);
    const found = (await traced(cluster, question, bridge))?.paths.flatMap(({ segments }) =>
      segments.flatMap(({ node, difference }) => (difference ? [`${node} ${difference.table}`] : [])),
    );
    const expected = isMet ? `${lost.node} ${lost.table}` : undefined;
    // Endpoints with equal paths are shown by the flows of one of them.
    const isOfOther = !isMet && trace.paths.some(({ endpoints }) => endpoints.length > 1) && found?.[0] === `${lost.node} ${lost.table}`;
    if (found?.[0] !== expected && !isOfOther)
      wrong.push(`${JSON.stringify(question)} without ${lost.flow}: found ${found?.[0]}, expected ${expected}`);
  }
  return wrong;
}

/** Hides a policy from the agents. @returns sentences about traces that do not show exactly that */
async function withHiddenPolicy(
  { objects }: SimulatedCluster,
  traffic: Traffic,
  asked: readonly AskedCell[],
  at: number,
): Promise<{ readonly wrong: readonly string[]; readonly shown: number }> {
  const { networkPolicies } = objects;
  const hidden = networkPolicies[at % Math.max(1, networkPolicies.length)];
  if (!hidden) return { wrong: [], shown: 0 };
  const behind = clusterIn(traffic, { ...objects, networkPolicies: networkPolicies.filter((each) => each !== hidden) });
  const wrong: string[] = [];
  let shown = 0;
  for (const { question } of asked) {
    const trace = await traced(behind, question);
    if (!trace) continue;
    const [verdicts, former] = [verdictsOf(objects, trace), verdictsOf(behind.objects, trace)];
    for (const [index, { meaning, desired, bridge }] of verdicts.entries()) {
      const isOther = meaning !== former[index]?.meaning;
      if (isOther) shown++;
      if (isOther !== (meaning !== desired) || desired !== bridge)
        wrong.push(`${JSON.stringify(question)} without ${keyOf(hidden)}: meaning ${meaning}, desired ${desired}, bridge ${bridge}`);
    }
  }
  return { wrong, shown };
}

const cases = fc.tuple(
  proposedCases,
  traffics,
  fc.array(cell, { minLength: CELLS_OF_CLUSTER, maxLength: CELLS_OF_CLUSTER }),
  fc.array(fc.nat(), { minLength: FAULTS_OF_CLUSTER, maxLength: FAULTS_OF_CLUSTER }),
);

describe(`random connections of random clusters (SEINE_TEST_SEED=${seed})`, () => {
  const clusters = Math.ceil(cells / CELLS_OF_CLUSTER);

  it('have equal verdicts of objects, agents and bridges', { timeout: timeoutOf(clusters) }, async () => {
    let compared = 0;
    for (let round = 0; compared < cells; round++)
      for await (const batch of batches('clusters', {
        seed: seed + round * clusters,
        runs: Math.max(1, Math.ceil((cells - compared) / CELLS_OF_CLUSTER)),
      }))
        await fc.assert(
          fc.asyncProperty(cases, async ([{ before }, traffic, drawn]) => {
            const { asked, wrong } = await agreeing(clusterIn(traffic, atHome(before)), drawn);
            expect(wrong).toEqual([]);
            compared += asked.length;
          }),
          { seed: batch.seed, numRuns: batch.runs, endOnFailure: true },
        );
    process.stdout.write(`${compared} connections compared, no disagreement\n`);
  });

  it('show an injected fault by its pair of verdicts and its table, and no other', { timeout: timeoutOf(clusters) }, async () => {
    const found = { flows: 0, policies: 0 };
    const runs = Math.ceil(clusters / 4);
    for (let round = 0; found.policies === 0 && round < ROUNDS_MAX; round++)
      for await (const batch of batches('clusters with faults', { seed: seed + round * runs, runs }))
        await fc.assert(
          fc.asyncProperty(cases, async ([{ before }, traffic, drawn, faults]) => {
            const cluster = clusterIn(traffic, atHome(before));
            const { asked } = await agreeing(cluster, drawn);
            for (const at of faults) {
              expect(await withLostFlow(cluster, asked, at)).toEqual([]);
              found.flows += asked.length > 0 ? 1 : 0;
              const { wrong, shown } = await withHiddenPolicy(cluster, traffic, asked, at);
              expect(wrong).toEqual([]);
              found.policies += shown;
            }
          }),
          { seed: batch.seed, numRuns: batch.runs, endOnFailure: true },
        );
    process.stdout.write(`${found.flows} lost flows, ${found.policies} connections that a hidden policy changes: all found, no other\n`);
    expect(found.flows).toBeGreaterThan(0);
    expect(found.policies).toBeGreaterThan(0);
  });
});
