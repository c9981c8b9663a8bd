import type { ClusterObjects } from '../../lab/apiserver/cluster-objects.ts';
import { transportInterface } from '../../lab/node/topology.ts';
import { until } from '../support/converge-lab.ts';
import { restingMemory, untilSettled } from './agent-rows.ts';
import { BenchLab } from './bench-lab.ts';
import { addNodes } from './cluster-fill.ts';
import { openOurs } from './cni-rows.ts';
import type { Measured } from './row.ts';

export const directRowNames = ['cni.add.direct1000', 'agent.rss.direct1000'] as const;

const peers = 1_000;
const runs = 50;
const warmUp = 10;
const patienceMs = 120_000;

/** A node with a thousand peers without a tunnel, beside one with as many in the tunnel: ADDs in turn, and the agent's memory. */
export async function directRows(selected: (name: string) => boolean, print: (text: string) => void): Promise<readonly Measured[]> {
  const labs: BenchLab[] = [];
  try {
    print(`two nodes with ${peers} peers: without a tunnel, and through it`);
    for (const mode of ['noEncap', 'encap'] as const)
      labs.push(await BenchLab.start({ families: ['ipv4'], mode, cluster: (objects) => addPeers(objects, mode) }));
    const [direct, tunnel] = labs;
    if (!direct || !tunnel) return [];
    await untilDirect(direct);
    const rows: Measured[] = [];
    if (selected('cni.add.direct1000')) rows.push(await addsInTurn(direct, tunnel));
    if (selected('agent.rss.direct1000'))
      rows.push({
        name: 'agent.rss.direct1000',
        unit: 'MiB',
        ours: await restingMemory(direct),
        peer: { name: 'seine with as many in the tunnel', values: await restingMemory(tunnel) },
      });
    return rows;
  } finally {
    for (const lab of labs) await lab.remove();
  }
}

function addPeers(objects: ClusterObjects, mode: 'noEncap' | 'encap'): void {
  addNodes(objects, peers, mode === 'noEncap' ? { 'seine.dev/peer-modes': 'direct' } : {});
}

/** The addresses of the peers become ones of the link, so the node gets a route to each. */
async function untilDirect(lab: BenchLab): Promise<void> {
  const link = transportInterface(lab.plan);
  await lab.exec('ip', 'route', 'add', '172.20.0.0/16', 'dev', link);
  await until(
    async () => (await lab.exec('ip', 'route', 'show', 'proto', '0x5e', 'dev', link)).split('\n').length > peers,
    patienceMs,
    () => 'the node has no route to each peer',
  );
  await untilSettled(lab);
}

async function addsInTurn(direct: BenchLab, tunnel: BenchLab): Promise<Measured> {
  const [ours, values]: [number[], number[]] = [[], []];
  const sides = [
    { lab: direct, side: openOurs(direct), into: ours },
    { lab: tunnel, side: openOurs(tunnel), into: values },
  ];
  try {
    for (const { lab, side } of sides) {
      await untilSettled(lab);
      side.prepare(lab, 40);
      await side.add(10, 4);
    }
    for (let run = 0; run < runs; run++)
      for (const { side, into } of run % 2 === 0 ? sides : sides.toReversed()) {
        const { each } = await side.add(1, 1);
        await side.del(1, 1);
        if (run >= warmUp) into.push(...each);
      }
  } finally {
    for (const { side } of sides) await side.stop();
  }
  return { name: 'cni.add.direct1000', unit: 'ms', ours, peer: { name: 'seine with as many in the tunnel', values } };
}
