import { existsSync } from 'node:fs';
import { relative } from 'node:path';
import { Command, Option } from 'commander';
import { SeineError } from '../src/base/errors/seine-error.ts';
import type { Family } from '../src/base/net/ip.ts';
import type { PodStatusLine } from './daemon/status.ts';
import { changeChecks } from './demo/change-checks.ts';
import { clusterPolicyChecks } from './demo/cluster-policy-checks.ts';
import { connectivityChecks } from './demo/connectivity-checks.ts';
import { encryptionChecks, untilEncrypted } from './demo/encryption-checks.ts';
import { flowLogChecks } from './demo/flow-log-checks.ts';
import { guardedManifests, guardedNamespace, newPod, putClusterPolicy, removeClusterPolicy, setClientsMayAsk } from './demo/guarded.ts';
import { setLive } from './demo/live-settings.ts';
import { nodeChecks } from './demo/node-checks.ts';
import { peerModeChecks } from './demo/peer-mode-checks.ts';
import { policyChecks } from './demo/policy-checks.ts';
import { checkLine, howToGoOn, paintsFor, resultTable } from './demo/report.ts';
import { type DemoCheck, type DemoCheckResult, demoPod, type Scene } from './demo/scene.ts';
import { serviceChecks } from './demo/service-checks.ts';
import { showPage } from './demo/show-page.ts';
import { traceChecks } from './demo/trace-checks.ts';
import { clusterIps, createAll, type DemoManifest, manifests, nodePorts, podsReady, setRolling } from './demo/workload.ts';
import { removeLab } from './down.ts';
import { KubeApi } from './kube/kube-api.ts';
import { readKubeconfig } from './kube/kubeconfig.ts';
import { writeFileWhole } from './machine/files.ts';
import { labProgram } from './machine/installation.ts';
import { defaultLabDir, familiesOption, needRoot, seconds, wholeNumber } from './options.ts';
import { labPaths, realLabDir } from './plan/names.ts';
import type { Datapath, TrafficMode, Tunnel } from './plan/plan.ts';
import { type LabPlan, planLab } from './plan/plan.ts';
import { builtIfAsked, type RealOptions } from './real-kubernetes/built-programs.ts';
import { askStatus, bringUp } from './up.ts';

interface DemoOptions extends RealOptions {
  readonly dir: string;
  readonly nodes: number;
  readonly families: Family[];
  readonly subnets: number;
  readonly mode: TrafficMode;
  readonly encryption?: 'wireguard';
  readonly tunnel: Tunnel;
  readonly datapath: Datapath;
  readonly json?: boolean;
  readonly down?: boolean;
  readonly ui?: boolean;
  readonly agent?: string;
  readonly pings?: number;
  readonly restart: boolean;
}

const command = new Command('npm run demo --')
  .description('Creates a lab, starts pods in it, and checks pods, Services, changes and nodes')
  .addOption(new Option('--dir <folder>', 'folder of the lab').default(defaultLabDir))
  .option('--nodes <count>', 'how many nodes', wholeNumber, 3)
  .addOption(familiesOption('ipv4, ipv6 or both'))
  .option('--subnets <count>', '1 or 2 networks of nodes, with a router between them', wholeNumber, 1)
  .addOption(new Option('--mode <mode>', 'how nodes send to each other’s pods').choices(['encap', 'noEncap', 'hybrid']).default('encap'))
  .addOption(new Option('--encryption <kind>', 'encryption between nodes').choices(['wireguard']))
  .addOption(new Option('--tunnel <type>', 'tunnel protocol between nodes').choices(['geneve', 'vxlan', 'gre']).default('geneve'))
  .addOption(new Option('--datapath <type>', 'of Open vSwitch').choices(['netdev', 'system']).default('netdev'))
  .option('--json', 'print the results as JSON, as the last line; everything else goes to standard error')
  .option('--kubernetes [version]', 'on a real Kubernetes, which is built if it is not there: docs/contributing/lab-kubernetes.md')
  .option('--control-plane <version>', 'on a real API server of that version, with controllers, and the lab’s own kubelets')
  .option('--down', 'remove everything at the end')
  .addOption(
    new Option('--ui', 'show the lab in a browser at the end, until Ctrl-C; the lab stays').conflicts([
      'down',
      'json',
      'kubernetes',
      'controlPlane',
    ]),
  )
  .addOption(new Option('--agent <file>', 'what node runs as the agent').hideHelp())
  .addOption(new Option('--no-restart', 'leave out what restarts an agent').hideHelp())
  .addOption(new Option('--pings <per second>', 'on each path over a restart').argParser(wholeNumber).hideHelp());

const paints = paintsFor(process.stderr);

async function main(options: DemoOptions, signal: AbortSignal): Promise<number> {
  needRoot();
  const built = await builtIfAsked(options);
  // A real API server takes a moment to serve a CRD, and agents look for it once a minute.
  const clusterPolicies = built.kubernetes === undefined && built.controlPlane === undefined;
  // The page finds agents by their pods.
  const plan = planLab({ ...options, ...built, clusterPolicies, agentPods: options.ui === true, dir: realLabDir(options.dir) });
  const results: DemoCheckResult[] = [];
  const record = (result: DemoCheckResult) => {
    results.push(result);
    print(checkLine(result, paints));
  };
  try {
    await perform(plan, options, record, signal);
  } finally {
    if (options.down) {
      print('removing the lab');
      await removeLab(plan.dir, AbortSignal.timeout(60_000));
    }
  }
  const ok = results.length > 1 && results.every((result) => result.ok);
  if (options.json) process.stdout.write(`${JSON.stringify({ ok, checks: results })}\n`);
  else process.stdout.write(`\n${resultTable(results, paintsFor(process.stdout))}\n`);
  if (!options.json && !options.down) process.stdout.write(`\n${await nextSteps(plan, options)}\n`);
  if (options.ui && results[0]?.ok) await showPage(labPaths(plan.dir).kubeconfig, signal);
  return ok ? 0 : 1;
}

/** Every failure is a failed check: a table is always printed. */
async function perform(plan: LabPlan, options: DemoOptions, record: (result: DemoCheckResult) => void, signal: AbortSignal): Promise<void> {
  const raised = await judge({ name: 'lab.ready', run: () => raise(plan, options, signal) }, signal);
  record(raised);
  if (!raised.ok) return;
  const api = new KubeApi(await readKubeconfig(labPaths(plan.dir).kubeconfig));
  try {
    const started = await judge({ name: 'pods.ready', run: () => startPods(api, plan, signal) }, signal);
    record(started);
    if (!started.ok) return;
    const scene = await look(api, plan, options.pings, signal);
    await untilEncrypted(scene);
    const checks = checksOf(scene).filter(({ name }) => options.restart || name !== 'agent.restart-lossless');
    for (const check of checks) record(await judge(check, signal));
  } finally {
    api.close();
  }
}

function checksOf(scene: Scene): DemoCheck[] {
  const { families } = scene.plan;
  return [
    ...families.flatMap((family) => peerModeChecks(scene, family)),
    ...families.flatMap((family) => connectivityChecks(scene, family)),
    ...families.flatMap((family) => encryptionChecks(scene, family)),
    ...families.flatMap((family) => serviceChecks(scene, family)),
    ...families.flatMap((family) => changeChecks(scene, family)),
    ...families.flatMap((family) => policyChecks(scene, family)),
    ...(scene.plan.clusterPolicies === true ? families.flatMap((family) => clusterPolicyChecks(scene, family)) : []),
    ...traceChecks(scene, families),
    ...flowLogChecks(scene, families),
    ...nodeChecks(scene),
  ];
}

/** Replaces a lab of an earlier demo; one made by `up` is not touched. */
async function raise(plan: LabPlan, options: DemoOptions, signal: AbortSignal): Promise<{ ok: boolean; detail: string }> {
  const paths = labPaths(plan.dir);
  if (existsSync(paths.demoMark)) {
    print('removing the lab of an earlier demo');
    await removeLab(plan.dir, signal);
  } else if (existsSync(paths.state)) {
    throw new SeineError('INVALID_INPUT', `${plan.dir} holds a lab that is not the demo's; use another --dir, or \`seine-lab down\``);
  }
  print(`bringing up ${plan.nodes.length} nodes in ${plan.dir}`);
  const onStep = (text: string, atMs: number) => print(paints.dim(`  ${seconds(atMs)}  ${text}`));
  const tookMs = await bringUp({ plan, agent: options.agent, onStep, onClaimed: () => writeFileWhole(paths.demoMark, '') }, signal);
  return { ok: true, detail: `${plan.nodes.length} nodes in ${seconds(tookMs).trim()}` };
}

async function startPods(api: KubeApi, plan: LabPlan, signal: AbortSignal): Promise<{ ok: boolean; detail: string }> {
  const [wanted, guarded] = [manifests(plan), guardedManifests(plan)];
  const pods = countPods(wanted);
  print(`starting ${pods + countPods(guarded)} pods`);
  await createAll(api, [...wanted, ...guarded], signal);
  await podsReady(api, pods, signal);
  await podsReady(api, countPods(guarded), signal, guardedNamespace);
  return { ok: true, detail: `${pods + countPods(guarded)} pods` };
}

function countPods(wanted: readonly DemoManifest[]): number {
  return wanted.filter(({ object }) => object['kind'] === 'Pod').length;
}

async function look(api: KubeApi, plan: LabPlan, pings: number | undefined, signal: AbortSignal): Promise<Scene> {
  const [web = [], loop = [], empty = [], rolling = []] = await Promise.all(
    ['web', 'loop', 'empty', 'rolling'].map((name) => clusterIps(api, name, signal)),
  );
  return {
    plan,
    status: await askStatus(plan.dir),
    services: { web, loop, empty, rolling },
    nodePorts: await nodePorts(api, 'web', signal),
    pings,
    setRolling: (pod, is) => setRolling(api, pod, is, signal),
    setClientsMayAsk: (may) => setClientsMayAsk(api, may, signal),
    putClusterPolicy: (policy) => putClusterPolicy(api, policy, signal),
    removeClusterPolicy: (name) => removeClusterPolicy(api, name, signal),
    setLive: (data) => setLive(api, data, signal),
    addGuarded: (name, until) => addGuarded(api, plan, name, until),
    removeGuarded: async (name, until) =>
      void (await api.send({ method: 'DELETE', path: `/api/v1/namespaces/${guardedNamespace}/pods/${name}` }, until)),
  };
}

async function addGuarded(api: KubeApi, plan: LabPlan, name: string, signal: AbortSignal): Promise<PodStatusLine> {
  const isGuarded = ({ namespace }: PodStatusLine) => namespace === guardedNamespace;
  const { pods: before } = await askStatus(plan.dir);
  await createAll(api, [newPod(name, plan)], signal);
  await podsReady(api, before.filter(isGuarded).length + 1, signal, guardedNamespace);
  const { pods } = await askStatus(plan.dir);
  const pod = pods.find((each) => isGuarded(each) && each.name === name);
  if (pod === undefined) throw new SeineError('UNAVAILABLE', `${guardedNamespace}/${name} does not run`);
  return pod;
}

async function judge(check: DemoCheck, signal: AbortSignal): Promise<DemoCheckResult> {
  const start = performance.now();
  const verdict = await check.run(signal).catch((error: unknown) => {
    if (signal.aborted) throw error;
    return { ok: false, detail: error instanceof Error ? error.message : String(error) };
  });
  return { name: check.name, ...verdict, ms: Math.round(performance.now() - start) };
}

async function nextSteps(plan: LabPlan, { dir }: DemoOptions): Promise<string> {
  const lab = labCommand(dir === defaultLabDir ? undefined : plan.dir);
  try {
    const web = demoPod({ status: await askStatus(plan.dir) }, 'web', 1);
    return howToGoOn(plan, lab, web.ips[0] ?? '');
  } catch {
    // The lab or its pods did not start: the table has the reason, and the lab can still be removed.
    return `Look into ${labPaths(plan.dir).daemonLog}. Remove it all:\n  ${lab} down`;
  }
}

/** The command as it can be typed here. @param dir if it is not the default one */
function labCommand(dir: string | undefined): string {
  const fromHere = relative(process.cwd(), labProgram);
  const program = fromHere.startsWith('..') ? labProgram : fromHere;
  return dir === undefined ? program : `SEINE_LAB_DIR=${dir} ${program}`;
}

function print(text: string): void {
  process.stderr.write(`${text}\n`);
}

const interrupted = new AbortController();
for (const name of ['SIGINT', 'SIGTERM'] as const) process.once(name, () => interrupted.abort());
try {
  process.exitCode = await main(command.parse().opts<DemoOptions>(), interrupted.signal);
} catch (error) {
  print(
    interrupted.signal.aborted
      ? `demo: interrupted; \`${labCommand(undefined)} down\` removes what is there`
      : `demo: ${SeineError.from(error, 'demo').message}`,
  );
  process.exitCode = 1;
}
