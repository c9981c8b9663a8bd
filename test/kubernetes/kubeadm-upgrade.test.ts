import { afterAll, beforeAll, expect, it } from 'vitest';
import { packageVersion } from '../../build/release/record.ts';
import { until } from '../support/converge-lab.ts';
import { releases } from '../support/releases.ts';
import { print, type RealCluster } from './cluster.ts';
import { KubeadmScene, labValues, type SeineImages } from './kubeadm/scene.ts';
import { upgradeKubernetes } from './kubeadm/upgrade.ts';
import { commandOf } from './page-commands.ts';
import { untilUniform } from './roll-out.ts';
import { type Cost, TrafficCourse } from './under-traffic.ts';
import { applied, releasedVersion, thisVersion, type Version } from './versions.ts';

/*
 * Upgrades of a cluster that kubeadm made, under traffic: Seine from the last release to this version and back, from a registry, with `kubectl apply` and
 * with Helm; then Kubernetes from the minor version before.
 */

const name = 'kubeadm-upgrade';
const limit = AbortSignal.timeout(3_600_000);
const patienceMs = 240_000;
const longMs = 1_500_000;
/** The userspace data path of a busy host drops a packet now and then; an upgrade that drops packets does so each time. */
const triesMax = 3;

let scene: KubeadmScene;
let cluster: RealCluster;
let traffic: TrafficCourse;
let last: Version;
let current: Version;

beforeAll(async () => {
  const [newest] = releases();
  if (newest === undefined) throw new Error('there is no release');
  scene = await KubeadmScene.up({ name, nodes: 2, version: 'before' }, limit);
  ({ cluster } = scene);
  const byDigest = ({ agent, ovs }: SeineImages) => ({
    agentImage: scene.registry.byDigest(agent),
    ovsImage: scene.registry.byDigest(ovs),
  });
  current = { ...thisVersion, ...byDigest(await scene.pushSeine()) };
  last = { ...(await releasedVersion(newest)), ...byDigest(await scene.pushSeine(newest.version)) };
}, 900_000);
afterAll(async () => await KubeadmScene.down(name), 360_000);

const lostOf = ({ udpLost, connectsFailed, broken }: Cost) => ({ udpLost, connectsFailed, broken });
const nothing = { udpLost: 0, connectsFailed: 0, broken: 0 };

/** Until all nodes run an image, and the rollout is complete. */
async function untilRuns({ agentImage }: Version): Promise<void> {
  const runs = async () => (await untilUniform(cluster)).every(({ image }) => image === agentImage);
  await until(runs, patienceMs, () => `not all agents are ${agentImage}`);
  await cluster.kubectl('-n', 'seine-system', 'rollout', 'status', 'daemonset/seine-agent', `--timeout=${patienceMs / 1_000}s`);
}

/** Runs steps under traffic, in turn, until each has lost nothing once. */
async function loseNothing(steps: Readonly<Record<string, () => Promise<void>>>): Promise<void> {
  const pending = new Set(Object.keys(steps));
  for (let tries = 1; pending.size > 0; tries += 1)
    for (const [step, work] of Object.entries(steps)) {
      const lost = lostOf(await traffic.during(step, work));
      if (JSON.stringify(lost) === JSON.stringify(nothing)) pending.delete(step);
      else if (tries === triesMax && pending.has(step)) expect(lost).toEqual(nothing);
    }
}

it('creates a cluster of the version before, with the last release of Seine from the registry', async () => {
  await scene.create(scene.programs.before);
  await applied(cluster, last);
  await cluster.wait(patienceMs / 1_000, '--for=condition=Ready', 'nodes', '--all');
  await untilRuns(last);
  traffic = new TrafficCourse(cluster);
  await traffic.prepare();
  print(`Kubernetes ${scene.programs.before.version}, Seine ${last.name}`);
});

it('upgrades Seine with kubectl apply and goes back, without loss', { timeout: longMs }, async () => {
  await loseNothing({
    [`kubectl apply of this version over ${last.name}`]: async () => {
      await applied(cluster, current);
      await untilRuns(current);
    },
    [`kubectl apply of ${last.name} over this version`]: async () => {
      await applied(cluster, last);
      await untilRuns(last);
    },
  });
});

const helmPage = 'docs/installation/helm.md';
/** The chart of the checkout has the version of the last release until a release raises it. */
const thisChart = `${packageVersion()}-this`;
const imagesIn = ({ agentImage, ovsImage }: Version) => `--set agentImage=${agentImage} --set ovsImage=${ovsImage}`;

it('is taken over by Helm from kubectl apply, under traffic', { timeout: longMs }, async () => {
  await scene.pushChart(last.checkout, last.name);
  await scene.pushChart(current.checkout, thisChart);
  const takeOver = commandOf(helmPage, 'Take over an installation with the manifest', 'helm install').replace('VERSION', last.name);
  const { connectsFailed, broken } = await traffic.during('helm install --take-ownership', async () => {
    await scene.helm(`${takeOver} ${imagesIn(last)} ${labValues}`);
    await untilRuns(last);
  });
  expect([connectsFailed, broken]).toEqual([0, 0]);
});

it('upgrades Seine with Helm from the registry and goes back, without loss', { timeout: longMs }, async () => {
  const heading = 'Upgrade to another version';
  const upgrade = commandOf(helmPage, heading, 'helm upgrade').replace('VERSION', thisChart);
  await loseNothing({
    [`helm upgrade from ${last.name} to this version`]: async () => {
      await scene.helm(`${upgrade} ${imagesIn(current)} --force-conflicts`); // `kubectl apply` owns fields too
      await untilRuns(current);
    },
    [`helm rollback to ${last.name}`]: async () => {
      await scene.helm(commandOf(helmPage, heading, 'helm rollback'));
      await untilRuns(last);
    },
  });
});

it('upgrades Kubernetes with kubeadm, and Services and pods keep working', { timeout: longMs }, async () => {
  const cost = await traffic.during('kubeadm upgrade', async () => await upgradeKubernetes(scene, limit));
  expect(lostOf(cost)).toEqual(nothing);
  const versions = await cluster.kubectl('get', 'nodes', '-o', 'jsonpath={.items[*].status.nodeInfo.kubeletVersion}');
  expect(versions).toBe(`v${scene.programs.current.version} v${scene.programs.current.version}`);
  expect(await cluster.kubectlAnyway('-n', 'kube-system', 'get', 'daemonset', 'kube-proxy')).toContain('not found');
});
