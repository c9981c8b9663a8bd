import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createAll, type DemoManifest } from '../../lab/demo/workload.ts';
import { inNetns } from '../../lab/machine/netns.ts';
import { labPaths, nodePaths } from '../../lab/plan/names.ts';
import type { PodExplanation } from '../../src/api/object.ts';
import { readArchive } from '../../src/operations/support-bundle/archive.ts';
import { type Manifest as BundleManifest, parseManifest } from '../../src/operations/support-bundle/manifest.ts';
import { plain } from '../../src/seinectl/paint.ts';
import { run } from '../../src/seinectl/program.ts';
import { ConvergeLab, until } from '../support/converge-lab.ts';
import { expressions } from '../support/observability.ts';
import { readPromql } from '../support/promql.ts';
import { generator } from '../support/random.ts';
import { type Ran, runProgram } from '../support/run-program.ts';

/** Tools of an operator during an incident, on a node of a lab. */
const root = join(import.meta.dirname, '..', '..');
const folder = mkdtempSync(join(tmpdir(), 'seine-first-night-'));
const psk = 'swordfish-in-the-database';
let lab: ConvergeLab;

/** Runs in the network namespace of node 1, as on a node. */
function onNode(...args: readonly string[]): Promise<Ran> {
  const { apiSocket } = nodePaths(lab.plan.dir, lab.node(1).name);
  const inside = inNetns(lab.node(1).netns, process.execPath, [join(root, 'bin', 'seinectl.mjs'), '--socket', apiSocket, ...args]);
  return runProgram(inside.command, inside.args, { cwd: folder });
}

/** Runs commands that read only the agent or a file, in this process. */
async function seinectl(...args: readonly string[]): Promise<Ran> {
  let [stdout, stderr] = ['', ''];
  const terminal = {
    room: { width: Number.POSITIVE_INFINITY, paint: plain },
    line: (text: string) => void (stdout += `${text}\n`),
    remark: (text: string) => void (stderr += `${text}\n`),
  };
  const socket = nodePaths(lab.plan.dir, lab.node(1).name).apiSocket;
  const code = await run(['--socket', socket, ...args], terminal, Readable.from([]));
  return { code, stdout, stderr };
}

async function collected(name: string, ...args: readonly string[]) {
  const path = join(folder, name);
  const ran = await onNode('collect', '-o', path, ...args);
  const files = new Map([...(await readArchive(path, () => true))].map(([file, bytes]) => [file, Buffer.from(bytes).toString()]));
  const manifest: BundleManifest = parseManifest(files.get('manifest.json') ?? '');
  return { ...ran, path, files, manifest };
}

const dumped = async (verb: 'dump-flows' | 'dump-groups'): Promise<string[]> =>
  (await lab.exec(1, 'ovs-ofctl', '-O', 'OpenFlow15', '--no-names', ...(verb === 'dump-flows' ? ['--no-stats'] : []), verb, 'br-int'))
    .split('\n')
    .slice(verb === 'dump-groups' ? 1 : 0)
    .map((line) => line.trim())
    .filter((line) => line.includes('actions=') && !line.startsWith('cookie=0x1ff'));

async function compiled(path: string): Promise<{ readonly flows: string[]; readonly groups: string[] }> {
  const lines = (await seinectl('compile', path)).stdout.split('\n').filter((line) => line !== '' && !line.startsWith('meter='));
  const isGroup = (line: string): boolean => line.startsWith('group_id=');
  return { flows: lines.filter((line) => !isGroup(line)), groups: lines.filter(isGroup) };
}

beforeAll(async () => {
  lab = await ConvergeLab.start(2);
  await lab.startPods();
  await lab.exec(1, 'ovs-vsctl', 'set', 'Open_vSwitch', '.', `other_config:ipsec-psk=${psk}`);
});
afterAll(async () => {
  await lab?.remove();
  rmSync(folder, { recursive: true });
});

describe('an archive', () => {
  it('has every part, for root alone, and no secret in it', async () => {
    const { code, stdout, path, files, manifest, stderr } = await collected('n1.tar.gz');
    expect([code, stdout.trim(), statSync(path).mode & 0o777]).toEqual([0, path, 0o600]);
    expect(stderr).toContain('agent/inputs.ndjson');
    expect(manifest.parts.filter(({ state }) => state === 'failed' || state === 'cut')).toEqual([]);
    expect([...files.keys()]).toEqual([...manifest.parts.flatMap(({ name, state }) => (state === 'whole' ? [name] : [])), 'manifest.json']);
    const has = (name: string): string => files.get(name) ?? '';
    expect(JSON.parse(has('agent/status.json'))).toMatchObject({ node: lab.node(1).name });
    expect(JSON.parse(has('ovsdb/open-vswitch.json'))['Interface'].length).toBeGreaterThan(3);
    expect(has('agent/log.ndjson')).toContain('"msg":"ready"');
    expect(JSON.parse(has('kernel/nftables.json')).length).toBeGreaterThan(10);
    expect(has('kernel/rules.ndjson')).toContain('"protocol":94');
    expect(has('kernel/routes.ndjson')).toContain('antrea-gw0'.length > 0 ? '"protocol":94' : '');
    expect(has('openflow/flows.txt')).toMatch(/table=classify.* # n_packets=\d+/);
    const { token } = /^ *token: *(?<token>\S+)$/m.exec(readFileSync(labPaths(lab.plan.dir).kubeconfig, 'utf8'))?.groups ?? {};
    const secrets = [psk, 'PRIVATE KEY-----\n', ...(token ? [token] : [])];
    for (const [name, text] of files) for (const secret of secrets) expect([name, text.includes(secret)]).toEqual([name, false]);
    expect(has('ovsdb/open-vswitch.json')).toContain('[REDACTED]');
  });

  it('never overwrites a file', async () => {
    const before = readFileSync(join(folder, 'n1.tar.gz'));
    expect(await onNode('collect', '-o', join(folder, 'n1.tar.gz'))).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('EEXIST'),
    });
    expect(readFileSync(join(folder, 'n1.tar.gz'))).toEqual(before);
  });

  it('compiles to the very flows and groups that ovs-ofctl shows', async () => {
    const { flows, groups } = await compiled(join(folder, 'n1.tar.gz'));
    expect(flows.toSorted()).toEqual((await dumped('dump-flows')).toSorted());
    expect(groups.toSorted()).toEqual((await dumped('dump-groups')).toSorted());
    expect([flows.length > 150, groups.length > 2]).toEqual([true, true]);
    expect((await seinectl('compile', join(folder, 'n1.tar.gz'), '--check')).code).toBe(0);
  });

  it('can be loaded into another bridge by ovs-ofctl', async () => {
    const { stdout } = await seinectl('compile', join(folder, 'n1.tar.gz'), '-o', 'bundle');
    await lab.exec(1, 'ovs-vsctl', 'add-br', 'br-copy', '--', 'set', 'Bridge', 'br-copy', 'datapath_type=netdev', 'protocols=OpenFlow15');
    // A bundle of the tool accepts no meters, and the flows use them.
    const meters = (await seinectl('compile', join(folder, 'n1.tar.gz'))).stdout.split('\n').filter((line) => line.startsWith('meter='));
    for (const meter of meters) await lab.exec(1, 'ovs-ofctl', '-O', 'OpenFlow15', 'add-meter', 'br-copy', meter);
    const bundle = join(folder, 'bundle.txt');
    writeFileSync(bundle, stdout);
    await lab.exec(1, 'ovs-ofctl', '-O', 'OpenFlow15', 'bundle', 'br-copy', bundle);
    const copy = (await lab.exec(1, 'ovs-ofctl', '-O', 'OpenFlow15', '--no-names', '--no-stats', 'dump-flows', 'br-copy')).split('\n');
    const lines = copy.map((line) => line.trim()).filter((line) => line.includes('actions='));
    await lab.exec(1, 'ovs-vsctl', 'del-br', 'br-copy');
    expect(lines.toSorted()).toEqual((await dumped('dump-flows')).toSorted());
  });

  it("compiles to the bridge's content also with random Services", async () => {
    const seed = Date.now() % 1_000_000;
    const before = (await lab.metrics(1)).get('service_count') ?? 0;
    await createAll(lab.api, randomServices(seed, 25), AbortSignal.timeout(30_000));
    await until(
      async () => (await lab.metrics(1)).get('service_count') === before + 25 && (await seinectl('diff')).code === 0,
      15_000,
      () => `seed ${seed}: the Services are not served`,
    );
    const { path } = await collected('random.tar.gz');
    expect([seed, await seinectl('compile', path, '--check')]).toMatchObject([seed, { code: 0, stdout: '' }]);
    const { flows, groups } = await compiled(path);
    expect([seed, flows.toSorted()]).toEqual([seed, (await dumped('dump-flows')).toSorted()]);
    expect([seed, groups.toSorted()]).toEqual([seed, (await dumped('dump-groups')).toSorted()]);
  });
});

it('exports every metric that alerts and dashboard name, with their labels', async () => {
  const samples = [...(await lab.metrics(1)).keys()];
  const names = new Set(samples.map((sample) => sample.replace(/\{.*/, '')));
  for (const { where, expr } of expressions())
    for (const { metric, labels } of readPromql(expr).selected) {
      const name = metric.replace(/^seine_agent_/, '');
      // None of these has happened, this data path does not have it, or encryption or the flow log is off.
      if (
        metric === 'up' ||
        /^((stranger|unknown_tunnel_peer)_packets|cleartext_drops|wireguard_|flows_|flow_export_|datapath_|(service|network)_programming)/.test(
          name,
        )
      )
        continue;
      expect([where, metric, names.has(name)]).toEqual([where, metric, true]);
      const own = labels.filter((label) => label !== 'instance' && label !== 'job');
      const has = samples.some((sample) => sample.startsWith(name) && own.every((label) => sample.includes(`${label}="`)));
      expect([where, metric, own, has]).toEqual([where, metric, own, true]);
    }
});

describe('a pod', () => {
  const explain = async (): Promise<PodExplanation & { readonly code: number }> => {
    const { code, stdout } = await seinectl('explain', 'pod', 'demo/web-1', '--json');
    return { ...(JSON.parse(stdout) as PodExplanation), code };
  };
  const deleteFlows = async () => {
    const { attachments } = await explain();
    await lab.exec(1, 'ovs-ofctl', '-O', 'OpenFlow15', 'del-flows', 'br-int', `in_port=${attachments[0]?.ofPort}`);
  };

  it('is explained in sentences', async () => {
    const { code, stdout } = await seinectl('explain', 'pod', 'demo/web-1');
    const [first, ...lines] = stdout.trim().split('\n');
    expect([code, first]).toEqual([0, `Pod demo/web-1 on node ${lab.node(1).name} is ok.`]);
    const { ips } = lab.pod('web-1');
    expect(lines.join('\n')).toContain(`It has ${ips.join(' and ')} on eth0`);
    expect(lines.join('\n')).toContain('Services of this node have it as an endpoint: demo/');
    expect((await explain()).services).toContainEqual(expect.objectContaining({ service: 'demo/web', port: '80/TCP' }));
    expect(lines.join('\n')).toMatch(/All \d+ flows that it needs are there/);
    expect(await seinectl('explain', 'pod', 'demo/web-2')).toMatchObject({ code: 2, stderr: expect.stringContaining('has no pod') });
  });

  it('shows repairs, and their times', async () => {
    const before = (await explain()).repairs.length;
    await deleteFlows();
    await until(
      async () => (await explain()).repairs.length > before,
      10_000,
      () => 'the repair is not reported',
    );
    const { repairs, code } = await explain();
    expect([code, repairs.at(-1)]).toMatchObject([0, { what: 'bridge', entries: expect.any(Number) }]);
  });

  it('shows problems while repair is paused', async () => {
    await seinectl('pause', '--for', '60s');
    await deleteFlows();
    const { code, problems, lines } = await explain();
    await seinectl('resume');
    expect([code, problems.length > 0, lines.at(-1)]).toEqual([1, true, expect.stringMatching(/^Repair is paused/)]);
    await until(
      async () => (await explain()).code === 0,
      10_000,
      () => 'what was deleted is not repaired',
    );
  });
});

describe('the log', () => {
  it('logs more for a while', async () => {
    const debugLines = (): number => lab.log(1).filter(({ level }) => level === 'debug').length;
    expect([(await seinectl('log-level')).stdout, debugLines()]).toEqual(['info\n', 0]);
    expect((await seinectl('log-level', 'debug', '--for', '10m')).stdout).toBe('debug for 10m, then info again\n');
    await createAll(lab.api, randomServices(1, 1, 'loud'), AbortSignal.timeout(10_000));
    await until(
      () => debugLines() > 0,
      10_000,
      () => 'no round is logged',
    );
    expect((await seinectl('log-level', 'info')).stdout).toBe('info\n');
    expect((await seinectl('log-level', 'loud')).code).toBe(2);
  });

  it('logs a repeated failure once, then at growing intervals, and its end', async () => {
    const before = lab.log(1).length;
    const reported = (msg: string) =>
      lab
        .log(1)
        .slice(before)
        .filter((line) => line.msg === msg);
    await lab.killOvs(1, 'ovsdb-server');
    await until(
      async () => ((await lab.metrics(1)).get('ovsdb_connected') ?? 1) === 0,
      10_000,
      () => 'it was not noticed',
    );
    await until(
      () => reported('OVSDB cannot be reached').some(({ times }) => Number(times) > 2),
      15_000,
      () => 'it is not logged again',
    );
    await lab.startOvs(1);
    await lab.untilReady(1);
    await until(
      () => reported('works again').some(({ what }) => what === 'ovsdb'),
      10_000,
      () => 'its end is not logged',
    );
    const again = reported('OVSDB cannot be reached').at(-1);
    const over = reported('works again').find(({ what }) => what === 'ovsdb');
    expect(reported('OVSDB cannot be reached').length).toBeLessThanOrEqual(5);
    expect(Number(again?.['times'])).toBeGreaterThan(2);
    expect(Number(over?.['failures'])).toBeGreaterThanOrEqual(Number(again?.['times']));
  });
});

it('collects the available parts without an agent, and names the missing ones', async () => {
  await lab.agent(1, 'stop');
  const config = join(nodePaths(lab.plan.dir, lab.node(1).name).dir, 'agent.yaml');
  const { code, stderr, manifest, files } = await collected('silent.tar.gz', '--config', config);
  await lab.agent(1, 'start');
  expect([code, manifest.node]).toEqual([1, lab.node(1).name]);
  expect(stderr).toContain('no agent answers');
  const failed = manifest.parts.filter(({ state }) => state === 'failed');
  expect(failed.every(({ name, reason }) => name.startsWith('agent/') && reason?.includes('no agent answers'))).toBe(true);
  expect(files.get('openflow/flows.txt')?.split('\n').length).toBeGreaterThan(150);
  expect(files.get('files/ipam.journal')).toContain('web-1');
  expect(files.get('files/agent-config.yaml')).toContain(lab.node(1).name);
  expect(await seinectl('compile', join(folder, 'silent.tar.gz'))).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('no complete inputs'),
  });
  await lab.untilReady(1);
});

/** Services of all kinds over the pods of the demo. */
function randomServices(seed: number, count: number, name = 'random'): readonly DemoManifest[] {
  const random = generator(seed);
  const pick = <T>(...all: readonly [T, ...T[]]): T => all[Math.floor(random() * all.length)] ?? all[0];
  return Array.from({ length: count }, (_, at): DemoManifest => {
    const type = pick('ClusterIP', 'NodePort', 'LoadBalancer');
    const spec = {
      type,
      selector: pick<Readonly<Record<string, string>>>(
        { app: 'web' },
        { app: 'client' },
        { rolling: 'yes' },
        { app: 'host' },
        { app: 'unused' },
      ),
      ports: [{ port: 1 + Math.floor(random() * 65_000), targetPort: 80, protocol: pick('TCP', 'UDP') }],
      ipFamilyPolicy: pick('SingleStack', 'RequireDualStack'),
      internalTrafficPolicy: pick('Cluster', 'Cluster', 'Local'),
      ...(type === 'ClusterIP' ? {} : { externalTrafficPolicy: pick('Cluster', 'Local') }),
      ...(random() < 0.4 ? { sessionAffinity: 'ClientIP' } : {}),
      ...(type === 'LoadBalancer' && random() < 0.5 ? { loadBalancerSourceRanges: ['192.0.2.0/24'] } : {}),
    };
    const object = { apiVersion: 'v1', kind: 'Service', metadata: { name: `${name}-${at}` }, spec };
    return { collection: '/api/v1/namespaces/demo/services', object };
  });
}
