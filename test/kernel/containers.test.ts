import { execFileSync } from 'node:child_process';
import type { DaemonSet } from 'kubernetes-types/apps/v1.d.ts';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { PodStatusLine } from '../../lab/daemon/status.ts';
import { createAll, demoNamespace, podsReady } from '../../lab/demo/workload.ts';
import { runIn } from '../../lab/machine/netns.ts';
import { run } from '../../lab/machine/process.ts';
import { askStatus } from '../../lab/up.ts';
import type { Finding } from '../../src/api/check.ts';
import { CriDaemonSetPod } from '../runtime/cri-daemon-set-pod.ts';
import { tinyImage } from '../runtime/image.ts';
import { applyManifest, kubectl, surroundings, takeAwayTheLabsOwn } from '../runtime/installation.ts';
import { type RunningPod, RuntimeLab } from '../runtime/runtime-lab.ts';
import { askName, inUrl, nameIn, serveName } from '../runtime/tiny-server.ts';
import { until } from '../support/converge-lab.ts';

/*
 * The manifest's containers as a node of Debian or Ubuntu runs them: by containerd, confined by AppArmor, on the kernel's data path. Node 1
 * is such a node; node 2 is the lab's own.
 */

const signal = AbortSignal.timeout(1_500_000);
const patienceMs = 60_000;
/** Profile of containerd for each container that is not privileged. */
const profile = 'cri-containerd.apparmor.d (enforce)';

let runtimes: RuntimeLab;
let ovs: CriDaemonSetPod;
let agent: CriDaemonSetPod;
let pods: readonly RunningPod[] = [];
let far: PodStatusLine;

beforeAll(async () => {
  await denialsAreLogged();
  runtimes = await RuntimeLab.start(2, signal);
  await startFarPod();
  await takeAwayTheLabsOwn(runtimes, 1, signal);
  await runtimes.place(1).run('ovs-dpctl', ['del-dp', 'ovs-system'], signal);
  await runtimes.startConfiningContainerd(1, process.env['SEINE_TEST_IMAGES'] ?? '', signal);
  await install();
}, 900_000);
afterAll(async () => {
  console.log(`AppArmor has denied:\n${denials().join('\n') || 'nothing'}`);
  await runtimes?.remove(AbortSignal.timeout(240_000));
});

/** Denials by name in a profile are otherwise not logged. Source: apparmor.d(5), "deny"; apparmor_parser(8), audit. */
async function denialsAreLogged(): Promise<void> {
  await run('sh', ['-c', 'echo -n noquiet > /sys/module/apparmor/parameters/audit; sysctl -qw kernel.printk_ratelimit=0'], {}, signal);
}

async function startFarPod(): Promise<void> {
  const { lab } = runtimes;
  const of = (kind: string, name: string, spec: object, labels = {}) => ({ apiVersion: 'v1', kind, metadata: { name, labels }, spec });
  const inDemo = `/api/v1/namespaces/${demoNamespace}`;
  const ports = [{ name: 'http', containerPort: 80, protocol: 'TCP' }];
  const containers = [{ name: 'responder', image: 'responder', ports }];
  const pod = of('Pod', 'far', { nodeSelector: { 'kubernetes.io/hostname': lab.node(2).name }, containers }, { app: 'far' });
  const service = of('Service', 'far', {
    selector: { app: 'far' },
    ports: [{ name: 'http', port: 80, targetPort: 80, protocol: 'TCP' }],
    ipFamilyPolicy: 'RequireDualStack',
    ipFamilies: ['IPv4', 'IPv6'],
  });
  const wanted = [
    { collection: '/api/v1/namespaces', object: { apiVersion: 'v1', kind: 'Namespace', metadata: { name: demoNamespace } } },
    { collection: `${inDemo}/pods`, object: pod },
    { collection: `${inDemo}/services`, object: service },
  ];
  await createAll(lab.api, wanted, signal);
  await podsReady(lab.api, 1, signal);
  const found = (await askStatus(lab.plan.dir)).pods.find(({ name }) => name === 'far');
  if (found === undefined) throw new Error('no pod');
  far = found;
}

async function install(): Promise<void> {
  const { configMaps, daemonSets } = await applyManifest(runtimes);
  const around = await surroundings(runtimes, 1, configMaps, signal);
  const podOf = (name: string) => new CriDaemonSetPod(named(daemonSets, name), runtimes.place(1), around, runtimes.containerd(1).cri);
  ovs = podOf('seine-ovs');
  agent = podOf('seine-agent');
  await ovs.start(signal);
  await agent.start(signal);
  await ready();
}

function named(daemonSets: readonly DaemonSet[], name: string): DaemonSet {
  const found = daemonSets.find(({ metadata }) => metadata?.name === name);
  if (found === undefined) throw new Error(`no DaemonSet ${name}`);
  return found;
}

async function ready(): Promise<void> {
  let output = '';
  const asks = async () => {
    try {
      await agent.probe('agent', 'readinessProbe', signal);
      return true;
    } catch (thrown) {
      output = String(thrown);
      return false;
    }
  };
  const ends = () => [agent.logs('agent'), ovs.logs('ovs')].map((log) => log.trim().split('\n').slice(-8).join('\n'));
  await until(asks, patienceMs, () => `the agent is not ready: ${output}\nagent:\n${ends()[0]}\novs:\n${ends()[1]}`);
}

/** The kernel's log of denials. */
function denials(): readonly string[] {
  return execFileSync('dmesg', { encoding: 'utf8', maxBuffer: 1 << 26 })
    .split('\n')
    .filter((line) => line.includes('apparmor="DENIED"'));
}

async function reaches(from: RunningPod, to: RunningPod): Promise<void> {
  for (const ip of to.ips) expect(nameIn(await runtimes.exec(from, askName(ip), signal))).toBe(to.config.name);
}

/** A lab's pod answers every connection, immediately. */
async function reachesFar(from: RunningPod, ip: string): Promise<void> {
  expect(await runtimes.exec(from, ['sh', '-c', `nc -w 20 ${ip} 80 </dev/null`], signal)).toContain('"pod":"demo/far"');
}

async function isReachedFromFar(to: RunningPod): Promise<void> {
  for (const ip of to.ips)
    expect(await runIn(far.netns, 'curl', ['-s', '-m', '20', `http://${inUrl(ip)}/`], {}, signal)).toBe(`${to.config.name}\n`);
}

function both(): readonly [RunningPod, RunningPod] {
  const [one, two] = pods;
  if (one === undefined || two === undefined) throw new Error('no pods');
  return [one, two];
}

it('runs each container in the runtime’s default profile, which is enforced', async () => {
  const confinement = ['cat', '/proc/self/attr/current'];
  expect((await ovs.exec('ovs', confinement, signal)).trim()).toBe(profile);
  expect((await agent.exec('agent', confinement, signal)).trim()).toBe(profile);
  // CAP_SYS_ADMIN and the seccomp profile allow it.
  await expect(agent.exec('agent', ['mount', '-t', 'tmpfs', 'none', '/run/netns'], signal)).rejects.toThrow(/exit code 32/);
  expect(denials().filter((line) => line.includes('operation="mount"'))).not.toEqual([]);
});

it('has all permissions that it needs: probes and checks find nothing', async () => {
  await ovs.probe('ovs', 'livenessProbe', signal);
  const output = await agent.exec('agent', ['sh', '-c', 'seinectl check --json || true'], signal);
  const { findings } = JSON.parse(output) as { readonly findings: readonly Finding[] };
  // Problems of a slow emulated host, while everything is checked at once.
  const ofSlowness = ['api.server', 'clock'];
  expect(findings.filter(({ check, state }) => state !== 'ok' && !ofSlowness.includes(check))).toEqual([]);
  // The profile hides other processes' descriptors, and each access to one is a line in the kernel's log.
  const inotify = findings.find(({ check }) => check === 'limits.inotify');
  expect(inotify?.what).toContain('how many are used is not known');
  expect(
    agent
      .logs('agent')
      .split('\n')
      .filter((line) => line.includes('"level":"error"')),
  ).toEqual([]);
});

it('connects pods, on this node and to another, and forwards to a Service', async () => {
  pods = await Promise.all(['one', 'two'].map((name) => runtimes.startPod(1, { name }, serveName, signal)));
  const [one, two] = both();
  await reaches(one, two);
  await reaches(two, one);
  for (const ip of far.ips) await reachesFar(one, ip);
  await isReachedFromFar(two);
  const addresses = await kubectl(runtimes, '-n', demoNamespace, 'get', 'service', 'far', '-o', 'jsonpath={.spec.clusterIPs[*]}');
  expect(addresses.split(' ')).toHaveLength(2);
  for (const ip of addresses.split(' ')) await reachesFar(one, ip);
});

it('loses nothing when the agent restarts', async () => {
  const [one, two] = both();
  const flows = async () => await ovs.exec('ovs', ['ovs-ofctl', '-O', 'OpenFlow15', '--no-stats', 'dump-flows', 'br-int'], signal);
  const before = (await flows()).split('\n').toSorted();
  await agent.stop(signal);
  await reaches(one, two);
  await isReachedFromFar(one);
  await agent.start(signal);
  await ready();
  await reaches(two, one);
  expect((await flows()).split('\n').toSorted()).toEqual(before);
});

it('recovers when Open vSwitch does', async () => {
  const [one, two] = both();
  await ovs.exec('ovs', ['sh', '-c', 'kill -9 $(cat /run/openvswitch/ovs-vswitchd.pid)'], signal);
  await until(
    async () => !(await ovs.isRunning('ovs', signal)),
    patienceMs,
    () => 'the container does not end',
  );
  await ovs.stop(signal);
  await ovs.start(signal);
  await ready();
  await reaches(two, one);
  await isReachedFromFar(one);
});

it('cannot see a namespace that is named by an unconfined process, and reports it', async () => {
  const byProcess = ['--namespace', 'k8s.io', 'run', '--rm', '--cni', tinyImage, 'by-process', 'true'];
  const attached = runtimes.containerd(1).ctr(byProcess, signal);
  await expect(attached).rejects.toThrow(/EACCES|ermission denied/);
});

it('was denied nothing else: only mounts, and checks of unconfined processes, and few of them', () => {
  const ofAgent = denials().filter((line) => !line.includes('operation="mount"'));
  expect(ofAgent.filter((line) => !/operation="ptrace" .* denied_mask="read" peer="unconfined"/.test(line))).toEqual([]);
  expect(ofAgent.length).toBeLessThan(10);
});
