import { agentRowNames, agentRows, busyMemory, joinRow, restingMemory, untilSettled } from './agent-rows.ts';
import { BenchLab } from './bench-lab.ts';
import { addNodes, addServices } from './cluster-fill.ts';
import { clusterPolicyRowNames, clusterPolicyRows } from './cluster-policy-rows.ts';
import { cniRowNames, cniRows, openOurs, startCniBench } from './cni-rows.ts';
import { directRowNames, directRows } from './direct-rows.ts';
import { fleetRowNames, fleetRows } from './fleet-rows.ts';
import { flowLogLoadRowNames, flowLogLoadRows } from './flow-log-load-rows.ts';
import { flowLogRowNames, flowLogRows } from './flow-log-rows.ts';
import { largeObjectRowNames, largeObjects } from './large-object-rows.ts';
import { loopRowNames } from './loop-rows.ts';
import { openflowRowNames, openflowRows } from './openflow-rows.ts';
import { ovsdbRowNames, ovsdbRows } from './ovsdb-rows.ts';
import { pipelineRowNames, pipelineRows } from './pipeline-rows.ts';
import { policedNode, policedNodeRowNames } from './policed-node-rows.ts';
import { policyLabRowNames, policyLabRows } from './policy-lab-rows.ts';
import { policyNetworksRowNames, policyNetworksRows } from './policy-networks-rows.ts';
import { policyRowNames, policyRows } from './policy-rows.ts';
import { policySwitchRowNames, policySwitchRows } from './policy-switch-rows.ts';
import { policyVerifyRowNames, policyVerifyRows } from './policy-verify-rows.ts';
import { recorderRowNames, recorderRows } from './recorder-rows.ts';
import { rotationRowNames, rotationRows } from './rotation-rows.ts';
import type { Measured } from './row.ts';
import { besidePacketFilter, coldScene, loopOfTenThousand, tenThousandRowNames, tenThousandServices } from './service-rows.ts';
import { simulateRowNames, simulateRows } from './simulate-rows.ts';
import { stormOfPeers, stormRowNames } from './storm-rows.ts';

/** Requested rows, and the function that reports progress. */
export interface SceneOptions {
  readonly selected: (name: string) => boolean;
  readonly print: (text: string) => void;
}

/** Rows that are measured in one set-up. */
export interface Scene {
  readonly rows: readonly string[];
  readonly measure: (want: SceneOptions) => Promise<readonly Measured[]>;
}

const families = { one: ['ipv4'], both: ['ipv4', 'ipv6'] } as const;

const manyServices = 10_000;
const manyNodes = 5_000;

export const scenes: readonly Scene[] = [
  { rows: [...cniRowNames, ...agentRowNames, 'agent.rss.busy', ...pipelineRowNames, 'cni.add.svc10k'], measure: plainNode },
  { rows: policedNodeRowNames, measure: policedNode },
  { rows: tenThousandRowNames, measure: tenThousandServices },
  { rows: largeObjectRowNames, measure: largeObjects },
  { rows: loopRowNames, measure: loopOfTenThousand },
  { rows: ['svc.cold1000'], measure: besidePacketFilter },
  { rows: ['svc.250x1000'], measure: coldScene('svc.250x1000', { services: 1_000, endpoints: 250 }) },
  { rows: ['svc.endpoints5000'], measure: coldScene('svc.endpoints5000', { services: 1, endpoints: 5_000 }) },
  { rows: ['agent.rss.nodes5000', 'node.join5000'], measure: nodeOfManyPeers },
  { rows: stormRowNames, measure: stormOfPeers },
  { rows: rotationRowNames, measure: ({ print }) => rotationRows(print) },
  { rows: directRowNames, measure: ({ selected, print }) => directRows(selected, print) },
  { rows: ovsdbRowNames, measure: ovsdbRows },
  { rows: openflowRowNames, measure: openflowRows },
  { rows: policyRowNames, measure: policyRows },
  { rows: policyVerifyRowNames, measure: policyVerifyRows },
  { rows: simulateRowNames, measure: simulateRows },
  { rows: policyLabRowNames, measure: policyLabRows },
  { rows: clusterPolicyRowNames, measure: clusterPolicyRows },
  { rows: policyNetworksRowNames, measure: policyNetworksRows },
  { rows: policySwitchRowNames, measure: policySwitchRows },
  { rows: flowLogRowNames, measure: ({ print }) => flowLogRows(print) },
  { rows: flowLogLoadRowNames, measure: ({ print }) => flowLogLoadRows(print) },
  { rows: recorderRowNames, measure: ({ print }) => recorderRows(print) },
  { rows: fleetRowNames, measure: fleetRows },
];

/** A node with IPv4 only: for IPv6 the bridge plugin checks every 50 ms whether its addresses can be used, which dominates its time. */
async function plainNode({ selected, print }: SceneOptions): Promise<readonly Measured[]> {
  const rows: Measured[] = [];
  print('a node without Services or peers');
  const lab = await BenchLab.start({ families: families.one });
  try {
    const bench = await startCniBench(lab, selected, print);
    try {
      rows.push(...(await cniRows(bench, selected, print)));
      if (selected('cni.add.svc10k')) rows.push(...(await besideManyServices(lab, bench.ours, { selected, print })));
      if (pipelineRowNames.some(selected)) {
        print('pod to pod through three pipelines');
        rows.push(...(await pipelineRows(lab, bench.ours, selected)));
      }
      if (agentRowNames.some(selected)) {
        print('restarts of the agent');
        rows.push(...(await agentRows(lab, selected)));
      }
      if (selected('agent.rss.busy')) rows.push({ name: 'agent.rss.busy', unit: 'MiB', ours: await busyMemory(lab, bench.ours, 400) });
    } finally {
      await bench.stop();
    }
  } finally {
    await lab.remove();
  }
  return rows;
}

/** ADDs in turn on a node that has 10,000 Services and on one that has none, both with ten pods. */
async function besideManyServices(
  plain: BenchLab,
  without: ReturnType<typeof openOurs>,
  { print }: SceneOptions,
): Promise<readonly Measured[]> {
  print(`a node with ${manyServices} Services`);
  const lab = await BenchLab.start({ families: families.one, cluster: (objects) => addServices(objects, manyServices) });
  try {
    await untilSettled(lab);
    const withServices = openOurs(lab);
    withServices.prepare(lab, 40);
    await withServices.add(10, 4);
    await untilSettled(plain);
    const ours: number[] = [];
    const values: number[] = [];
    for (let run = 0; run < 50; run++) {
      const turns = [
        { side: withServices, into: ours },
        { side: without, into: values },
      ];
      for (const { side, into } of run % 2 === 0 ? turns : turns.toReversed()) {
        const { each } = await side.add(1, 1);
        await side.del(1, 1);
        if (run >= 10) into.push(...each); // warm-up
      }
    }
    print(`  ${await lab.metric('desired_entries', { part: 'bridge' })} entries on its bridge, ${lab.residentMemory().toFixed(0)} MiB`);
    await withServices.stop();
    return [{ name: 'cni.add.svc10k', unit: 'ms', ours, peer: { name: 'seine without Services', values } }];
  } finally {
    await lab.remove();
  }
}

async function nodeOfManyPeers({ selected, print }: SceneOptions): Promise<readonly Measured[]> {
  print(`a node with ${manyNodes} peers`);
  const lab = await BenchLab.start({ families: families.both, cluster: (objects) => addNodes(objects, manyNodes) });
  const rows: Measured[] = [];
  try {
    await untilSettled(lab);
    print(`  ${await lab.metric('desired_entries', { part: 'bridge' })} entries on its bridge`);
    if (selected('agent.rss.nodes5000')) rows.push({ name: 'agent.rss.nodes5000', unit: 'MiB', ours: await restingMemory(lab) });
    if (selected('node.join5000')) rows.push(await joinRow(lab, manyNodes));
  } finally {
    await lab.remove();
  }
  return rows;
}
