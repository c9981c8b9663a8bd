import { clusterPoliciesPath, serveClusterPolicies } from '../../lab/kube/cluster-policies.ts';
import { runIn } from '../../lab/machine/netns.ts';
import { BenchLab, until } from './bench-lab.ts';
import { openOurs } from './cni-rows.ts';
import { type CniSide, podNamespace } from './cni-side.ts';
import { compiled } from './compiled.ts';
import { attachmentOf } from './pipeline-rows.ts';
import { makeNamespace, podObject, pods, post } from './policed-lab.ts';
import { type Measured, median } from './row.ts';
import type { SceneOptions } from './scenes.ts';

const changeNames = ['clusterpolicy.change', 'clusterpolicy.change.p99', 'clusterpolicy.change.flowmods'] as const;
const addNames = ['clusterpolicy.add.others', 'clusterpolicy.add.others.flowmods'] as const;
const refusedNames = ['policy.refused', 'policy.refused.p99', 'policy.refused.many', 'policy.refused.answered'] as const;
export const clusterPolicyRowNames = [...changeNames, ...addNames, ...refusedNames] as const;

/** Pods that stay: one that refuses, and clients, together below the limit of answers of a node. */
const clients = 12;
const spare = 4;
const changes = { warm: 5, timed: 100 } as const;
/** Pods of a block follow the change of the policies; the first ones are not counted. */
const adds = { blocks: 10, warm: 2, timed: 4 } as const;
/** Connections a second of each client. A sender gets at most 100 answers a second, a node gives at most 1,000. */
const pace = { one: { count: 500, rate: 50 }, each: { count: 400, rate: 80 } } as const;
const refusedPort = 4_000;
const withinMs = 30_000;
const signal = new AbortController().signal;

/** ClusterNetworkPolicies on a node of a lab, and connections that a pod's policy refuses. */
export async function clusterPolicyRows({ selected, print }: SceneOptions): Promise<readonly Measured[]> {
  print('a node with ClusterNetworkPolicies');
  const lab = await BenchLab.start({ families: ['ipv4'] });
  const side = openOurs(lab);
  try {
    await serveClusterPolicies(lab.api, signal);
    await lab.agent('stop');
    await lab.agent('start');
    await lab.untilReady();
    const prepared = side.prepare(lab, clients + 1 + spare);
    await makeNamespace(lab);
    for (const pod of prepared) await post(lab, pods, podObject(lab, pod, { app: 'any' }));
    await side.add(clients + 1, 1);
    await untilFollowed(lab);
    const rows: Measured[] = [];
    if (changeNames.some(selected)) rows.push(...(await changeRows(lab, print)));
    if (addNames.some(selected)) rows.push(...(await addRows(lab, side, print)));
    if (refusedNames.some(selected)) rows.push(...(await refusedRows(lab, side, print)));
    return rows.filter(({ name }) => selected(name));
  } finally {
    await side.stop();
    await lab.remove();
  }
}

/** Policy of the Admin tier that denies a port to all pods of the namespaces that it selects. */
function policyOf(name: string, namespaceName: string, port: number): object {
  return {
    apiVersion: 'policy.networking.k8s.io/v1beta1',
    kind: 'ClusterNetworkPolicy',
    metadata: { name, annotations: { 'seine.dev/denied': 'reject' } },
    spec: {
      tier: 'Admin',
      priority: 10,
      subject: { namespaces: { matchLabels: { 'kubernetes.io/metadata.name': namespaceName } } },
      ingress: [{ action: 'Deny', from: [{ namespaces: {} }], protocols: [{ tcp: { destinationPort: { number: port } } }] }],
    },
  };
}

const remove = async (lab: BenchLab, name: string) =>
  await lab.api.send({ method: 'DELETE', path: `${clusterPoliciesPath}/${name}` }, signal);

/** Waits until the agent follows the resource. */
async function untilFollowed(lab: BenchLab): Promise<void> {
  await post(lab, clusterPoliciesPath, policyOf('first', 'none', 1));
  await untilKnown(lab, 1);
  await remove(lab, 'first');
}

/** Waits until the agent's copy has this number of policies. */
async function untilKnown(lab: BenchLab, policies: number): Promise<void> {
  const isKnown = async () => (await lab.metric('source_objects', { kind: 'ClusterNetworkPolicy' })) === policies;
  await until(isKnown, withinMs, `the agent to know ${policies} ClusterNetworkPolicies`);
}

/** The agent's own measurement of changes, from the event to the acknowledgement of OVS, and the flow-mods since its start. */
async function progress(lab: BenchLab) {
  const metric = await lab.metrics();
  const name = 'policy_programming_duration_seconds';
  const flowMods = await lab.metric('ovs_flow_ops_count', { kind: 'flow' });
  return { count: metric(`${name}_count`), sumMs: metric(`${name}_sum`) * 1_000, flowMods };
}

/** Runs a change, and waits until OVS has acknowledged it. */
async function programmed(lab: BenchLab, change: () => Promise<unknown>) {
  const before = await progress(lab);
  await change();
  await until(async () => (await progress(lab)).count > before.count, withinMs, 'a change to be acknowledged');
  const after = await progress(lab);
  return { ms: (after.sumMs - before.sumMs) / (after.count - before.count), flowMods: after.flowMods - before.flowMods };
}

/** One port of a rule about all pods of the node. */
async function changeRows(lab: BenchLab, print: SceneOptions['print']): Promise<readonly Measured[]> {
  print(`  ${changes.timed} changes of a port of an Admin rule about all pods`);
  await programmed(lab, () => post(lab, clusterPoliciesPath, policyOf('all', podNamespace, 1_000)));
  const [times, flowMods]: [number[], number[]] = [[], []];
  const path = `${clusterPoliciesPath}/all`;
  for (let change = 0; change < changes.warm + changes.timed; change++) {
    const { spec } = policyOf('all', podNamespace, 2_000 + change) as { spec: object };
    const request = { method: 'PATCH', path, body: { spec }, contentType: 'application/merge-patch+json' } as const;
    const found = await programmed(lab, () => lab.api.send(request, signal));
    if (change < changes.warm) continue;
    times.push(found.ms);
    flowMods.push(found.flowMods);
  }
  await programmed(lab, () => remove(lab, 'all'));
  const p99 = times.toSorted((a, b) => a - b)[Math.ceil(times.length * 0.99) - 1] ?? Number.NaN;
  return [
    { name: 'clusterpolicy.change', unit: 'ms', ours: times },
    { name: 'clusterpolicy.change.p99', unit: 'ms', ours: [p99] },
    { name: 'clusterpolicy.change.flowmods', unit: 'messages', ours: flowMods },
  ];
}

/** ADDs of pods that no ClusterNetworkPolicy selects, while the cluster has some, and while it has none, in turn. */
async function addRows(lab: BenchLab, side: CniSide, print: SceneOptions['print']): Promise<readonly Measured[]> {
  print(`  ${adds.blocks * adds.timed} pods while other pods have ClusterNetworkPolicies, and while there are none`);
  const times = { with: [] as number[], without: [] as number[] };
  const flowMods = { with: [] as number[], without: [] as number[] };
  for (let block = 0; block < 2 * adds.blocks; block++) {
    const is = block % 2 === 0 ? 'with' : 'without';
    if (is === 'with') await post(lab, clusterPoliciesPath, policyOf('elsewhere', 'kube-system', 1_000));
    else await remove(lab, 'elsewhere');
    await untilKnown(lab, is === 'with' ? 1 : 0);
    for (let run = 0; run < adds.warm + adds.timed; run++) {
      const { flowMods: before } = await progress(lab);
      const { each } = await side.add(1, 1);
      const { flowMods: after } = await progress(lab);
      await side.del(1, 1);
      if (run < adds.warm) continue;
      times[is].push(...each);
      flowMods[is].push(after - before);
    }
  }
  const peer = (values: readonly number[]) => ({ name: 'without ClusterNetworkPolicies', values });
  return [
    { name: 'clusterpolicy.add.others', unit: 'ms', ours: times.with, peer: peer(times.without) },
    { name: 'clusterpolicy.add.others.flowmods', unit: 'messages', ours: flowMods.with, peer: peer(flowMods.without) },
  ];
}

interface Refusals {
  readonly refused: number;
  readonly medianUs: number;
  readonly p99Us: number;
}

/** Connections to a pod whose policy denies them and asks for a refusal, of one client and then of many at once. */
async function refusedRows(lab: BenchLab, side: CniSide, print: SceneOptions['print']): Promise<readonly Measured[]> {
  print(`  refused connections of one client, and of ${clients} together`);
  const [server, ...others] = side.attached;
  if (!server || others.length < clients) throw new Error('the pods are needed');
  const { ip } = attachmentOf(side, server);
  await programmed(lab, () => post(lab, clusterPoliciesPath, policyOf('refuses', podNamespace, refusedPort)));
  const ask = async (netns: string, { count, rate }: { readonly count: number; readonly rate: number }): Promise<Refusals> => {
    const out = await runIn(netns, compiled('refused'), [ip, String(refusedPort), String(count), String(rate)], {}, signal);
    const [refused = 0, medianUs = Number.NaN, p99Us = Number.NaN] = out.split(' ').map(Number);
    return { refused, medianUs, p99Us };
  };
  const one = await ask(others[0]?.netns ?? '', pace.one);
  const all = await Promise.all(others.slice(0, clients).map(async ({ netns }) => await ask(netns, pace.each)));
  const answered = all.reduce((sum, { refused }) => sum + refused, 0) / (clients * pace.each.count);
  await programmed(lab, () => remove(lab, 'refuses'));
  return [
    { name: 'policy.refused', unit: 'µs', ours: [one.medianUs] },
    { name: 'policy.refused.p99', unit: 'µs', ours: [one.p99Us] },
    { name: 'policy.refused.many', unit: 'µs', ours: [median(all.map(({ medianUs }) => medianUs))] },
    { name: 'policy.refused.answered', unit: 'of all', ours: [answered] },
  ];
}
