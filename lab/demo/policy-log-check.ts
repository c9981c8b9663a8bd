import { readFileSync } from 'node:fs';
import type { Family } from '../../src/base/net/ip.ts';
import { nodePaths } from '../plan/names.ts';
import { ask } from '../probe/probe.ts';
import { guardedNamespace, guardedPod } from './guarded.ts';
import { type DemoLab, demoPod, eventually, nodeOfPod, ofFamily, type Verdict } from './scene.ts';
import { podPort } from './workload.ts';

/** A denial is seen as no answer for this time (ms). */
const deniedMs = 700;

/** Checks that a denied connection is in the log of the agent that denied it, with the policies and the missing rule. */
export async function deniedLine(scene: DemoLab, family: Family): Promise<Verdict> {
  const name = `${guardedNamespace}/${guardedPod}`;
  const target = scene.status.pods.find((pod) => `${pod.namespace}/${pod.name}` === name);
  if (!target) return { ok: false, detail: `${name} does not run` };
  const from = demoPod(scene, 'web', scene.plan.nodes.length);
  const { agentLog } = nodePaths(scene.plan.dir, nodeOfPod(scene, target).name);
  return await eventually(async () => {
    await ask({ from: from.netns, address: ofFamily(target.ips, family), protocol: 'tcp', port: podPort, timeoutMs: deniedMs });
    const line = linesOf(agentLog).findLast(
      ({ pod, peerAddress, port }) => pod === name && peerAddress === ofFamily(from.ips, family) && port === podPort,
    );
    if (!line) return { ok: false, detail: `no line of the log tells that ${from.name} was refused` };
    const { verdict, peer, policies, why } = line;
    const isRight =
      verdict === 'denied' &&
      peer === `${from.namespace}/${from.name}` &&
      JSON.stringify(policies).includes(`${guardedNamespace}/deny-all`);
    return { ok: isRight, detail: `${peer} ${verdict}: ${JSON.stringify(policies)}, ${why}` };
  });
}

function linesOf(file: string): readonly Readonly<Record<string, unknown>>[] {
  const lines = readFileSync(file, 'utf8').split('\n');
  return lines.flatMap((line) => {
    try {
      return line.includes('"NetworkPolicy denied"') ? [JSON.parse(line) as Record<string, unknown>] : [];
    } catch {
      return []; // the last line is being written
    }
  });
}
