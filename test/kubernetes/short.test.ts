import { afterAll, beforeAll, expect, it } from 'vitest';
import { runUpstream } from '../../build/kubernetes/upstream-run.mjs';
import { surprises } from '../../build/kubernetes/upstream-tests.mjs';
import { labFolderOf } from '../../build/test-run/lab-folder.mjs';
import { run } from '../../lab/machine/process.ts';
import { netnsPath } from '../../lab/plan/names.ts';
import { testPodInterface } from '../support/test-datapath.ts';
import { print, RealCluster } from './cluster.ts';
import { Installation } from './installation.ts';
import { Laptop } from './laptop.ts';
import { pod } from './objects.ts';

/*
 * Checks of CI on a real Kubernetes: Seine installed by the manifest, and a few of upstream's tests on that cluster. The whole installation
 * is tested in install.test.ts, the rest of upstream's in `--only e2e`.
 */

const dir = labFolderOf('short');
const limit = AbortSignal.timeout(1_800_000);
const patience = 300;
const pollMs = { timeout: 120_000, interval: 500 };
const families = process.env['SEINE_TEST_FAMILIES'] ?? 'ipv4,ipv6';

let cluster: RealCluster;
let installation: Installation;

beforeAll(async () => {
  print('a Kubernetes without a network');
  cluster = await RealCluster.up({ dir, nodes: 2, bare: true, families }, limit);
  installation = new Installation(cluster);
  await cluster.importImages(process.env['SEINE_TEST_IMAGES'] ?? 'none: npm run test:kubernetes builds them');
  print('images are on the nodes');
}, 600_000);
afterAll(async () => {
  if (process.env['SEINE_TEST_KEEP'] === undefined) await RealCluster.down(dir, AbortSignal.timeout(300_000));
}, 360_000);

it('is installed by the commands of the page, and nodes and DNS become ready', async () => {
  await installation.apply();
  await installation.untilReady(patience);
  await installation.untilNamesAreServed(patience);
});

it('lets pods of both nodes reach each other', async () => {
  const [first = '', second = ''] = cluster.nodes;
  await cluster.apply([pod({ name: 'near', app: 'near', nodeName: first }), pod({ name: 'far', app: 'far', nodeName: second })]);
  await cluster.wait(patience, '--for=condition=Ready', 'pod/near', 'pod/far');
  for (const [from, to] of [
    ['near', 'far'],
    ['far', 'near'],
  ] as const)
    for (const ip of (await cluster.pod(to)).ips) await expect.poll(async () => await cluster.pings(from, ip), pollMs).toBe(true);
});

it('answers seinectl on a host without an agent, and names the right that a user lacks', async () => {
  const nodes = cluster.nodes.map((node) => expect.objectContaining({ node, exitCode: 0 }));
  const operator = await Laptop.of(cluster, 'operator', { mayExec: true });
  const drops = await operator.seinectl('drops', '-o', 'json');
  expect(JSON.parse(drops.stdout), drops.stderr).toEqual({ nodes, silent: [] });
  const trace = await operator.seinectl('trace', 'default/near', 'default/far', 'icmp', '--probe');
  expect(trace.stdout + trace.stderr).toMatch(/packet allowed .*reached the output to pod default\/far/);
  expect(trace.code).toBe(0);
  const reader = await Laptop.of(cluster, 'reader', { mayExec: false });
  for (const words of [['drops'], ['policy', 'explain', 'default/near', 'default/far'], ['flows'], ['timeline']]) {
    const { code, stderr } = await reader.seinectl(...words);
    expect(stderr).toMatch(/the user needs the rights to create and get pods\/exec in namespace seine-system \(2 nodes: /);
    expect(code).toBe(3);
  }
});

it('finds a changed flow in the background, at the interval of the ConfigMap', async () => {
  const [node = ''] = cluster.nodes;
  const seinectl = async (...words: readonly string[]): Promise<string> =>
    await cluster.kubectlAnyway(
      '-n',
      'seine-system',
      'exec',
      await cluster.podOf('seine-agent', node),
      '-c',
      'agent',
      '--',
      'seinectl',
      ...words,
    );
  const patch = async (interval: string | null): Promise<void> =>
    void (await cluster.kubectl(
      ...['-n', 'seine-system', 'patch', 'configmap', 'seine-live', '--type', 'merge'],
      ...['-p', JSON.stringify({ data: { 'trace.background': interval } })],
    ));
  await patch('1s');
  await seinectl('pause', '--for', '10m');
  try {
    const { ofPort } = JSON.parse(await seinectl('get', 'pods', 'near', '-n', 'default', '-o', 'json')) as { readonly ofPort: number };
    await cluster.onNode(node, 'ovs-ofctl', '--names', 'del-flows', 'br-int', `table=classify,in_port=${ofPort}`);
    await expect.poll(async () => await seinectl('status'), pollMs).toMatch(/packets of default\/near to .* in table classify/);
    expect(await seinectl('timeline', 'node', node)).toContain('problem trace.disagrees');
  } finally {
    await seinectl('resume');
    await patch(null);
  }
  await expect.poll(async () => await seinectl('status'), pollMs).not.toContain('meet another flow');
});

it('passes a few of upstream’s tests of every kind', { timeout: 1_200_000 }, async () => {
  const { results, failure } = await runUpstream({ set: 'e2e', families, labFolder: dir }, { short: true });
  expect(surprises(results)).toEqual([]);
  expect(failure).toBeUndefined();
  expect(results.length).toBeGreaterThanOrEqual(20);
  print(`${results.length} of upstream’s tests passed`);
});

/** The first pods of a node have pairs: the plugin creates the namespace of pre-plugged ports after its answer to them. */
it('gives pods the configured kind of interface', async () => {
  const { podInterface = 'auto' } = testPodInterface;
  const [node = ''] = cluster.nodes;
  await cluster.apply([pod({ name: 'late', app: 'late', nodeName: node })]);
  await cluster.wait(patience, '--for=condition=Ready', 'pod/late');
  const { netns } = await cluster.pod('late');
  const inside = [`--net=${netnsPath(netns)}`, 'ip', '-details', 'link', 'show', 'eth0'];
  expect(await run('nsenter', inside, {}, limit)).toMatch(podInterface === 'veth' ? /\bveth\b/ : /macvlan mode passthru/);
});
