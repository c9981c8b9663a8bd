import { execFile, spawn } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parse, stringify } from 'yaml';
import { createAll } from '../../lab/demo/workload.ts';
import { labPaths, nodePaths } from '../../lab/plan/names.ts';
import { ConvergeLab, until } from '../support/converge-lab.ts';
import { denyAll, namespaceManifest, networkPolicy } from '../support/guarded-lab.ts';

/*
 * The plugin's contract on a real node: real agent, plugin, OVS and namespaces, called as a runtime calls.
 */

const execute = promisify(execFile);
let lab: ConvergeLab;
let lastNamespace = 0;

beforeAll(async () => {
  lab = await ConvergeLab.start(1);
});
afterAll(async () => {
  await lab?.remove();
});

interface Call {
  readonly id?: string;
  readonly netns?: string;
  readonly ifName?: string;
  readonly args?: string;
  readonly conf?: Readonly<Record<string, unknown>>;
}

interface Answer {
  /** 0, or CNI's code. */
  readonly code: number;
  readonly msg: string;
  readonly result: CniResult;
  readonly tookMs: number;
}

interface CniResult {
  readonly ips?: readonly { readonly address: string }[];
  readonly routes?: readonly { readonly dst: string; readonly table?: number }[];
}

async function call(command: string, { id = '', netns = '', ifName = 'eth0', args = '', conf = {} }: Call = {}): Promise<Answer> {
  const paths = nodePaths(lab.plan.dir, lab.node(1).name);
  const list = JSON.parse(readFileSync(paths.cniConfAlone, 'utf8')) as { plugins: object[]; name: string; cniVersion: string };
  const stdin = JSON.stringify({ ...list.plugins[0], name: list.name, cniVersion: '1.1.0', ...conf });
  const env = {
    CNI_COMMAND: command,
    CNI_CONTAINERID: id,
    CNI_NETNS: netns,
    CNI_IFNAME: ifName,
    CNI_ARGS: args,
    CNI_PATH: labPaths(lab.plan.dir).bin,
  };
  const startedMs = performance.now();
  const child = spawn(join(labPaths(lab.plan.dir).bin, 'seine'), [], { env, stdio: ['pipe', 'pipe', 'inherit'] });
  child.stdin.end(stdin);
  let stdout = '';
  for await (const chunk of child.stdout) stdout += String(chunk);
  const answer = (stdout === '' ? {} : JSON.parse(stdout)) as { code?: number; msg?: string };
  return { code: answer.code ?? 0, msg: answer.msg ?? '', result: answer as CniResult, tookMs: performance.now() - startedMs };
}

const pathOf = (name: string) => `/run/netns/${name}`;
const addressesOf = ({ ips = [] }: CniResult) => ips.map(({ address }) => address.replace(/\/.*/, ''));

/** A namespace that is deleted with the lab. */
async function namespace(): Promise<string> {
  const name = `${lab.node(1).netns}-x${lastNamespace++}`;
  await execute('ip', ['netns', 'add', name]);
  return name;
}

async function reaches(from: string, address: string, ...options: readonly string[]): Promise<void> {
  const ping = ['netns', 'exec', from, 'ping', '-c', '1', '-W', '1', ...options, address];
  const works = () =>
    execute('ip', ping)
      .then(() => true)
      .catch(() => false);
  await until(works, 10_000, () => `${from} does not reach ${address} ${options.join(' ')}`);
}

describe('a pod on two networks', () => {
  const second = { ifName: 'net1', conf: { name: 'second' } };

  it('is reached on both and answers on both; the first is not affected', async () => {
    const [pod, other] = [await namespace(), await namespace()];
    const one = await call('ADD', { id: 'two', netns: pathOf(pod) });
    const peer = await call('ADD', { id: 'peer', netns: pathOf(other) });
    const defaultRoutes = async () => (await execute('ip', ['-n', pod, 'route', 'show', 'default', 'metric', '0'])).stdout;
    const before = await defaultRoutes();
    const two = await call('ADD', { id: 'two', netns: pathOf(pod), ...second });
    expect([one.code, peer.code, two.code]).toEqual([0, 0, 0]);
    expect(two.result.routes?.map(({ table }) => table)).toEqual([expect.any(Number), expect.any(Number)]);
    expect(await defaultRoutes()).toBe(before);
    for (const address of [...addressesOf(one.result), ...addressesOf(two.result)]) await reaches(other, address);
    for (const address of addressesOf(peer.result)) {
      await reaches(pod, address);
      await reaches(pod, address, '-I', 'net1');
    }
    const check = async (answer: Answer, which: Call) =>
      await call('CHECK', { id: 'two', netns: pathOf(pod), ...which, conf: { ...which.conf, prevResult: answer.result } });
    expect([await check(one, {}), await check(two, second)]).toMatchObject([{ msg: '' }, { msg: '' }]);
    expect(await call('DEL', { id: 'two', netns: pathOf(pod), ...second })).toMatchObject({ code: 0 });
    expect(await check(one, {})).toMatchObject({ msg: '' });
    for (const address of addressesOf(peer.result)) await reaches(pod, address);
    for (const [id, name] of [
      ['two', pod],
      ['peer', other],
    ] as const)
      expect(await call('DEL', { id, netns: pathOf(name) })).toMatchObject({ code: 0 });
  });
});

describe('an ADD', () => {
  it('twice, or of an existing interface, damages nothing', async () => {
    const [pod, other] = [await namespace(), await namespace()];
    const { result } = await call('ADD', { id: 'one', netns: pathOf(pod) });
    await call('ADD', { id: 'witness', netns: pathOf(other) });
    expect(await call('ADD', { id: 'one', netns: pathOf(pod) })).toMatchObject({ code: 104 });
    expect(await call('ADD', { id: 'three', netns: pathOf(pod) })).toMatchObject({ code: 4, msg: expect.stringContaining('CNI_IFNAME') });
    for (const address of addressesOf(result)) await reaches(other, address);
    for (const id of ['one', 'three', 'witness']) expect(await call('DEL', { id })).toMatchObject({ code: 0 });
  });

  it('is rejected for a pod that the API server does not have, and served for a static one', async () => {
    const netns = pathOf(await namespace());
    const args = (uid: string) => `IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME=missing;K8S_POD_UID=${uid}`;
    const refused = await call('ADD', { id: 'missing', netns, args: args('7a1c6e2a-0000-4000-8000-000000000000') });
    expect(refused).toMatchObject({ code: 107, msg: expect.stringContaining('"default/missing"') });
    expect(refused.tookMs).toBeLessThan(3_000);
    expect(await call('ADD', { id: 'static', netns, args: args('0123456789abcdef0123456789abcdef') })).toMatchObject({ code: 0 });
    expect(await call('DEL', { id: 'static', netns })).toMatchObject({ code: 0 });
  });

  it('into a vanished namespace is the runtime’s fault, and its DEL succeeds', async () => {
    const pod = await namespace();
    const netns = pathOf(pod);
    const { result } = await call('ADD', { id: 'vanishing', netns });
    await execute('ip', ['netns', 'del', pod]);
    expect((await call('CHECK', { id: 'vanishing', netns, conf: { prevResult: result } })).code).toBe(103);
    expect(await call('ADD', { id: 'late', netns })).toMatchObject({ code: 4, msg: expect.stringContaining('CNI_NETNS') });
    expect(await call('DEL', { id: 'vanishing', netns })).toMatchObject({ code: 0 });
  });
});

describe('STATUS', () => {
  const becomes = async (code: number) =>
    await until(
      async () => (await call('STATUS')).code === code,
      30_000,
      () => `STATUS does not become ${code}`,
    );

  it('stays the same while the API server is away, for a restarted agent too, and ADDs continue', async () => {
    await becomes(0);
    await lab.apiServer('stop');
    try {
      for (let asked = 0; asked < 20; asked++) expect(await call('STATUS')).toMatchObject({ code: 0 });
      await lab.agent(1, 'kill');
      const down = await call('STATUS', { conf: { deadline: 0.5 } });
      expect(down.code).toBe(50);
      expect(down.tookMs).toBeLessThan(5_000);
      const meanwhile = call('STATUS');
      await lab.agent(1, 'start');
      expect(await meanwhile).toMatchObject({ code: 0 });
      const netns = pathOf(await namespace());
      const args = 'K8S_POD_NAMESPACE=default;K8S_POD_NAME=unseen;K8S_POD_UID=7a1c6e2a-0000-4000-8000-000000000000';
      expect(await call('ADD', { id: 'unseen', netns, args })).toMatchObject({ code: 0 });
      expect(await call('DEL', { id: 'unseen', netns })).toMatchObject({ code: 0 });
    } finally {
      await lab.apiServer('start');
    }
  });

  it('is 51 when running pods are affected', async () => {
    await lab.killOvs(1, 'ovs-vswitchd');
    await becomes(51);
    await lab.startOvs(1);
    await becomes(0);
  });
});

describe('an ADD of an unknown pod with policies', () => {
  const pings = (from: string, address: string) =>
    execute('ip', ['netns', 'exec', from, 'ping', '-c', '2', '-i', '0.2', '-W', '1', address]).then(
      () => true,
      () => false,
    );

  /** Objects read before the API server stopped are known; a pod that starts meanwhile is not. */
  async function startWith(whenUnknown: string): Promise<void> {
    const { agentConfig } = nodePaths(lab.plan.dir, lab.node(1).name);
    const config = parse(readFileSync(agentConfig, 'utf8')) as Readonly<Record<string, unknown>>;
    writeFileSync(agentConfig, stringify({ ...config, policy: { whenUnknown } }));
    await lab.agent(1, 'stop');
    await lab.agent(1, 'start');
    await lab.untilReady(1);
  }

  it('blocks it except for its node, is rejected, or leaves it free, as configured', { timeout: 180_000 }, async () => {
    const [peer, ...pods] = [await namespace(), await namespace(), await namespace(), await namespace()];
    await call('ADD', { id: 'stranger', netns: pathOf(peer) });
    const added = async (at: number): Promise<Answer & { readonly addresses: readonly string[] }> => {
      const args = `K8S_POD_NAMESPACE=unread;K8S_POD_NAME=p${at};K8S_POD_UID=7a1c6e2a-0000-4000-8000-00000000000${at}`;
      const answer = await call('ADD', { id: `unread-${at}`, netns: pathOf(pods[at] ?? ''), args });
      return { ...answer, addresses: addressesOf(answer.result) };
    };
    await createAll(lab.api, [namespaceManifest('unread'), networkPolicy('unread', 'deny-all', denyAll)], AbortSignal.timeout(30_000));
    await until(
      async () => (await lab.metrics(1)).get('source_objects{kind="NetworkPolicy"}') === 1,
      30_000,
      () => 'the agent has not seen the policy',
    );
    await lab.apiServer('stop');
    try {
      const closed = await added(0);
      expect(closed).toMatchObject({ code: 0, addresses: [expect.any(String), expect.any(String)] });
      for (const address of closed.addresses) {
        await reaches(lab.node(1).netns, address);
        expect(await pings(peer, address)).toBe(false);
      }
      await startWith('refuse');
      expect(await added(1)).toMatchObject({ code: 102, msg: expect.stringContaining('the labels of the pod are not known yet') });
      await startWith('open');
      for (const address of (await added(2)).addresses) await reaches(peer, address);
      for (const address of closed.addresses) await reaches(lab.node(1).netns, address);
    } finally {
      await lab.apiServer('start');
    }
  });
});
