import { untilSettled } from './agent-rows.ts';
import { BenchLab } from './bench-lab.ts';
import { cniRowNames, cniRows, startCniBench } from './cni-rows.ts';
import type { BenchPod } from './cni-side.ts';
import { makeNamespace, podObject, pods, policies, policyObject, post } from './policed-lab.ts';
import type { Measured } from './row.ts';
import type { SceneOptions } from './scenes.ts';

const manyPolicies = 1_000;
/** Kinds of pods: each is selected by the same number of policies, and by none of the others'. */
const kinds = 10;
const prefix = `policies${manyPolicies}.`;

/** Rows that are the same with and without policies. */
const isUnconcerned = (name: string): boolean => name === 'plugin.version';

export const policedNodeRowNames = cniRowNames.filter((name) => !isUnconcerned(name)).map((name) => `${prefix}${name}`);

/**
 * The rows of a pod's start, on a node whose pods have a thousand policies: a hundred each, both directions, of a class that other pods of
 * the node have too.
 */
export async function policedNode({ selected, print }: SceneOptions): Promise<readonly Measured[]> {
  print(`a node with ${manyPolicies} policies`);
  const isWanted = (name: string): boolean => !isUnconcerned(name) && selected(`${prefix}${name}`);
  const lab = await BenchLab.start({ families: ['ipv4'] });
  try {
    const bench = await startCniBench(lab, isWanted, print, (each) => makePolicies(lab, each));
    try {
      const rows = await cniRows(bench, isWanted, print);
      print(`  ${await lab.metric('desired_entries', { part: 'bridge' })} entries on its bridge`);
      return rows.map((row) => ({ ...row, name: `${prefix}${row.name}` }));
    } finally {
      await bench.stop();
    }
  } finally {
    await lab.remove();
  }
}

async function makePolicies(lab: BenchLab, each: readonly BenchPod[]): Promise<void> {
  await makeNamespace(lab);
  for (const [at, pod] of each.entries()) await post(lab, pods, podObject(lab, pod, { kind: `${at % kinds}` }));
  for (let at = 0; at < manyPolicies; at++) await post(lab, policies, policyObject(`many-${at}`, { kind: `${at % kinds}` }, [10_000 + at]));
  await untilSettled(lab);
}
