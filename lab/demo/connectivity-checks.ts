import type { Family } from '../../src/base/net/ip.ts';
import type { PodStatusLine } from '../daemon/status.ts';
import { download, upload } from '../probe/probe.ts';
import {
  addressOf,
  type DemoCheck,
  type DemoLab,
  demoPod,
  meshPods,
  nodeOfPod,
  ofFamily,
  outcomeText,
  type Trial,
  tryAll,
  type Verdict,
} from './scene.ts';
import { hostPort, podPort } from './workload.ts';

const megabyte = 1_048_576;
const transferTimeoutMs = 20_000;

/** Everything without a Service, for one family. */
export function connectivityChecks(scene: DemoLab, family: Family): DemoCheck[] {
  const several = scene.plan.nodes.length > 1;
  const check = (name: string, trials: () => Trial[]): DemoCheck => ({ name: `${name}.${family}`, run: () => tryAll(trials()) });
  const transfer = (name: string, run: (from: PodStatusLine, to: string) => Promise<Verdict>): DemoCheck => ({
    name: `${name}.${family}`,
    run: () => run(demoPod(scene, 'client', 1), ofFamily(demoPod(scene, 'web', several ? 2 : 1).ips, family)),
  });
  return [
    check('pod-pod.same-node', () => podPairs(scene, family, (a, b) => a.node === b.node)),
    ...(several ? [check('pod-pod.cross-node', () => crossNodeTrials(scene, family))] : []),
    check('pod-host', () => podAndItsHost(scene, family)),
    ...(several ? [check('host-remote-pod', () => hostsAndRemotePods(scene, family))] : []),
    check('pod-outside', () => podsAndOutside(scene, family)),
    transfer('tcp-1mb', carryMegabyte),
    transfer('udp-4000', carryLargeDatagram),
  ];
}

/** Returns exchanges of packets between pods of different nodes. */
export function crossNodeTrials(scene: DemoLab, family: Family): Trial[] {
  return podPairs(scene, family, (a, b) => a.node !== b.node);
}

/** Checks that a pod is seen by its own address: nothing translates between pods. */
function podPairs(scene: DemoLab, family: Family, wanted: (a: PodStatusLine, b: PodStatusLine) => boolean): Trial[] {
  const pods = meshPods(scene);
  const pairs = pods.flatMap((from) => pods.filter((to) => to !== from && wanted(from, to)).map((to) => ({ from, to })));
  return pairs.map(({ from, to }) => ({
    label: `${from.name} → ${to.name}`,
    probe: { from: from.netns, address: ofFamily(to.ips, family), port: podPort },
    wrong: ({ pod, client }) => notFrom(to, pod) ?? notAs(ofFamily(from.ips, family), client),
  }));
}

/** Checks both directions: the pod to its node, and the node to its pod, as kubelet probes do. */
function podAndItsHost(scene: DemoLab, family: Family): Trial[] {
  return meshPods(scene).flatMap((pod) => {
    const node = nodeOfPod(scene, pod);
    return [
      { label: `${pod.name} → ${node.name}`, probe: { from: pod.netns, address: ofFamily(node.ips, family), port: hostPort } },
      {
        label: `${node.name} → ${pod.name}`,
        probe: { from: node.netns, address: ofFamily(pod.ips, family), port: podPort },
        wrong: (answer) => notFrom(pod, answer.pod),
      },
    ] satisfies Trial[];
  });
}

function hostsAndRemotePods(scene: DemoLab, family: Family): Trial[] {
  return scene.plan.nodes.flatMap((node) =>
    meshPods(scene)
      .filter((pod) => pod.node !== node.name)
      .map((pod) => ({
        label: `${node.name} → ${pod.name}`,
        probe: { from: node.netns, address: ofFamily(pod.ips, family), port: podPort },
        wrong: (answer) => notFrom(pod, answer.pod),
      })),
  );
}

/** Checks that external servers see the node's address as the source of pods. */
function podsAndOutside(scene: DemoLab, family: Family): Trial[] {
  return meshPods(scene).map((pod) => ({
    label: `${pod.name} → outside`,
    probe: { from: pod.netns, address: ofFamily(scene.plan.external.outside, family), port: 80 },
    wrong: ({ client }) => notAs(ofFamily(nodeOfPod(scene, pod).ips, family), client),
  }));
}

async function carryMegabyte(from: PodStatusLine, to: string): Promise<Verdict> {
  const probe = { from: from.netns, protocol: 'tcp', address: to, port: podPort, timeoutMs: transferTimeoutMs } as const;
  const there = await upload(probe, megabyte);
  if (there.is !== 'OK') return { ok: false, detail: outcomeText(there) };
  const start = performance.now();
  const back = await download(probe, megabyte);
  const backMs = Math.round(performance.now() - start);
  return { ok: back === megabyte, detail: `there in ${there.ms} ms, ${back} bytes back in ${backMs} ms` };
}

/** Sends it in fragments; the answer is padded to the same size, so it is fragmented as well. */
async function carryLargeDatagram(from: PodStatusLine, to: string): Promise<Verdict> {
  const probe = { from: from.netns, protocol: 'udp', address: to, port: podPort, timeoutMs: transferTimeoutMs } as const;
  const outcome = await upload(probe, 4_000);
  return { ok: outcome.is === 'OK', detail: outcome.is === 'OK' ? `there and back in ${outcome.ms} ms` : outcomeText(outcome) };
}

function notFrom(wanted: PodStatusLine, answered: string): string | undefined {
  return answered === `${wanted.namespace}/${wanted.name}` ? undefined : `${answered} answered`;
}

function notAs(wanted: string, client: string): string | undefined {
  return addressOf(client) === wanted ? undefined : `seen as ${addressOf(client)}, not as ${wanted}`;
}
