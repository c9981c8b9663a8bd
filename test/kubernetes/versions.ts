import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { packageRoot } from '../../lab/machine/installation.ts';
import { agentImage, imagesOfRelease, ovsImage } from '../runtime/image-builder.ts';
import { builtRelease, type Release } from '../support/releases.ts';
import type { RealCluster } from './cluster.ts';

/** An installable version: its images, which are on the nodes, and its own renderer. */
export interface Version {
  readonly name: string;
  readonly agentImage: string;
  readonly ovsImage: string;
  readonly checkout: string;
}

/** The checkout. */
export const thisVersion: Version = { name: 'this', agentImage, ovsImage, checkout: packageRoot };

/** Builds the programs of a release that run outside of its images. */
export async function releasedVersion(release: Release): Promise<Version> {
  const { agent, ovs } = imagesOfRelease(release.version);
  const { folder } = await builtRelease(release);
  return { name: release.version, agentImage: agent, ovsImage: ovs, checkout: folder };
}

interface Rendering {
  /** Its pool; all nodes without a pool if absent. */
  readonly pool?: string;
  /** The pool's own Open vSwitch. */
  readonly poolOvs?: string;
  /** `KEY=VALUE` of the agent's configuration. */
  readonly settings?: readonly string[];
  /** Edits the manifest, like another program that has rendered it; the ConfigMap gets another name then. */
  readonly edit?: (manifest: string) => string;
}

/** Renders the manifest of a version with its own renderer, with the options that an administrator keeps. @returns the manifest */
async function rendered(cluster: RealCluster, version: Version, { pool, poolOvs, settings = [], edit }: Rendering = {}): Promise<string> {
  const server = new URL(cluster.plan.management.apiServerUrl).hostname;
  const ovs = pool === undefined ? version.ovsImage : poolOvs;
  const whose = pool === undefined ? [] : ['--pool', pool, ...(poolOvs === undefined ? [] : ['--pool-ovs'])];
  const images = ['--agent-image', version.agentImage, ...(ovs === undefined ? [] : ['--ovs-image', ovs]), ...whose];
  // Packets pass a bridge that has the node's address, and no kernel's data path.
  const node = ['--datapath', 'netdev', '--api-server', `https://${server}:6443`];
  const set = ['transportInterface=br-phy', ...settings].flatMap((each) => ['--set', each]);
  const render = `${process.execPath} ${join(version.checkout, 'build', 'manifests', 'render.ts')}`;
  const manifest = await cluster.type(`${render} ${[...images, ...node, ...set].join(' ')}`);
  return edit === undefined ? manifest : edit(manifest).replaceAll(/(seine-config(?:-[a-z]+)?)-[0-9a-f]{10}/g, '$1-edited');
}

/** Applies the manifest of a version, like an administrator. @param file its name in the administrator's folder */
export async function applied(cluster: RealCluster, version: Version, rendering: Rendering = {}): Promise<void> {
  const file = `${['seine', rendering.pool, version.name].filter((part) => part !== undefined).join('-')}.yaml`;
  writeFileSync(join(cluster.folder, file), await rendered(cluster, version, rendering));
  await cluster.type(`kubectl apply -f ${file}`);
}
