import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { isIp, parseCidr, parseIp } from '../../src/base/net/ip.ts';
import { meaningFor } from '../../src/operations/path/path-meaning.ts';
import type { NodeQuestion } from '../../src/operations/path/whole-trace.ts';
import { keyOf } from '../../src/policy/reach/objects.ts';
import type { SimulatedCluster } from '../../src/simulate/cluster/simulated-cluster.ts';
import { batches, timeoutOf } from '../support/batches.ts';
import { tracesOf, verdictsOf } from './compared-cells.ts';
import { clients, exposed, exposures } from './exposed-services.ts';
import { atHome } from './pods-at-home.ts';
import { clusterIn, traffics } from './traffic-modes.ts';
import { proposedCases } from './what-if-run.ts';

/*
 * Verdicts of random connections to Services as hosts outside, nodes and pods reach them: by load balancers' addresses, external IPs, node
 * ports and cluster addresses, with every traffic policy, source ranges, hints and endpoints that terminate.
 */

/** Number of connections; `npm run test:random -- --only cells` has more. */
const cells = Number(process.env['SEINE_TEST_CELLS'] ?? 400);
const seed = Number(process.env['SEINE_TEST_SEED'] ?? Date.now() % 1_000_000);
const CELLS_OF_CLUSTER = 40;

const cell = fc.record({
  sender: fc.constantFrom('pod', 'pod', 'node', 'outside', 'outside', 'outside' as const),
  from: fc.nat(),
  to: fc.nat(),
  by: fc.constantFrom('service', 'node port', 'node port', 'address', 'address', 'cluster address' as const),
  at: fc.nat(),
  family: fc.constantFrom('ipv4' as const, 'ipv6' as const),
});
type Cell = typeof cell extends fc.Arbitrary<infer Value> ? Value : never;

interface AskedCell {
  readonly question: NodeQuestion;
  readonly via?: string;
}

const oneOf = <T>(all: readonly T[], at: number): T | undefined => all[at % Math.max(1, all.length)];

/** Returns the question about a cell, with the node that a packet from outside enters; undefined if the cluster has none such. */
function questionOf({ objects, nodeNames }: SimulatedCluster, { sender, from, to, by, at, family }: Cell): AskedCell | undefined {
  const senders = { pod: objects.pods.map(keyOf), node: nodeNames.map((name) => `node:${name}`), outside: outsideOf(family) };
  const source = oneOf<string>(senders[sender], from);
  const service = oneOf(objects.services, to);
  const [port] = service?.spec.ports ?? [];
  if (source === undefined || !service || !port) return undefined;
  const serving = objects.nodes.filter(({ spec }) => (spec.podCIDRs ?? []).some((cidr) => parseCidr(cidr).family === family));
  const node = oneOf(serving, at);
  const ofFamily = (all: readonly string[]) => all.filter((each) => isIp(each) && parseIp(each).family === family);
  const ask = (target: string | undefined, number: number | null | undefined): AskedCell | undefined => {
    if (target === undefined || !number) return undefined;
    const question = { from: source, to: target, port: `${number}/TCP`, family };
    // Every node gets packets for the address of a load balancer; those for an address of a node are routed to that node.
    const isElsewhere =
      by === 'node port' || objects.nodes.some(({ status }) => status.addresses.some(({ address }) => address === target));
    return sender === 'outside' && !isElsewhere && node ? { question, via: node.metadata.name } : { question };
  };
  switch (by) {
    case 'service':
      return ask(`service:${keyOf(service)}`, port.port);
    case 'node port':
      return ask(oneOf(ofFamily((node?.status.addresses ?? []).map(({ address }) => address)), 0), port.nodePort);
    case 'address': {
      const ingress = (service.status?.loadBalancer?.ingress ?? []).filter(({ ipMode }) => ipMode !== 'Proxy').map(({ ip }) => ip ?? '');
      const target = oneOf(ofFamily([...(service.spec.externalIPs ?? []), ...ingress]), at);
      return ask(target, port.port);
    }
    case 'cluster address':
      return ask(oneOf(ofFamily(service.spec.clusterIPs ?? []), 0), port.port);
  }
}

function outsideOf(family: 'ipv4' | 'ipv6'): readonly string[] {
  return clients[family].map((address) => `outside:${address}`);
}

const cases = fc.tuple(proposedCases, exposures, traffics, fc.array(cell, { minLength: CELLS_OF_CLUSTER, maxLength: CELLS_OF_CLUSTER }));

describe(`random connections to Services that hosts outside reach (SEINE_TEST_SEED=${seed})`, () => {
  const clusters = Math.ceil(cells / CELLS_OF_CLUSTER);

  it('have equal verdicts of objects, agents and bridges', { timeout: timeoutOf(clusters) }, async () => {
    const compared = { all: 0, served: 0 };
    for (let round = 0; compared.all < cells; round++)
      for await (const batch of batches('clusters', { seed: seed + round * clusters, runs: clusters }))
        await fc.assert(
          fc.asyncProperty(cases, async ([{ before }, drawn, traffic, asked]) => {
            const cluster = clusterIn(traffic, exposed(atHome(before), drawn));
            const questions = asked.flatMap((each) => questionOf(cluster, each) ?? []);
            expect(await disagreements(cluster, questions, compared)).toEqual([]);
          }),
          { seed: batch.seed, numRuns: batch.runs, endOnFailure: true },
        );
    process.stdout.write(`${compared.all} connections compared, ${compared.served} with an endpoint, no disagreement\n`);
    expect(compared.served).toBeGreaterThan(cells / 20);
  });
});

async function disagreements(cluster: SimulatedCluster, questions: readonly AskedCell[], compared: { all: number; served: number }) {
  const wrong: string[] = [];
  for (const asked of questions) {
    const traces = await tracesOf(cluster, asked.question, asked.via === undefined ? {} : { via: asked.via });
    for (const trace of traces) {
      compared.all++;
      for (const path of trace.paths)
        for (const missing of meaningFor(cluster.objects, trace, path)?.unchosen ?? [])
          wrong.push(`${JSON.stringify(asked)} ${trace.way ?? ''}: no flow sends it to ${missing}`);
      for (const { endpoint, meaning, why, desired, bridge, at } of verdictsOf(cluster.objects, trace)) {
        if (endpoint !== undefined) compared.served++;
        if (meaning === desired && desired === bridge) continue;
        wrong.push(
          `${JSON.stringify(asked)} ${trace.way ?? ''} ${endpoint}: meaning ${meaning} (${why}), desired ${desired}, bridge ${bridge} (${at})`,
        );
      }
    }
  }
  return wrong;
}
