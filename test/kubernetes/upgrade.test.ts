import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { labFolderOf } from '../../build/test-run/lab-folder.mjs';
import { packageRoot } from '../../lab/machine/installation.ts';
import { olderOvsImage } from '../runtime/image-builder.ts';
import { until } from '../support/converge-lab.ts';
import { releases } from '../support/releases.ts';
import { setUrgency, urgent } from '../support/urgency.ts';
import { print, RealCluster } from './cluster.ts';
import { NodeHealth } from './node-health.ts';
import { letRunFirst, processesIn, processesNaming } from './node-processes.ts';
import { pod } from './objects.ts';
import { losses, type PolicedCount, PolicedTraffic } from './policed-traffic.ts';
import { agentPods, undo, untilUniform } from './roll-out.ts';
import { applied, releasedVersion, thisVersion, type Version } from './versions.ts';

/*
 * Versions on a real Kubernetes: the last release installed, upgraded to this one and rolled back by the controllers of DaemonSets, in
 * parallel pools, with its Open vSwitch, under 100 Hz on all paths and with policies in force. One sequence: each part begins where the
 * previous one has ended.
 */

const dir = labFolderOf('upgrade');
const limit = AbortSignal.timeout(5_400_000);
const patienceMs = 240_000;
/** A minute per node and more, in both directions, up to three times. */
const wholeRollOutsMs = 1_800_000;
const conflist = '/etc/cni/net.d/10-seine.conflist';
/** The userspace data path of a busy host loses packets now and then; an upgrade that loses packets always does. */
const triesMax = 3;
const outageMs = 30_000;
/** Processes that must keep up with the traffic on a busy host, besides the switches. */
const controlPlane = ['etcd', 'kube-apiserver', 'kube-scheduler', 'kube-controller-manager'];
const pool = 'tried';
const poolLabel = 'seine.dev/pool';
const ovsPoolLabel = 'seine.dev/ovs-pool';
const olderPool = 'older';
/** Unknown key in an older agent's configuration after a rollback. */
const laterKey = 'keyOfALaterRelease';

let cluster: RealCluster;
let traffic: PolicedTraffic;
let last: Version;
let beforeLast: Version;
let first = '';
let second = '';
let putBack: (() => void) | undefined;

beforeAll(async () => {
  const [newest, older] = releases();
  if (newest === undefined || older === undefined) throw new Error('there are no two releases');
  [last, beforeLast] = [await releasedVersion(newest), await releasedVersion(older)];
  print('a Kubernetes without a network');
  cluster = await RealCluster.up({ dir, nodes: 2, bare: true, families: process.env['SEINE_TEST_FAMILIES'] ?? 'ipv4,ipv6' }, limit);
  [first = '', second = ''] = cluster.nodes;
  await importImages('this', 'last');
  print('images are on the nodes');
  putBack = setUrgency(process.pid, urgent);
}, 2_400_000);
afterAll(async () => {
  putBack?.();
  if (process.env['SEINE_TEST_KEEP'] === undefined) await RealCluster.down(dir, AbortSignal.timeout(300_000));
}, 360_000);

/** Archives of images, as `npm run test:kubernetes` names them. */
const archives = ['this', 'last', 'beforeLast', 'olderOvs'] as const;

async function importImages(...wanted: readonly (typeof archives)[number][]): Promise<void> {
  const files = process.env['SEINE_TEST_IMAGES']?.split(',') ?? [];
  for (const each of wanted) await cluster.importImages(files[archives.indexOf(each)] ?? 'none: npm run test:kubernetes builds them');
}

/** Adds a plugin to the list, and an unknown key to the configuration. */
function withMore(manifest: string): string {
  return manifest
    .replace(/(\n {8}\})(\n {6}\]\n)/, '$1,\n        { "type": "portmap" }$2')
    .replace(/(\n +)(logLevel: )/, `$1${laterKey}: true$1$2`);
}

interface Installed {
  readonly config: string;
  readonly image: string;
  readonly plugins: readonly string[];
}

/** Waits until all nodes run the same configuration, with an image. */
async function untilInstalled(image: string): Promise<Installed> {
  let now: Installed | undefined;
  const asWanted = async () => {
    const [one] = await untilUniform(cluster);
    const lists = new Set(await Promise.all(cluster.nodes.map((node) => cluster.onNode(node, 'cat', conflist))));
    const [list, ...others] = [...lists].map((text) => JSON.parse(text) as { readonly plugins: readonly { readonly type: string }[] });
    if (one === undefined || list === undefined || others.length > 0) return false;
    now = { config: one.config, image: one.image, plugins: list.plugins.map(({ type }) => type) };
    return now.image === image;
  };
  await until(asWanted, patienceMs, () => `all nodes have ${JSON.stringify(now)}`);
  if (now === undefined) throw new Error('no node has anything');
  return now;
}

/** Waits until the agent of a node has an image, and is ready. */
async function untilRuns(node: string, image: string): Promise<void> {
  const runs = async () => (await agentPods(cluster)).some((each) => each.node === node && each.image === image && each.ready);
  await until(runs, patienceMs, () => `the agent of ${node} is not ready with ${image}`);
}

async function onAgent(node: string, ...command: readonly string[]): Promise<string> {
  return await cluster.kubectl('-n', 'seine-system', 'exec', await agentOf(node), '-c', 'agent', '--', ...command);
}

async function agentOf(node: string): Promise<string> {
  const found = (await agentPods(cluster)).find((each) => each.node === node);
  if (found === undefined) throw new Error(`${node} has no agent`);
  return found.name;
}

const passedOf = ({ denied }: PolicedCount): readonly string[] => Object.keys(denied.arrived);

/** Waits until no agent is in its first minute: the controller counts those as unavailable, and replaces them all at once. */
async function untilAvailable(): Promise<void> {
  const agents = ['-l', 'app.kubernetes.io/name=seine-agent'];
  await cluster.kubectl('-n', 'seine-system', 'rollout', 'status', 'daemonset', ...agents, `--timeout=${patienceMs / 1_000}s`);
}

/** Executes steps that must lose no packet; real losses recur each time. Denied packets must never pass. */
async function losesNothing(steps: Readonly<Record<string, () => Promise<void>>>): Promise<void> {
  const pending = new Set(Object.keys(steps));
  for (let tries = 1; pending.size > 0; tries += 1)
    for (const [name, step] of Object.entries(steps)) {
      await untilAvailable();
      const counted = await traffic.during(name, step);
      expect(passedOf(counted)).toEqual([]);
      const lost = losses(counted);
      if (lost.length === 0) pending.delete(name);
      else if (tries === triesMax && pending.has(name)) expect(lost).toEqual([]);
    }
}

/** A pod starts on each node, is reached from the other, and policies apply to it as to others with its labels. */
async function newPodsAreServed(): Promise<void> {
  const names = cluster.nodes.map((node) => `late-${node}`);
  await cluster.apply(cluster.nodes.map((node) => pod({ name: `late-${node}`, app: 'echo', nodeName: node, args: ['netexec'] })));
  await cluster.wait(patienceMs / 1_000, '--for=condition=Ready', ...names.map((name) => `pod/${name}`));
  const asked = async (from: string, ip: string) =>
    (
      await cluster.kubectlAnyway('exec', from, '--', 'curl', '-gs', '-m', '3', `http://${ip.includes(':') ? `[${ip}]` : ip}:8080/hostname`)
    ).trim();
  for (const name of names)
    for (const ip of (await cluster.pod(name)).ips) {
      await until(
        async () => (await asked('client', ip)) === name,
        patienceMs,
        () => `${name} does not answer at ${ip}`,
      );
      expect(await asked('stranger', ip)).toContain('exit code 28');
    }
  await cluster.kubectl('delete', 'pod', ...names);
}

it('has the last release installed, with policies in force', async () => {
  await applied(cluster, last);
  await cluster.wait(patienceMs / 1_000, '--for=condition=Ready', 'nodes', '--all');
  expect((await untilInstalled(last.agentImage)).plugins).toEqual(['seine']);
  for (const { netns } of cluster.plan.nodes) for (const pid of processesIn(netns, 'ovs-vswitchd')) letRunFirst(pid);
  for (const pid of processesNaming(cluster.plan.dir, controlPlane)) setUrgency(pid, urgent);
  traffic = new PolicedTraffic(cluster);
  await traffic.prepare();
  await traffic.police();
  await newPodsAreServed();
});

it(
  'upgrades to this version and back by the controller, without loss, and admits nothing that is denied',
  async () => {
    const before = await untilInstalled(last.agentImage);
    await losesNothing({
      [`${last.name} to this, image, configuration and plugin list`]: async () => {
        await applied(cluster, thisVersion, { settings: ['policy.ruleMetrics=true'], edit: withMore });
        expect((await untilInstalled(thisVersion.agentImage)).plugins).toEqual(['seine', 'portmap']);
      },
      [`this to ${last.name}, by rollout undo`]: async () => {
        for (const node of cluster.nodes) expect(await onAgent(node, 'seinectl', 'status')).toContain(laterKey);
        await undo(cluster);
        expect(await untilInstalled(last.agentImage)).toEqual(before);
      },
    });
    await newPodsAreServed();
  },
  wholeRollOutsMs,
);

it(
  'stops at one node while the API server is away meanwhile, and continues',
  async () => {
    let upgraded = false;
    await losesNothing({
      'the API server away in the midst of a roll-out': async () => {
        const before = new Set((await agentPods(cluster)).map(({ name }) => name));
        // The next try finds agents of this version.
        if (upgraded) await cluster.type('kubectl -n seine-system rollout restart daemonset/seine-agent');
        else await applied(cluster, thisVersion);
        upgraded = true;
        // Replaced ones may still be listed.
        const replaced = async () => (await agentPods(cluster)).filter(({ name }) => !before.has(name));
        await until(
          async () => (await replaced()).length > 0,
          patienceMs,
          () => 'no agent is replaced',
        );
        await cluster.lab('apiserver', 'stop');
        print('the API server is away');
        await new Promise((resolve) => setTimeout(resolve, outageMs));
        await cluster.lab('apiserver', 'start');
        expect(await replaced()).toHaveLength(1);
        await untilAvailable();
        expect(await replaced()).toHaveLength(cluster.nodes.length);
        await untilInstalled(thisVersion.agentImage);
      },
    });
  },
  wholeRollOutsMs,
);

it(
  'has nodes of two earlier releases in a pool with its own settings, all of which reach each other',
  async () => {
    await importImages('beforeLast');
    await applied(cluster, beforeLast, { pool, settings: ['logLevel=debug', 'proxy.bucketTranslation=false'], edit: withMore });
    await losesNothing({
      [`${second} goes into a pool of ${beforeLast.name}`]: async () => {
        await cluster.type(`kubectl label node ${second} ${poolLabel}=${pool}`);
        await untilRuns(second, beforeLast.agentImage);
      },
      [`${second} comes back`]: async () => {
        await cluster.type(`kubectl label node ${second} ${poolLabel}-`);
        await untilRuns(second, thisVersion.agentImage);
      },
    });
    await cluster.type(`kubectl label node ${second} ${poolLabel}=${pool}`);
    await untilRuns(second, beforeLast.agentImage);
    expect(await onAgent(second, 'seinectl', 'status')).toContain(laterKey);
    const fleet = await cluster.type(`${process.execPath} ${join(packageRoot, 'bin', 'seinectl.mjs')} cluster versions || test $? -eq 1`);
    expect(fleet).toContain(beforeLast.name);
    await newPodsAreServed();
    const counted = await traffic.during(`this beside ${beforeLast.name}`, async () => {
      await cluster.kubectl('delete', 'pod', '-n', 'seine-system', await agentOf(first), await agentOf(second));
      await untilRuns(first, thisVersion.agentImage);
      await untilRuns(second, beforeLast.agentImage);
    });
    expect(passedOf(counted)).toEqual([]);
    await cluster.type(`kubectl label node ${second} ${poolLabel}-`);
    await untilRuns(second, thisVersion.agentImage);
    await cluster.kubectl('-n', 'seine-system', 'delete', 'daemonset', `seine-agent-${pool}`);
  },
  wholeRollOutsMs,
);

/** Deletes the pod of Open vSwitch of a node, and waits for its replacement. */
async function replaceOvs(node: string): Promise<void> {
  const old = await cluster.podOf('seine-ovs', node);
  await cluster.kubectl('-n', 'seine-system', 'delete', old);
  let now = '';
  const comes = async () => {
    now = await cluster.podOf('seine-ovs', node);
    return /^pod\/\S+$/.test(now) && now !== old;
  };
  await until(comes, patienceMs, () => `no other pod of Open vSwitch comes: ${now}`);
  await cluster.wait(patienceMs / 1_000, '--for=condition=Ready', '-n', 'seine-system', now);
}

it(
  'replaces Open vSwitch when its pods are deleted, and not before',
  async () => {
    const ovsImages = async () => {
      const path = 'jsonpath={.items[*].spec.containers[0].image}';
      const said = await cluster.kubectl('-n', 'seine-system', 'get', 'pods', '-l', 'app.kubernetes.io/name=seine-ovs', '-o', path);
      return [...new Set(said.split(' '))];
    };
    expect(await ovsImages()).toEqual([last.ovsImage]);
    let running = last;
    for (const version of [thisVersion, last, thisVersion]) {
      await cluster.type(`kubectl -n seine-system set image daemonset/seine-ovs ovs=${version.ovsImage}`);
      expect(await ovsImages()).toEqual([running.ovsImage]);
      for (const node of cluster.nodes) {
        const counted = await traffic.during(`Open vSwitch of ${node} to that of ${version.name}`, async () => await replaceOvs(node));
        expect(passedOf(counted)).toEqual([]);
        // Conntrack is empty then: a connection through a Service may reach its other endpoint, and end.
        expect(counted.allowed.broken).toBeLessThanOrEqual(traffic.streamsByService);
      }
      running = version;
      expect(await ovsImages()).toEqual([running.ovsImage]);
    }
    await untilUniform(cluster);
    await newPodsAreServed();
  },
  wholeRollOutsMs,
);

/** Version that the API server reads from the node's own kubelet, by TCP to the node. */
async function ovsVersion(node: string): Promise<string> {
  const ovs = await cluster.podOf('seine-ovs', node);
  return await cluster.kubectlAnyway('-n', 'seine-system', 'exec', ovs, '-c', 'ovs', '--', 'ovs-vswitchd', '--version');
}

it(
  'has a node with another Open vSwitch in a pool, and returns it',
  async () => {
    await importImages('olderOvs');
    await applied(cluster, thisVersion, { pool: olderPool, poolOvs: olderOvsImage });
    for (const [value, version] of [
      [`=${olderPool}`, ' 3.1.'],
      ['-', ' 3.5.'],
    ] as const) {
      const counted = await traffic.during(`Open vSwitch${version} on ${second}`, async () => {
        await cluster.type(`kubectl label node ${second} ${poolLabel}${value} ${ovsPoolLabel}${value}`);
        let said = '';
        const runs = async () => {
          said = await ovsVersion(second);
          return said.includes(version);
        };
        await until(runs, patienceMs, () => said);
        await untilRuns(second, thisVersion.agentImage);
      });
      expect(passedOf(counted)).toEqual([]);
      expect(await ovsVersion(first)).toContain(' 3.5.');
      await newPodsAreServed();
    }
    await cluster.kubectl('-n', 'seine-system', 'delete', 'daemonset', `seine-agent-${olderPool}`, `seine-ovs-${olderPool}`);
  },
  wholeRollOutsMs,
);

it(
  'reports to load balancers whether a node forwards, and not while it is about to be deleted',
  async () => {
    const health = new NodeHealth(cluster, second);
    await health.until(200);
    await cluster.kubectl('cordon', second);
    expect(await health.asked()).toMatchObject({ healthz: 200, livez: 200, nodeEligible: true });
    await cluster.kubectl('uncordon', second);
    await health.whileGoing();
    await health.whileSwitchIsAway();
    await health.whileDeleted();
  },
  wholeRollOutsMs,
);
