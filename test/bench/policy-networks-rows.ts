import { setTimeout as sleep } from 'node:timers/promises';
import { restingMemory, untilSettled } from './agent-rows.ts';
import { BenchLab, until } from './bench-lab.ts';
import { openOurs } from './cni-rows.ts';
import { makeNamespace, podObject, pods, policies, post, untilPoliced } from './policed-lab.ts';
import { type Measured, median } from './row.ts';
import type { SceneOptions } from './scenes.ts';

const rowsOf = (name: string) => [`${name}`, `${name}.delete`, `${name}.rss.before`, `${name}.rss.with`, `${name}.rss.after`] as const;
const one = 'policy.networks20k';
const ten = 'policy.networks10x20k';
export const policyNetworksRowNames = [...rowsOf(one), ...rowsOf(ten)];

/** Number of networks that one policy may name. */
const networks = 20_000;
const withinMs = 300_000;
/** Memory that is still above the earlier level is measured again for this time (ms). */
const returnMs = 60_000;
const signal = new AbortController().signal;

/**
 * Networks in one rule of one policy, and of ten: times until the bridge has them and until they are removed, and the memory of the agent.
 */
export async function policyNetworksRows({ selected, print }: SceneOptions): Promise<readonly Measured[]> {
  const rows: Measured[] = [];
  for (const [name, count] of [
    [one, 1],
    [ten, 10],
  ] as const) {
    if (!rowsOf(name).some(selected)) continue;
    print(`${count} policies with ${networks} networks in a rule`);
    rows.push(...(await networkRows(name, count)));
  }
  return rows.filter(({ name }) => selected(name));
}

async function networkRows(name: string, count: number): Promise<readonly Measured[]> {
  const lab = await BenchLab.start({ families: ['ipv4'] });
  const side = openOurs(lab);
  try {
    const [pod] = side.prepare(lab, 1);
    if (!pod) throw new Error('no pod');
    await makeNamespace(lab);
    await post(lab, pods, podObject(lab, pod, { app: 'web' }));
    await side.add(1, 1);
    await untilSettled(lab);
    const before = await restingMemory(lab);
    const entries = await entriesOf(lab);
    const startedMs = performance.now();
    for (let at = 0; at < count; at++) await post(lab, policies, manyNetworks(at));
    await untilPoliced(lab, 1);
    await until(async () => (await entriesOf(lab)) >= entries + count * networks, withinMs, 'entries of all networks');
    await untilSettled(lab, withinMs);
    const tookMs = performance.now() - startedMs;
    const during = await restingMemory(lab);
    const deletedMs = performance.now();
    for (let at = 0; at < count; at++) await lab.api.send({ method: 'DELETE', path: `${policies}/networks-${at}` }, signal);
    await until(async () => (await entriesOf(lab)) <= entries, withinMs, 'the entries to be gone');
    await untilSettled(lab, withinMs);
    const goneMs = performance.now() - deletedMs;
    return [
      { name, unit: 'ms', ours: [tookMs] },
      { name: `${name}.delete`, unit: 'ms', ours: [goneMs] },
      { name: `${name}.rss.before`, unit: 'MiB', ours: before },
      { name: `${name}.rss.with`, unit: 'MiB', ours: during },
      { name: `${name}.rss.after`, unit: 'MiB', ours: await returnedMemory(lab, median(before)) },
    ];
  } finally {
    await side.stop();
    await lab.remove();
  }
}

async function entriesOf(lab: BenchLab): Promise<number> {
  return await lab.metric('desired_entries', { part: 'bridge' });
}

async function returnedMemory(lab: BenchLab, before: number): Promise<readonly number[]> {
  const startedMs = performance.now();
  for (;;) {
    const memory = await restingMemory(lab);
    if (median(memory) <= before || performance.now() - startedMs > returnMs) return memory;
    await sleep(1_000);
  }
}

/** All networks are distinct, and none contains another. */
function manyNetworks(policy: number): object {
  const from = Array.from({ length: networks }, (_, at) => ({ ipBlock: { cidr: `${20 + policy}.${at >> 8}.${at & 255}.0/25` } }));
  return {
    apiVersion: 'networking.k8s.io/v1',
    kind: 'NetworkPolicy',
    metadata: { name: `networks-${policy}` },
    spec: { podSelector: { matchLabels: { app: 'web' } }, policyTypes: ['Ingress'], ingress: [{ from, ports: [{ port: 80 + policy }] }] },
  };
}
