import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { run, runIn } from './host.ts';
import type { Lab } from './lab.ts';

/** Attachments made with the plugin, as by a runtime; the kubelet and the API do not know them. */
export interface ByHand {
  readonly containerId: string;
  readonly ifName: string;
  readonly netns: string;
}

/** A namespace for attachments by hand. @returns deletes it */
export async function handNamespace(lab: Lab): Promise<{ readonly netns: string; readonly remove: () => Promise<unknown> }> {
  const netns = `${lab.tried.netns}-hand`;
  await run('ip', ['netns', 'add', netns]);
  return { netns, remove: () => run('ip', ['netns', 'delete', netns]) };
}

/** @throws Error with the plugin's answer */
export async function plugin(lab: Lab, command: 'ADD' | 'DEL', { containerId, ifName, netns }: ByHand): Promise<string> {
  const list = JSON.parse(readFileSync(lab.tried.cniConf, 'utf8')) as { name: string; cniVersion: string; plugins: object[] };
  const input = JSON.stringify({ ...list.plugins[0], name: list.name, cniVersion: list.cniVersion });
  const args = { IgnoreUnknown: '1', K8S_POD_NAMESPACE: 'shop', K8S_POD_NAME: containerId, K8S_POD_INFRA_CONTAINER_ID: containerId };
  const env = {
    CNI_COMMAND: command,
    CNI_CONTAINERID: containerId,
    CNI_NETNS: `/run/netns/${netns}`,
    CNI_IFNAME: ifName,
    CNI_PATH: join(lab.dir, 'bin'),
    CNI_ARGS: Object.entries(args)
      .map(([key, value]) => `${key}=${value}`)
      .join(';'),
  };
  return await runIn(lab.tried.netns, join(lab.dir, 'bin', 'seine'), [], { input, env });
}
