import { setTimeout as sleep } from 'node:timers/promises';
import { runIn } from '../../src/lab/machine/netns.ts';
import { podOfPorts } from '../../src/pipeline/well-known.ts';
import { tables } from '../../src/pipeline/tables.ts';
import { BenchLab, until } from './bench-lab.ts';
import { openOurs } from './cni-rows.ts';
import type { BenchPod, CniSide } from './cni-side.ts';
import { compiled } from './compiled.ts';
import { attachmentOf, serverIn, throughput } from './pipeline-rows.ts';
import type { Measured } from './row.ts';
import type { SceneOptions } from './scenes.ts';

const addNames = ['policy.add', 'policy.add.flowmods'] as const;
const changeNames = ['policy.change', 'policy.change.p99', 'policy.change.lag'] as const;
const packetNames = ['policy.tcp', 'policy.connect'] as const;
export const policyLabRowNames = [...addNames, ...changeNames, ...packetNames];

const namespace = 'bench';
const local = 20;
const adds = { warm: 20, pairs: 200 } as const;
const manyPolicies = 1_000;
const changes = 60;
const rounds = 7;
const port = { iperf: 5201, connects: 80 } as const;
const connects = { seconds: 2, width: 4 } as const;
const signal = new AbortController().signal;
const deadlineMs = 10_000;

/** Policies on a node of a lab, with pods that the API server knows and that the benchmark starts itself. */
export async function policyLabRows({ wanted, say }: SceneOptions): Promise<readonly Measured[]> {
  say('a node with policies');
  const lab = await BenchLab.start({ families: ['ipv4'] });
  const side = openOurs(lab);
  try {
    side.prepare(lab, local);
    await post(lab, '/api/v1/namespaces', { apiVersion: 'v1', kind: 'Namespace', metadata: { name: namespace } });
    for (const [at, pod] of side.spare.entries()) await post(lab, `/api/v1/namespaces/${namespace}/pods`, podObject(lab, pod, at % 2 === 0));
    const rows: Measured[] = [];
    if (packetNames.some(wanted)) rows.push(...(await packetRows(lab, side, { wanted, say })));
    if (addNames.some(wanted)) rows.push(...(await addRows(lab, side, say)));
    if (changeNames.some(wanted)) rows.push(...(await changeRows(lab, side, say)));
    return rows.filter(({ name }) => wanted(name));
  } finally {
    await side.stop();
    await lab.remove();
  }
}

/** Of a pod that the lab's kubelet does not understand, and leaves alone: this program starts it. */
function podObject(lab: BenchLab, pod: BenchPod, isPoliced: boolean): object {
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name: side30(pod), namespace, labels: { policed: isPoliced ? 'yes' : 'no' } },
    spec: { nodeName: lab.node.name, containers: [{ name: 'none', image: 'none', readinessProbe: { periodSeconds: 0 } }] },
  };
}
