import { setTimeout as sleep } from 'node:timers/promises';
import { runIn } from './host.ts';
import type { Lab, LabPod } from './lab.ts';
import { extrasOf } from './pod-extras.ts';
import type { Scene } from './scene.ts';

const pollMs = 200;
/** A lost SYN is retransmitted after a second. */
const answerSeconds = '3';

/**
 * Reports which pods do not reach each other, in both families, by new connections: from one of each node to every other pod, and to its
 * host port. Only without policies, because their verdicts are not computed here.
 *
 * @returns what is not reached, after all this time
 */
export async function probe(scene: Scene, withinMs: number): Promise<readonly string[]> {
  await scene.look();
  if (scene.policies.length > 0) return [];
  const { lab, pods } = scene;
  const sources = [lab.tried.name, lab.other.name].flatMap(
    (node) => pods.find((pod) => pod.node === node && pod.name.startsWith('cli-')) ?? [],
  );
  const startedMs = performance.now();
  for (;;) {
    const over = performance.now() - startedMs >= withinMs;
    const missed = (await Promise.all(sources.map((from) => unanswered(from, pods, lab)))).flat();
    if (missed.length === 0 || over) return missed;
    await sleep(pollMs);
  }
}

async function unanswered(from: LabPod, pods: readonly LabPod[], lab: Lab): Promise<string[]> {
  const others = pods.filter(({ containerID }) => containerID !== from.containerID);
  const urls = others.flatMap((pod) => [...pod.ips.map((ip) => `http://${hostOf(ip)}/`), ...hostPortUrls(pod, lab)]);
  const each = urls.flatMap((url) => ['-o', '/dev/null', url]);
  // If one does not answer, it exits with an error after the report of each.
  const command = `curl -gsZ -m ${answerSeconds} -w '%{http_code} %{url}\\n' "$@"; true`;
  const output = await runIn(from.netns, 'sh', ['-c', command, 'sh', ...each]);
  const answered = new Set(output.split('\n').flatMap((line) => (line.startsWith('200 ') ? [line.slice(4)] : [])));
  return urls.filter((url) => !answered.has(url)).map((url) => `from ${from.namespace}/${from.name} to ${url}: no answer`);
}

const hostOf = (ip: string): string => (ip.includes(':') ? `[${ip}]` : ip);

/** The host port of a pod, on each address of its node. */
function hostPortUrls(pod: LabPod, { tried, other }: Lab): readonly string[] {
  const { hostPort } = extrasOf(pod);
  const node = [tried, other].find(({ name }) => name === pod.node);
  return hostPort === undefined ? [] : (node?.ip ?? []).map((ip) => `http://${hostOf(ip)}:${hostPort}/`);
}
