import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { nodePaths } from '../../lab/plan/names.ts';
import { until } from '../support/converge-lab.ts';
import { holdingsOf } from '../support/node-holdings.ts';
import type { RuntimeLab } from './runtime-lab.ts';

/** Their number varies; those of pods are counted as interfaces and named among the ports. */
const standingPort = /^sp-\d+/;

/** Everything that pods can leave on a lab's first node, in order. Counters, ages and addresses in quarantine are excluded. */
export async function contentsOf(runtimes: RuntimeLab): Promise<Readonly<Record<string, unknown>>> {
  const { lab } = runtimes;
  const lines = async (command: string, ...args: readonly string[]) => (await lab.exec(1, command, ...args)).trim().split('\n').toSorted();
  const { interfaces, ports, leases } = await holdingsOf(lab);
  const place = runtimes.place(1);
  return {
    interfaces,
    ports,
    leases,
    ofPorts: Object.entries(await lab.ofPorts(1)).filter(([name]) => !standingPort.test(name)),
    flows: (await lab.flows(1)).map(({ text }) => text),
    groups: await lab.groups(1),
    meters: (await lines('ovs-ofctl', '-O', 'OpenFlow15', 'dump-meters', 'br-int')).slice(1),
    links: (await lines('ip', '-br', 'link')).map((line) => line.split(/\s/)[0] ?? '').filter((name) => !standingPort.test(name)),
    routes: [
      ...(await lines('ip', '-4', 'route', 'show', 'table', 'all')),
      // The kernel adds those of link-local addresses after duplicate address detection, seconds after their interface is up.
      ...(await lines('ip', '-6', 'route', 'show', 'table', 'all')).filter((route) => !/ fe80:|^fe80:/.test(route)),
    ],
    rules: [...(await lines('ip', 'rule')), ...(await lines('ip', '-6', 'rule'))],
    hostPorts: [...(await lines('iptables', '-t', 'nat', '-S')), ...(await lines('ip6tables', '-t', 'nat', '-S'))].filter((line) =>
      /-A CNI-DN-/.test(line),
    ),
    results: entries(place.path('/var/lib/cni/results')),
    deletions: entries(join(nodePaths(lab.plan.dir, lab.node(1).name).stateDir, 'deletions')),
    sandboxFolders: entries(place.path('/run/containerd/io.containerd.runtime.v2.task/k8s.io')),
  };
}

/**
 * Like `contentsOf`, once nothing of deleted pods is still being removed: interfaces above pre-plugged ports are deleted after their DELs.
 */
export async function contentsAtRest(runtimes: RuntimeLab): Promise<Readonly<Record<string, unknown>>> {
  const isAtRest = async (): Promise<boolean> => {
    const { interfaces, ports } = await holdingsOf(runtimes.lab);
    return interfaces === ports.length;
  };
  await until(isAtRest, 10_000, () => 'interfaces of pods that are gone stay');
  return await contentsOf(runtimes);
}

const entries = (folder: string): readonly string[] => (existsSync(folder) ? readdirSync(folder).toSorted() : []);
