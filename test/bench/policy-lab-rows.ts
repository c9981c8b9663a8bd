import { tables } from '../../src/dataplane/pipeline/tables.ts';
import type { OpenFlowConnection } from '../../src/openflow/connection/connection.ts';
import { decodeMatch, encodeMatch } from '../../src/openflow/match/match.ts';
import { BenchLab, until } from './bench-lab.ts';
import { openOurs } from './cni-rows.ts';
import type { CniSide } from './cni-side.ts';
import { compiled } from './compiled.ts';
import { connectionRate } from './connection-rows.ts';
import { attachmentOf, serverIn, throughput } from './pipeline-rows.ts';
import { makeNamespace, podObject, pods, policies, policyObject, post, untilPoliced } from './policed-lab.ts';
import type { Measured } from './row.ts';
import type { SceneOptions } from './scenes.ts';
import { withConnection } from './service-rows.ts';

const addNames = ['policy.add', 'policy.add.flowmods', 'policy.del.flowmods'] as const;
const changeNames = [
  'policy.change',
  'policy.change.p99',
  'policy.change.acknowledged',
  'policy.change.acknowledged.p99',
  'policy.change.lag',
  'policy.change.flowmods',
] as const;
const packetNames = ['policy.tcp', 'policy.connect'] as const;
export const policyLabRowNames = [...addNames, ...changeNames, ...packetNames] as const;

const spare = 24;
/** Pods that stay, half of them with policies. */
const staying = 12;
const adds = { warm: 10, pairs: 60 } as const;
const manyPolicies = 1_000;
const changes = { warm: 10, timed: 200 } as const;
const rounds = 7;
const iperfPort = 5201;
const connectPort = 80;
const signal = new AbortController().signal;
const withinMs = 30_000;

/** Policies on a node of a lab, for pods that the API server knows and that the benchmark starts itself. */
export async function policyLabRows({ selected, print }: SceneOptions): Promise<readonly Measured[]> {
  print('a node with policies');
  const lab = await BenchLab.start({ families: ['ipv4'] });
  const side = openOurs(lab);
  try {
    const prepared = side.prepare(lab, spare);
    await makeNamespace(lab);
    for (const [at, pod] of prepared.entries()) await post(lab, pods, podObject(lab, pod, labelsOf(at)));
    await side.add(staying, 1);
    const rows: Measured[] = [];
    if (packetNames.some(selected)) rows.push(...(await packetRows(lab, side, print)));
    if (addNames.some(selected)) rows.push(...(await addRows(lab, side, print)));
    if (changeNames.some(selected)) rows.push(...(await changeRows(lab, print)));
    return rows.filter(({ name }) => selected(name));
  } finally {
    await side.stop();
    await lab.remove();
  }
}

/** Every other pod has policies. */
function labelsOf(at: number): Readonly<Record<string, string>> {
  return { policed: at % 2 === 0 ? 'yes' : 'no', number: `${at}` };
}

/** Two pods of the node, with a policy that allows them, and without any, in turn. */
async function packetRows(lab: BenchLab, side: CniSide, print: SceneOptions['print']): Promise<readonly Measured[]> {
  print('  two pods with a policy that lets them talk, and without');
  const [server, , client] = side.attached;
  if (!server || !client) throw new Error('two policed pods are needed');
  const { ip } = attachmentOf(side, server);
  const servers = [
    await serverIn(server.netns, 'iperf3', '-s', '-p', String(iperfPort), '--forceflush'),
    await serverIn(server.netns, compiled('connects'), 'serve', ip, String(connectPort)),
  ];
  const values = { tcp: { with: [] as number[], without: [] as number[] }, connect: { with: [] as number[], without: [] as number[] } };
  try {
    for (let round = 0; round < rounds; round++)
      for (const policed of round % 2 === 0 ? (['with', 'without'] as const) : (['without', 'with'] as const)) {
        if (policed === 'with') await post(lab, policies, policyObject('talk', { policed: 'yes' }, [iperfPort, connectPort]));
        await untilPoliced(lab, policed === 'with' ? staying / 2 : 0);
        values.tcp[policed].push(await throughput(client.netns, ip));
        values.connect[policed].push(await connectionRate(client.netns, ip, connectPort));
        if (policed === 'with') await lab.api.send({ method: 'DELETE', path: `${policies}/talk` }, signal);
        await untilPoliced(lab, 0);
      }
  } finally {
    for (const process of servers) process.kill('SIGKILL');
  }
  const row = (name: string, unit: string, each: typeof values.tcp): Measured => ({
    name,
    unit,
    ours: each.with,
    peer: { name: 'without a policy', values: each.without },
  });
  return [row('policy.tcp', 'Gbit/s', values.tcp), row('policy.connect', 'connections/s', values.connect)];
}

/** One more pod of a known class, in turn with one that no policy isolates. */
async function addRows(lab: BenchLab, side: CniSide, print: SceneOptions['print']): Promise<readonly Measured[]> {
  print(`  ${adds.pairs} pods with a policy, and without, in turn`);
  await post(lab, policies, policyObject('add', { policed: 'yes' }, [connectPort]));
  await untilPoliced(lab, staying / 2);
  const times: { readonly [is: string]: number[] } = { policed: [], free: [] };
  const flowMods: { readonly [is: string]: number[] } = { policed: [], free: [] };
  const gone: { readonly [is: string]: number[] } = { policed: [], free: [] };
  const count = () => lab.metric('ovs_flow_ops_count', { kind: 'flow' });
  for (let run = 0; run < 2 * (adds.warm + adds.pairs); run++) {
    const is = run % 2 === 0 ? 'policed' : 'free'; // pods are used in their order, every other one has policies
    const before = await count();
    const { each } = await side.add(1, 1);
    const between = await count();
    await side.del(1, 1);
    const after = await count();
    if (run < 2 * adds.warm) continue;
    times[is]?.push(...each);
    flowMods[is]?.push(between - before);
    gone[is]?.push(after - between);
  }
  await lab.api.send({ method: 'DELETE', path: `${policies}/add` }, signal);
  await untilPoliced(lab, 0);
  const row = (name: string, unit: string, { policed = [], free = [] }: typeof times): Measured => ({
    name,
    unit,
    ours: policed,
    peer: { name: 'a pod without policy', values: free },
  });
  return [row('policy.add', 'ms', times), row('policy.add.flowmods', 'messages', flowMods), row('policy.del.flowmods', 'messages', gone)];
}

/** One port of one of a thousand policies of the node's pods: from the request to the API server until OVS has the flows. */
async function changeRows(lab: BenchLab, print: SceneOptions['print']): Promise<readonly Measured[]> {
  print(`  ${changes.timed} changes among ${manyPolicies} policies`);
  for (let at = 0; at < manyPolicies; at++)
    await post(lab, policies, policyObject(`many-${at}`, { number: `${at % staying}` }, [10_000 + at]));
  await untilPoliced(lab, staying);
  return await withConnection(lab, async (connection) => {
    const ours: number[] = [];
    const acknowledged: number[] = [];
    const flowMods: number[] = [];
    const count = () => lab.metric('ovs_flow_ops_count', { kind: 'flow' });
    for (let change = 0; change < changes.warm + changes.timed; change++) {
      const name = `many-${(change * 163) % manyPolicies}`;
      const port = 20_000 + change;
      const { spec } = policyObject(name, { number: `${((change * 163) % manyPolicies) % staying}` }, [port]) as { spec: object };
      const path = `${policies}/${name}`;
      const before = { entries: await entries(connection), decisions: new Set(await decisionsWith(connection)) };
      const [counted, sent] = [await programmed(lab), await count()];
      const startMs = performance.now();
      await lab.api.send({ method: 'PATCH', path, body: { spec }, contentType: 'application/merge-patch+json' }, signal);
      const isInForce = async (): Promise<boolean> => {
        const [found] = await decisionsWith(connection, port);
        return found !== undefined && (before.decisions.has(found) || (await entries(connection)) !== before.entries);
      };
      await until(isInForce, withinMs, `${name} to be in force`);
      const tookMs = performance.now() - startMs;
      await until(async () => (await programmed(lab)).count > counted.count, withinMs, `${name} to be acknowledged`);
      if (change < changes.warm) continue;
      ours.push(tookMs);
      flowMods.push((await count()) - sent);
      const now = await programmed(lab);
      acknowledged.push((now.sumMs - counted.sumMs) / (now.count - counted.count));
    }
    return [
      { name: 'policy.change', unit: 'ms', ours },
      { name: 'policy.change.p99', unit: 'ms', ours: [p99(ours)] },
      { name: 'policy.change.acknowledged', unit: 'ms', ours: acknowledged },
      { name: 'policy.change.acknowledged.p99', unit: 'ms', ours: [p99(acknowledged)] },
      { name: 'policy.change.flowmods', unit: 'messages', ours: flowMods },
      { name: 'policy.change.lag', unit: 'ms', ours: [await lab.lagMsMax()] },
    ];
  });
}

const p99 = (values: readonly number[]) => values.toSorted((a, b) => a - b)[Math.ceil(values.length * 0.99) - 1] ?? Number.NaN;

/** The agent's own measurement of changes, from the event to the acknowledgement of OVS. */
async function programmed(lab: BenchLab): Promise<{ readonly count: number; readonly sumMs: number }> {
  const metric = await lab.metrics();
  const name = 'policy_programming_duration_seconds';
  return { count: metric(`${name}_count`), sumMs: metric(`${name}_sum`) * 1_000 };
}

/**
 * Rows of what pods are allowed, all of them or those of one port, each with the number of its decision: one that entry flows used before
 * is in force at once.
 */
async function decisionsWith(connection: OpenFlowConnection, port?: number): Promise<readonly number[]> {
  const found: number[] = [];
  const match = port === undefined ? {} : { match: encodeMatch({ eth_type: 0x0800, ip_proto: 6, tcp_dst: port }) };
  const table = tables.ingressNetworkPolicyPorts.id;
  const see = (row: { readonly match: Uint8Array }): void => {
    const { reg12 } = decodeMatch(row.match);
    if (typeof reg12 === 'number') found.push(reg12);
  };
  await connection.dumpFlows({ table, ...match }, see, signal);
  return found;
}

/** Entry flows of pods: if the classes change, they change once the rows of these are installed. */
async function entries(connection: OpenFlowConnection): Promise<string> {
  const found: string[] = [];
  await connection.dumpFlows(
    { table: tables.ingressEntry.id },
    ({ match, instructions }) => found.push(Buffer.concat([match, instructions]).toString('latin1')),
    signal,
  );
  return found.toSorted().join();
}
