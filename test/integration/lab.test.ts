import { spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { LabStatus } from '../../lab/daemon/status.ts';
import { KubeApi } from '../../lab/kube/kube-api.ts';
import { readKubeconfig } from '../../lab/kube/kubeconfig.ts';
import { markedProcesses } from '../../lab/machine/process.ts';
import { labIdOf, realLabDir } from '../../lab/plan/names.ts';
import { type Ran, runProgram } from '../support/run-program.ts';

/** The lab by itself: with a stand-in agent, so that errors here are the lab's. */
const root = join(import.meta.dirname, '..', '..');
const dir = `/run/seine-test-${randomBytes(3).toString('hex')}`;
const standIn = join(root, 'test', 'fixtures', 'lab', 'stand-in-agent.mjs');
const signal = new AbortController().signal;
const machineBefore = machine();
const scratch = mkdtempSync('/tmp/seine-lab-test-');

function lab(...args: string[]): Promise<Ran> {
  return runProgram(process.execPath, [join(root, 'bin', 'seine-lab.mjs'), ...args], { env: { ...process.env, SEINE_LAB_DIR: dir } });
}

const up = () => lab('up', '--nodes', '2', '--agent', standIn);

async function status(): Promise<LabStatus> {
  const { code, stdout, stderr } = await lab('status', '--json');
  if (code !== 0) throw new Error(stderr);
  return JSON.parse(stdout);
}

async function api(): Promise<KubeApi> {
  return new KubeApi(await readKubeconfig((await status()).kubeconfig));
}

async function until<T>(what: string, look: () => Promise<T | undefined>): Promise<T> {
  for (const deadline = performance.now() + 20_000; ; await sleep(50)) {
    const found = await look();
    if (found !== undefined) return found;
    if (performance.now() > deadline) throw new Error(`still waiting: ${what}`);
  }
}

interface PodObject {
  readonly status: {
    readonly phase: string;
    readonly podIP?: string;
    readonly conditions?: readonly { readonly type: string; readonly status: string }[];
    readonly containerStatuses?: readonly { readonly state: { readonly terminated?: { readonly exitCode: number } } }[];
  };
}

const pods = '/api/v1/namespaces/default/pods';

async function runPod(name: string, node: string, spec: object, container: object): Promise<void> {
  const body = {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name },
    spec: { nodeName: node, containers: [{ name: 'c', image: 'none', ...container }], ...spec },
  };
  await (await api()).send({ method: 'POST', path: pods, body }, signal);
}

async function podWhere(name: string, wanted: (pod: PodObject) => boolean): Promise<PodObject> {
  const kube = await api();
  return until(name, async () => {
    const pod = (await kube.send({ method: 'GET', path: `${pods}/${name}` }, signal)) as PodObject;
    return wanted(pod) ? pod : undefined;
  });
}

async function untilNoObject(name: string): Promise<void> {
  const kube = await api();
  await until(`${name} to go`, async () =>
    kube.send({ method: 'GET', path: `${pods}/${name}` }, signal).then(
      () => undefined,
      () => true,
    ),
  );
}

const isReady = ({ status: { conditions = [] } }: PodObject) =>
  conditions.some(({ type, status: holds }) => type === 'Ready' && holds === 'True');

/** State that a lab must not change: foreign namespaces, links, rules and routes of the host. */
function machine(): Record<string, string> {
  const said = (command: string, ...args: string[]) => spawnSync(command, args, { encoding: 'utf8' }).stdout;
  return {
    namespaces: said('ip', 'netns', 'list')
      .split('\n')
      .filter((line) => line.includes(labIdOf(realLabDir(dir))))
      .join('\n'),
    links: said('ip', '-o', 'link', 'show')
      .replace(/ qdisc .*$/gm, '')
      .split('\n')
      .filter((line) => /seine|ovs|br-/.test(line))
      .join('\n'),
    rules: said('nft', 'list', 'tables')
      .split('\n')
      .filter((line) => line.includes('seine'))
      .join('\n'),
    processes: markedProcesses(labIdOf(realLabDir(dir)))
      .map(({ pid }) => pid)
      .join(' '),
  };
}

let first: Ran;
beforeAll(async () => {
  first = await up();
});
afterAll(async () => {
  await lab('down');
  rmSync(scratch, { recursive: true });
  expect(existsSync(dir)).toBe(false);
  expect(machine()).toEqual(machineBefore);
});

it('starts with everything in its status', async () => {
  expect(first).toMatchObject({ code: 0 });
  const { lab: id, nodes, pods: running, versions } = await status();
  expect(id).toBe(labIdOf(realLabDir(dir)));
  expect(nodes).toEqual(
    [1, 2].map((number) => ({
      name: `node-${number}`,
      netns: `seine-${id}-node-${number}`,
      rundir: `${dir}/nodes/node-${number}`,
      ip: [`192.168.77.${number}`, `fd00:77::${number}`],
      agentPid: expect.any(Number),
      vswitchdPid: expect.any(Number),
      ovsdbPid: expect.any(Number),
      agentSocket: `${dir}/nodes/node-${number}/run/agent.sock`,
      cniConf: `${dir}/nodes/node-${number}/net.d/10-seine.conflist`,
    })),
  );
  expect(running).toEqual([]);
  expect(versions).toMatchObject({ openvswitch: expect.stringMatching(/^\d/) });
});

it('joins nodes to each other and to the outside, in both families', async () => {
  for (const address of ['192.168.77.2', 'fd00:77::2', '203.0.113.10', '2001:db8:113::10', '172.31.255.1'])
    expect(await lab('node', 'exec', 'node-1', '--', 'ping', '-c1', '-W3', address)).toMatchObject({ code: 0 });
});

it('runs a pod by the plugin chain, with a responder for a container without a command', async () => {
  await runPod('web', 'node-1', {}, { ports: [{ containerPort: 80 }, { containerPort: 80, protocol: 'UDP' }] });
  const {
    status: { podIP },
  } = await podWhere('web', isReady);
  const { stdout } = await lab('node', 'exec', 'node-1', '--', 'bash', '-c', `exec 3<>/dev/tcp/${podIP}/80; echo >&3; head -1 <&3`);
  expect(JSON.parse(stdout)).toMatchObject({ pod: 'default/web', node: 'node-1', server: `${podIP}:80` });
  const { pods: running } = await status();
  expect(running).toContainEqual({
    namespace: 'default',
    name: 'web',
    node: 'node-1',
    netns: `seine-${labIdOf(dir)}-node-1-default-web`,
    ips: [podIP],
    containerID: expect.stringMatching(/^[0-9a-f]{64}$/),
  });
});

it('runs commands inside pods and returns their exit code and output', async () => {
  const { code, stdout } = await lab(
    'exec',
    'default/web',
    '--',
    'sh',
    '-c',
    'cat /sys/class/net/eth0/address; ip -4 -o addr show eth0; exit 7',
  );
  expect(code).toBe(7);
  expect(stdout).toContain('10.250.1.');
  expect(await lab('exec', 'default/missing', '--', 'true')).toMatchObject({
    code: 1,
    stderr: expect.stringContaining('no pod default/missing'),
  });
});

it('ends a pod whose command ends, with its exit code', async () => {
  await runPod('job', 'node-2', { restartPolicy: 'Never' }, { command: ['sh', '-c', 'exit 3'] });
  const { status: ended } = await podWhere('job', ({ status: { phase } }) => phase === 'Failed' || phase === 'Succeeded');
  expect(ended.phase).toBe('Failed');
  expect(ended.containerStatuses?.[0]?.state.terminated?.exitCode).toBe(3);
  await until('the network of the job to go', async () => ((await status()).pods.every(({ name }) => name !== 'job') ? true : undefined));
});

it('reports a pod as ready when its probe passes, and not before', async () => {
  const flag = join(scratch, 'flag');
  const readinessProbe = { exec: { command: ['test', '-e', flag] }, periodSeconds: 1 };
  await runPod('probed', 'node-2', {}, { command: ['sleep', '1000'], readinessProbe });
  const { status: before } = await podWhere('probed', ({ status: { phase } }) => phase === 'Running');
  expect(before.conditions).toContainEqual(expect.objectContaining({ type: 'Ready', status: 'False' }));
  writeFileSync(flag, '');
  await podWhere('probed', isReady);
});

it('reports why a pod gets no network, keeps trying, and gives up when it is deleted', async () => {
  const kube = await api();
  await runPod('refused', 'node-2', {}, {});
  const reported = await until('an event', async () => {
    const { items } = (await kube.send({ method: 'GET', path: '/api/v1/namespaces/default/events' }, signal)) as {
      items: { reason: string; message: string; involvedObject: { name: string } }[];
    };
    return items.find(({ involvedObject: { name } }) => name === 'refused');
  });
  expect(reported).toMatchObject({ reason: 'FailedCreatePodSandBox', message: expect.stringContaining('this one is not wanted') });
  const { status: waiting } = await podWhere('refused', () => true);
  expect(waiting.phase).toBe('Pending');
  await kube.send({ method: 'DELETE', path: `${pods}/refused` }, signal);
  await untilNoObject('refused');
  expect(
    readdirSync(join(dir, 'nodes', 'node-2', 'pods')).filter((file) =>
      readFileSync(join(dir, 'nodes', 'node-2', 'pods', file), 'utf8').includes('refused'),
    ),
  ).toEqual([]);
});

it('removes a deleted pod from the node: processes, namespace, object', async () => {
  const kube = await api();
  await runPod(
    'gone',
    'node-2',
    { terminationGracePeriodSeconds: 1 },
    { command: ['sh', '-c', 'trap "" TERM; while :; do sleep 1; done'] },
  );
  await podWhere('gone', isReady);
  const netns = (await status()).pods.find(({ name }) => name === 'gone')?.netns ?? '';
  await kube.send({ method: 'DELETE', path: `${pods}/gone` }, signal);
  await untilNoObject('gone');
  expect(readdirSync('/run/netns')).not.toContain(netns);
  expect(markedProcesses(labIdOf(dir)).filter(({ pid }) => readFileSync(`/proc/${pid}/environ`, 'utf8').includes('POD_NAME=gone'))).toEqual(
    [],
  );
});

it('starts and stops agents and Open vSwitch on request', async () => {
  const pidsOf = async () => (await status()).nodes[1];
  const before = await pidsOf();
  expect(await lab('agent', 'node-2', 'kill')).toMatchObject({ code: 0 });
  expect((await pidsOf())?.agentPid).toBeNull();
  expect(await lab('ovs', 'node-2', 'kill')).toMatchObject({ code: 0 });
  expect(await pidsOf()).toMatchObject({ vswitchdPid: null, ovsdbPid: null });
  expect(await lab('ovs', 'node-2', 'start')).toMatchObject({ code: 0 });
  const waits = await lab('node', 'exec', 'node-2', '--', 'ovs-vsctl', 'get', 'Open_vSwitch', '.', 'other_config:flow-restore-wait');
  expect(waits.stdout.trim()).toBe('"true"');
  expect(await lab('agent', 'node-2', 'start')).toMatchObject({ code: 0 });
  const after = await pidsOf();
  expect(after).toMatchObject({ agentPid: expect.any(Number), vswitchdPid: expect.any(Number), ovsdbPid: expect.any(Number) });
  expect(after?.agentPid).not.toBe(before?.agentPid);
  expect(readFileSync(`/proc/${after?.agentPid}/environ`, 'utf8').split('\0')).toContain('MALLOC_ARENA_MAX=1');
  expect(await lab('agent', 'node-9', 'kill')).toMatchObject({ code: 1, stderr: expect.stringContaining('no node node-9') });
});

it('continues with its pods after its daemon was killed', async () => {
  const before = (await status()).pods.find(({ name }) => name === 'web');
  process.kill(Number(readFileSync(join(dir, 'daemon.pid'), 'utf8').split(' ')[0]), 'SIGKILL');
  const { code, stderr } = await up();
  expect(code, stderr).toBe(0);
  await until('the pod to answer', async () =>
    (await lab('node', 'exec', 'node-1', '--', 'bash', '-c', `exec 3<>/dev/tcp/${before?.ips[0]}/80`)).code === 0 ? true : undefined,
  );
  expect((await status()).pods).toContainEqual(before);
});

it('refuses to be another lab, and a folder with other files', async () => {
  expect(await lab('up', '--nodes', '1')).toMatchObject({ code: 1, stderr: expect.stringContaining('other options') });
  const foreign = mkdtempSync('/tmp/seine-');
  writeFileSync(join(foreign, 'precious'), '');
  expect(await lab('up', '--dir', foreign)).toMatchObject({ code: 1, stderr: expect.stringContaining('not empty') });
  await lab('down', '--dir', foreign);
  expect(readdirSync(foreign)).toEqual(['precious']);
  rmSync(foreign, { recursive: true });
});

it('leaves nothing behind, also when everything was killed before; twice succeeds', async () => {
  for (const { pid } of markedProcesses(labIdOf(dir))) process.kill(pid, 'SIGKILL');
  expect(await lab('down')).toMatchObject({ code: 0 });
  expect(machine()).toEqual(machineBefore);
  expect(existsSync(dir)).toBe(false);
  expect(await lab('down')).toMatchObject({ code: 0, stderr: expect.stringContaining('removed 0 processes') });
});
