import fc from 'fast-check';
import { expect, it } from 'vitest';
import type { FlowSource, InstalledFlow } from '../../src/dataplane/flow-walk/installed-flow.ts';
import { maskOf, PacketState } from '../../src/dataplane/flow-walk/packet-state.ts';
import { tables } from '../../src/dataplane/pipeline/tables.ts';
import { type FieldName, fields } from '../../src/openflow/match/fields.ts';
import { decodeMatch } from '../../src/openflow/match/match.ts';
import { followTrace, type NodeQuestion } from '../../src/operations/path/whole-trace.ts';
import { keyOf } from '../../src/policy/reach/objects.ts';
import { meaningOf } from '../../src/policy/verify/forwarding-reference/forwarding-reference.ts';
import { SimulatedCluster } from '../../src/simulate/cluster/simulated-cluster.ts';
import { traceInCluster } from '../../src/simulate/cluster/simulated-trace.ts';
import { batches, timeoutOf } from '../support/batches.ts';
import { atHome } from './pods-at-home.ts';
import { proposedCases } from './what-if-run.ts';

/** Number of random clusters; `npm run test:random -- --only what-if` has more. */
const runs = Number(process.env['SEINE_TEST_SIMULATIONS'] ?? 15);
const seed = Number(process.env['SEINE_TEST_SEED'] ?? Date.now() % 1_000_000);

async function traced(cluster: SimulatedCluster, question: NodeQuestion) {
  const ask = async (node: string, asked: NodeQuestion) => ({
    answer: await traceInCluster(cluster, node, new URLSearchParams({ ...asked })),
  });
  const first = await ask(cluster.firstNode(question.from, question.to), question);
  return await followTrace(first.answer, ask);
}

/** Returns the results of the simulation that differ from what the objects mean, and their number. */
async function compared(cluster: SimulatedCluster, questions: readonly NodeQuestion[]) {
  const wrong: string[] = [];
  let verdicts = 0;
  for (const question of questions)
    for (const trace of await traced(cluster, question))
      for (const path of trace.paths)
        for (const endpoint of path.endpoints.length > 0 ? path.endpoints : [undefined]) {
          const { source, destination, protocol, destinationPort } = trace.packet;
          const packet = {
            source,
            destination,
            protocol,
            node: trace.node,
            ...(destinationPort !== undefined && { port: destinationPort }),
          };
          const [, address = '', port = ''] = /^(.*):(\d+)$/.exec(endpoint ?? '') ?? [];
          const meaning = meaningOf(cluster.objects, packet, endpoint === undefined ? undefined : { address, port: Number(port) });
          verdicts++;
          if (meaning.verdict !== path.desired)
            wrong.push(
              `${JSON.stringify(question)} ${trace.family} ${endpoint}: ${path.desired}, and the objects mean ${meaning.verdict} (${meaning.why})`,
            );
        }
  return { wrong, verdicts };
}

it(`packets in simulated clusters arrive where the objects mean it (SEINE_TEST_SEED=${seed})`, { timeout: timeoutOf(runs) }, async () => {
  let all = 0;
  for await (const batch of batches('simulated clusters', { seed, runs }))
    await fc.assert(
      fc.asyncProperty(
        proposedCases,
        fc.array(fc.tuple(fc.nat(), fc.nat(), fc.constantFrom('80', '53/UDP', '443', '8080')), { minLength: 6, maxLength: 6 }),
        async ({ before }, picks) => {
          const cluster = new SimulatedCluster(atHome(before));
          const names = cluster.objects.pods.map(keyOf);
          if (names.length === 0) return;
          const pods = picks.map(
            ([from, to, port]): NodeQuestion => ({ from: names[from % names.length] ?? '', to: names[to % names.length] ?? '', port }),
          );
          const services = cluster.objects.services.flatMap(({ metadata, spec }, at): readonly NodeQuestion[] => [
            {
              from: names[at % names.length] ?? '',
              to: `service:${metadata.namespace}/${metadata.name}`,
              port: `${spec.ports?.[0]?.port}`,
            },
          ]);
          const result = await compared(cluster, [...pods.filter(({ from, to }) => from !== to), ...services]);
          expect(result.wrong).toEqual([]);
          all += result.verdicts;
        },
      ),
      { seed: batch.seed, numRuns: batch.runs, endOnFailure: true },
    );
  process.stdout.write(`${all} verdicts compared\n`);
  expect(all).toBeGreaterThan(runs);
});

/** Returns a packet that a flow matches; its other bits are zero. */
function packetFor({ match }: InstalledFlow): PacketState {
  const packet = PacketState.of({});
  for (const [name, given] of Object.entries(decodeMatch(match))) {
    const field = name as FieldName;
    const { value, mask } =
      typeof given === 'object' ? (given as { value: bigint; mask: bigint }) : { value: given as bigint, mask: maskOf(fields[field].bits) };
    packet.writeMasked(field, BigInt(value), BigInt(mask));
  }
  return packet;
}

async function flowsAt(source: FlowSource, table: number, packet?: PacketState): Promise<readonly InstalledFlow[]> {
  const flows: InstalledFlow[] = [];
  await source.visit(table, (flow) => flows.push(flow), packet);
  return flows;
}

const textOf = ({ priority, cookie, match, instructions }: InstalledFlow): string =>
  [priority, cookie, Buffer.from(match).toString('hex'), Buffer.from(instructions).toString('hex')].join(' ');

it(`a simulated node compiles each flow for the packets that it matches (SEINE_TEST_SEED=${seed})`, async () => {
  let [all, leftOut] = [0, 0];
  await fc.assert(
    fc.asyncProperty(proposedCases, async ({ before }) => {
      const cluster = new SimulatedCluster(atHome(before));
      for (const { flows } of cluster.nodeNames.map((name) => cluster.node(name)))
        for (const { id } of Object.values(tables)) {
          const whole = await flowsAt(flows, id);
          for (const flow of whole) {
            const found = (await flowsAt(flows, id, packetFor(flow))).map(textOf);
            expect(found).toContain(textOf(flow));
            all++;
            leftOut += whole.length - found.length;
          }
        }
    }),
    { seed, numRuns: 3, endOnFailure: true },
  );
  process.stdout.write(`${all} flows; for each packet ${(leftOut / all).toFixed(1)} others of its table are left out\n`);
  expect(leftOut).toBeGreaterThan(0);
});
