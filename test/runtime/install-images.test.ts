import { copyFileSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { DaemonSet } from 'kubernetes-types/apps/v1.d.ts';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { parseDocument } from 'yaml';
import { agentGrants, type Grants, ovsGrants } from '../../build/manifests/grants.ts';
import { manifestText, uninstallParts } from '../../build/manifests/manifest.ts';
import { nodePaths } from '../../lab/plan/names.ts';
import type { Finding } from '../../src/api/check.ts';
import { until } from '../support/converge-lab.ts';
import { DaemonSetPod } from './daemon-set-pod.ts';
import { agentImage, buildImages, ovsImage, podman, releaseStorage } from './image-builder.ts';
import { applyManifest, kubectl, manifestOptions, surroundings, takeAwayTheLabsOwn } from './installation.ts';
import type { PodSurroundings } from './pod-grants.ts';
import { type RunningPod, RuntimeLab } from './runtime-lab.ts';
import { askName, inUrl, nameIn, serveName } from './tiny-server.ts';

/*
 * An installation from its manifest: really built images, real containers with the manifest's permissions, on two nodes of a lab, and pods
 * of a real runtime.
 */

const signal = AbortSignal.timeout(900_000);
const nodes = [1, 2] as const;
const published = { protocol: 'tcp', containerPort: 80, hostPort: 8080 } as const;
const patienceMs = 60_000;

let runtimes: RuntimeLab;
const surroundingsOf = new Map<number, PodSurroundings>();
const agents = new Map<number, DaemonSetPod>();
const switches = new Map<number, DaemonSetPod>();

beforeAll(async () => {
  await buildImages(signal);
  runtimes = await RuntimeLab.start(nodes.length, signal);
  for (const node of nodes) {
    await takeAwayTheLabsOwn(runtimes, node, signal);
    // The lab's underlay is a bridge of its database.
    const { ovs } = nodePaths(runtimes.lab.plan.dir, runtimes.lab.node(node).name);
    copyFileSync(join(ovs, 'conf.db'), join(runtimes.place(node).path('/var/lib/openvswitch'), 'conf.db'));
  }
  await install();
}, 900_000);
afterAll(async () => {
  const end = AbortSignal.timeout(120_000);
  const stopped = await Promise.allSettled([...agents.values(), ...switches.values()].map((pod) => pod.stop(end)));
  await runtimes?.remove(end);
  await releaseStorage(end);
  expect(stopped.filter(({ status }) => status === 'rejected')).toEqual([]);
}, 180_000);

async function install(): Promise<void> {
  const { configMaps, daemonSets } = await applyManifest(runtimes);
  for (const node of nodes) {
    surroundingsOf.set(node, await surroundings(runtimes, node, configMaps, signal));
    for (const daemonSet of daemonSets) {
      const pod = new DaemonSetPod(daemonSet, runtimes.place(node), around(node));
      (daemonSet.metadata?.name === 'seine-ovs' ? switches : agents).set(node, pod);
      await pod.start(signal);
    }
  }
  for (const node of nodes) await ready(node);
}

function around(node: number): PodSurroundings {
  const known = surroundingsOf.get(node);
  if (known === undefined) throw new Error(`node ${node} has no account`);
  return known;
}

async function ready(node: number): Promise<void> {
  let output = '';
  const asks = async () => {
    try {
      await agent(node).probe('agent', 'readinessProbe', signal);
      return true;
    } catch (thrown) {
      output = String(thrown);
      return false;
    }
  };
  try {
    await until(asks, patienceMs, () => 'the agent is not ready');
  } catch (thrown) {
    const logs = [await agent(node).logs('agent', signal), await podOf(switches, node).logs('ovs', signal)];
    const ends = logs.map((log) => log.trim().split('\n').slice(-8).join('\n'));
    throw new Error(`${thrown}: ${output}\nagent:\n${ends[0]}\novs:\n${ends[1]}`);
  }
}

function agent(node: number): DaemonSetPod {
  return podOf(agents, node);
}

function podOf(pods: ReadonlyMap<number, DaemonSetPod>, node: number): DaemonSetPod {
  const pod = pods.get(node);
  if (pod === undefined) throw new Error(`no pod on node ${node}`);
  return pod;
}

async function reaches(from: RunningPod, to: RunningPod): Promise<void> {
  for (const ip of to.ips) expect(nameIn(await runtimes.exec(from, askName(ip), signal))).toBe(to.config.name);
}

it('has images without a compiler or npm, and with a list of their parts', async () => {
  for (const image of [agentImage, ovsImage]) {
    const inImage = async (...command: readonly string[]) => await podman(['run', '--rm', '--network', 'none', image, ...command], signal);
    expect(await inImage('sh', '-c', 'for c in gcc cc as ld make npm; do command -v $c; done; true')).toBe('');
    const { bomFormat, components } = JSON.parse(await inImage('cat', '/usr/share/seine/sbom.cdx.json')) as Sbom;
    expect(bomFormat).toBe('CycloneDX');
    const names = components.map(({ name }) => name);
    expect(names).toEqual(expect.arrayContaining(image === ovsImage ? ['openvswitch-switch'] : ['seine', 'koffi', 'zod', 'libnftables1']));
  }
});

interface Sbom {
  readonly bomFormat: string;
  readonly components: readonly { readonly name: string; readonly version: string }[];
}

it('is alive by its own probes, and answers seinectl', async () => {
  for (const node of nodes) {
    await podOf(switches, node).probe('ovs', 'livenessProbe', signal);
    expect(await agent(node).probe('agent', 'livenessProbe', signal)).toBeDefined();
    expect(await agent(node).exec('agent', ['seinectl', 'status'], signal)).toContain('READY');
  }
});

it('has the permissions that it needs on the node: nothing was denied', async () => {
  for (const node of nodes) {
    const lines = (await agent(node).logs('agent', signal)).split('\n').filter((line) => line.includes('"level":"error"'));
    expect(lines).toEqual([]);
    expect(await runtimes.lab.exec(node, 'sysctl', '-n', 'net.ipv4.conf.antrea-gw0.rp_filter')).toBe('2\n');
  }
});

it('has the capabilities of the manifest and no others', async () => {
  const sets = (text: string) => ['CapEff', 'CapPrm', 'CapBnd'].map((name) => new RegExp(`^${name}:\\s*([0-9a-f]+)$`, 'm').exec(text)?.[1]);
  const bits = (grants: Grants) => grants.capabilities.reduce((sum, { name }) => sum | (1n << capabilityBit(name)), 0n);
  const kinds = [
    ['ovs', switches, ovsGrants(manifestOptions(runtimes))],
    ['agent', agents, agentGrants(manifestOptions(runtimes))],
  ] as const;
  for (const [container, pods, grants] of kinds) {
    const wanted = bits(grants).toString(16).padStart(16, '0');
    const status = await podOf(pods, 1).exec(container, ['cat', '/proc/self/status'], signal);
    expect(sets(status)).toEqual([wanted, wanted, wanted]);
    expect(status).toMatch(/^NoNewPrivs:\s*1$/m);
    expect(status).toMatch(/^Seccomp:\s*2$/m);
  }
});

/** Numbers of linux/capability.h. */
const capabilityBits = { NET_ADMIN: 12n, NET_RAW: 13n, SYS_PTRACE: 19n, SYS_ADMIN: 21n } as const;

function capabilityBit(name: string): bigint {
  const bit = Object.entries(capabilityBits).find(([known]) => known === name)?.[1];
  if (bit === undefined) throw new Error(`which number has ${name}?`);
  return bit;
}

it('has plugin and configuration in the runtime’s folders', () => {
  for (const node of nodes) {
    const place = runtimes.place(node);
    expect(readdirSync(place.path('/opt/cni/bin')).toSorted()).toEqual(['loopback', 'seine']);
    // The host's own are below it.
    const [first] = readdirSync(place.path('/etc/cni/net.d'))
      .filter((name) => name.endsWith('.conflist'))
      .toSorted();
    expect(first).toBe('10-seine.conflist');
    const modeOf = (path: string) => (statSync(place.path(path)).mode & 0o7777).toString(8);
    const modes = ['/opt/cni/bin/seine', '/etc/cni/net.d/10-seine.conflist', '/var/lib/seine'].map(modeOf);
    expect(modes).toEqual(['755', '600', '700']);
  }
});

it('reports to the cluster that the nodes have their network', async () => {
  const path = `jsonpath={.items[*].status.conditions[?(@.type=="NetworkUnavailable")].status}`;
  expect(await kubectl(runtimes, 'get', 'nodes', '-o', path)).toBe('False False');
});

it('connects the pods of containerd, over restarts of agent and Open vSwitch', async () => {
  await runtimes.startContainerd('as installed', signal);
  const pods = await Promise.all(
    nodes.map((node) => runtimes.startPod(node, { name: `web${node}`, ports: node === 1 ? [published] : [] }, serveName, signal)),
  );
  const [one, two] = pods;
  if (one === undefined || two === undefined) throw new Error('no pods');
  await reaches(one, two);
  await reaches(two, one);
  for (const ip of runtimes.lab.node(1).ips)
    expect(await runtimes.place(2).run('curl', ['-s', '-m', '5', `http://${inUrl(ip)}:8080/`], signal)).toBe('web1\n');
  await agent(1).stop(signal);
  await reaches(two, one);
  await agent(1).start(signal);
  await ready(1);
  await reaches(one, two);
  await isFound('ok', 1);
  await agent(2).stop(signal);
  await endsWithItsSwitch(podOf(switches, 2));
  await agent(2).start(signal);
  await ready(2);
  await until(
    async () =>
      await reaches(one, two).then(
        () => true,
        () => false,
      ),
    patienceMs,
    () => 'the pods do not reach each other',
  );
  for (const pod of pods) await runtimes.removePod(pod, signal);
});

it('is removed from the nodes by its own manifest', async () => {
  const path = join(runtimes.lab.plan.dir, 'uninstall.yaml');
  writeFileSync(path, manifestText(uninstallParts(manifestOptions(runtimes))));
  await kubectl(runtimes, 'apply', '--validate=strict', '-f', path);
  const daemonSet = parseDocument(readFileSync(path, 'utf8')).toJS() as DaemonSet;
  for (const node of nodes) await agent(node).stop(signal);
  for (const node of nodes) {
    const cleanup = new DaemonSetPod(daemonSet, runtimes.place(node), around(node));
    await cleanup.start(signal);
    const isDone = async () => (await cleanup.logs('cleanup', signal)).includes('removed  everything in /var/lib/seine');
    await until(isDone, patienceMs, () => `node ${node} is not cleaned`);
    await cleanup.probe('cleanup', 'readinessProbe', signal);
    await cleanup.stop(signal);
    const place = runtimes.place(node);
    expect(readdirSync(place.path('/opt/cni/bin'))).toEqual([]);
    expect(readdirSync(place.path('/var/lib/seine'))).toEqual([]);
    expect(await runtimes.lab.exec(node, 'nft', 'list', 'tables')).not.toContain('inet seine\n');
    expect(await runtimes.lab.exec(node, 'ip', 'route', 'show', 'proto', '94')).toBe('');
    expect(await podOf(switches, node).exec('ovs', ['ovs-vsctl', 'list-br'], signal)).toBe('br-phy\n');
  }
});

/** Without ovs-vswitchd the container ends; after a restart, OVS waits for the agent. */
async function endsWithItsSwitch(ovs: DaemonSetPod): Promise<void> {
  await ovs.exec('ovs', ['sh', '-c', 'kill -9 $(cat /run/openvswitch/ovs-vswitchd.pid)'], signal);
  await until(
    async () => !(await ovs.isRunning('ovs', signal)),
    patienceMs,
    () => 'the container does not end',
  );
  expect(await ovs.logs('ovs', signal)).toContain('a daemon has ended with exit code 137; the other one is ended too');
  await ovs.stop(signal);
  await ovs.start(signal);
  const waits = ['ovs-vsctl', '--timeout=20', 'get', 'Open_vSwitch', '.', 'other_config:flow-restore-wait'];
  const isSet = async () =>
    await ovs.exec('ovs', waits, signal).then(
      (output) => output === '"true"\n',
      () => false,
    );
  await until(isSet, patienceMs, () => 'the switch forwards without waiting for its flows');
}

/** Expects a finding of `seinectl check` in the agent's container. */
async function isFound(wanted: string, node: number): Promise<void> {
  const output = await agent(node).exec('agent', ['sh', '-c', 'seinectl check --json || true'], signal);
  const { findings } = JSON.parse(output) as { readonly findings: readonly Finding[] };
  expect(findings.filter(({ state }) => state !== wanted)).toEqual([]);
  expect(findings.map(({ check }) => check)).toEqual(
    expect.arrayContaining(['cni.config', 'cni.plugins', 'tunnel.reach', 'kernel.settings', 'firewall.pods']),
  );
}
