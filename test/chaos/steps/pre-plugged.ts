import { runIn } from '../host.ts';
import type { Random } from '../random.ts';
import type { Scene } from '../scene.ts';
import { nothingThere, type StepKind } from '../step.ts';
import { faultStep } from './host.ts';

/** The far end of a pre-plugged port, in use or free. */
function far(name: string, words: (link: string) => readonly string[]): StepKind {
  return faultStep(`far.${name}`, 'links', 'swept', async ({ lab }, random) => {
    const links = JSON.parse(await lab.onPorts('ip', '-j', 'link', 'show', 'type', 'veth')) as { ifname: string }[];
    const link = random.maybe(links.map(({ ifname }) => ifname).toSorted());
    if (link === undefined) return nothingThere;
    await lab.onPorts('ip', 'link', ...words(link));
    return link;
  });
}

/** The interface inside a pod. */
function inside(name: string, words: readonly string[]): StepKind {
  return faultStep(`inside.${name}`, 'links', 'swept', async (scene: Scene, random: Random) => {
    const pods = (await scene.lab.pods()).toSorted((one, other) => (one.netns < other.netns ? -1 : 1));
    const pod = random.maybe(pods);
    if (pod === undefined) return nothingThere;
    await runIn(pod.netns, 'ip', ['link', ...words]);
    return `${pod.namespace}/${pod.name}`;
  });
}

/** Steps for runs with pre-plugged ports only. */
export const standingSteps: readonly StepKind[] = [
  far('deleted', (link) => ['delete', link]),
  far('down', (link) => ['set', link, 'down']),
  // Below 1280 the kernel would remove the pod's IPv6 addresses: its macvlan has at most the MTU of its lower device.
  far('mtu', (link) => ['set', link, 'mtu', '1300']),
  far('alias', (link) => ['set', link, 'alias', 'chaos']),
  inside('deleted', ['delete', 'eth0']),
  inside('down', ['set', 'eth0', 'down']),
  inside('mac', ['set', 'eth0', 'address', '0e:00:00:00:99:98']),
];
