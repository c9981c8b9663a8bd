import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { ovsProcess } from '../../lab/node/ovs.ts';
import { nodePaths } from '../../lab/plan/names.ts';
import { tables } from '../../src/dataplane/pipeline/tables.ts';
import { OpenFlowConnection } from '../../src/openflow/connection/connection.ts';
import { decodeGroupDescriptions, type Group, writeGroupDescRequest } from '../../src/openflow/groups/group.ts';
import { isSettled, restingMemory, timeRestarts, untilSettled } from './agent-rows.ts';
import { BenchLab, makeNamespaces, until } from './bench-lab.ts';
import { addLargeServices, type ManyServices, remoteEndpoint, sliceName } from './cluster-fill.ts';
import { connectionRowNames, connectionRows } from './connection-rows.ts';
import { kubeProxyShaped } from './kube-proxy-shape.ts';
import { loopRows, noteHolds } from './loop-rows.ts';
import type { Measured } from './row.ts';
import type { SceneOptions } from './scenes.ts';

const of10k: ManyServices = { services: 10_000, endpoints: 10 };
const signal = new AbortController().signal;
const coldRuns = 3;
const switchPollMs = 25;
/** Small compared with a quarter of a second, the duration of the quickest of these rows. */
const agentPollMs = 25;
const changes = 600;
const restarts = 5;
/** Addresses of the endpoints of changes, so that each is new. */
const spareEndpoints = 1_000_000;
let spares = 0;

const changeRowNames = ['svc.change', 'svc.change.p99', 'svc.restart.ready', 'svc.restart.flowmods', 'svc.rss10k', 'svc.rss10k.vswitchd'];

export const tenThousandRowNames = ['svc.cold10k', ...changeRowNames, ...connectionRowNames];

/** Ten thousand Services of ten endpoints each, created before the node first sees them. */
export async function tenThousandServices(want: SceneOptions): Promise<readonly Measured[]> {
  return await withServices(of10k, want, async (lab) => {
    const { selected, print } = want;
    const rows: Measured[] = [];
    // First, with the agent as it was started: repeated cold starts would not be what a node sees.
    if (selected('svc.rss10k')) rows.push({ name: 'svc.rss10k', unit: 'MiB', ours: await restingMemory(lab) });
    if (selected('svc.rss10k.vswitchd')) rows.push({ name: 'svc.rss10k.vswitchd', unit: 'MiB', ours: [switchMemory(lab)] });
    if (selected('svc.cold10k')) rows.push(await coldRow('svc.cold10k', lab, of10k, print));
    if (['svc.change', 'svc.change.p99'].some(selected)) rows.push(...(await changeRows(lab, print)));
    if (['svc.restart.ready', 'svc.restart.flowmods'].some(selected)) rows.push(...(await restartRows(lab, print)));
    if (connectionRowNames.some(selected)) rows.push(...(await connectionRows(lab, print)));
    return rows.filter(({ name }) => selected(name));
  });
}

/** The same, with an agent that records how long its event loop is blocked. */
export async function loopOfTenThousand(want: SceneOptions): Promise<readonly Measured[]> {
  const holds = join(tmpdir(), `seine-holds-${process.pid}`);
  const takeBack = noteHolds(holds);
  try {
    const rows = await withServices(of10k, want, async (lab) => [...(await loopRows(lab, holds, want.print))]);
    return rows.filter(({ name }) => want.selected(name));
  } finally {
    takeBack();
    rmSync(holds, { force: true });
  }
}

/** A cold start with this number of Services of one size, compared with `ovs-ofctl` loading the same. */
export function coldScene(name: string, many: ManyServices): (want: SceneOptions) => Promise<readonly Measured[]> {
  return (want) => withServices(many, want, async (lab) => [await coldRow(name, lab, many, want.print)]);
}

/** A thousand Services, compared with nftables loading the rules that kube-proxy would create for them. */
export async function besidePacketFilter(want: SceneOptions): Promise<readonly Measured[]> {
  const many: ManyServices = { services: 1_000, endpoints: 10 };
  return await withServices(many, want, async (lab) => {
    const { ours } = await coldRow('', lab, many, want.print);
    const file = join(lab.paths.dir, 'kube-proxy-shaped.nft');
    writeFileSync(file, kubeProxyShaped(many));
    const values: number[] = [];
    for (let run = 0; run < coldRuns; run++) {
      const netns = lab.netns(`nft-${run}`);
      makeNamespaces([netns]);
      const startedMs = performance.now();
      await lab.exec('nsenter', `--net=/run/netns/${netns}`, 'nft', '-f', file);
      values.push(performance.now() - startedMs);
    }
    return [{ name: 'svc.cold1000', unit: 'ms', ours, peer: { name: "nft -f of kube-proxy's shape", values } }];
  });
}

async function withServices(
  many: ManyServices,
  { print }: SceneOptions,
  measure: (lab: BenchLab) => Promise<Measured[]>,
): Promise<Measured[]> {
  print(`a node with ${many.services} Services of ${many.endpoints} endpoints`);
  const lab = await BenchLab.start({ families: ['ipv4'], cluster: (objects) => addLargeServices(objects, many) });
  try {
    await untilServed(lab, many.services);
    await untilSettled(lab);
    print(`  ${await lab.metric('desired_entries', { part: 'bridge' })} entries on its bridge`);
    return await measure(lab);
  } finally {
    await lab.remove();
  }
}

/**
 * Time from the agent's first list request to the last acknowledgement, on a bridge without flows and groups; in turn with `ovs-ofctl`
 * loading the same groups and flows from files, which is the lower bound.
 */
async function coldRow(name: string, lab: BenchLab, { services }: ManyServices, print: SceneOptions['print']): Promise<Measured> {
  const [groups, flows] = await writeFloor(lab);
  const ours: number[] = [];
  const values: number[] = [];
  for (let run = 0; run < coldRuns; run++) {
    await lab.agent('stop');
    await emptyBridge(lab);
    const startedMs = performance.now();
    await ofctl(lab, 'add-groups', 'br-int', groups);
    await ofctl(lab, 'add-flows', 'br-int', flows);
    values.push(performance.now() - startedMs);
    await emptyBridge(lab);
    const bundleMs = performance.now();
    await ofctl(lab, 'add-groups', 'br-int', groups);
    await ofctl(lab, '--bundle', 'add-flows', 'br-int', flows);
    print(`  ovs-ofctl --bundle loading the same: ${(performance.now() - bundleMs).toFixed(0)} ms`);
    await emptyBridge(lab);
    forget(lab);
    ours.push(await coldStart(lab, services));
    print(`  cold: ${ours.at(-1)?.toFixed(0)} ms, ovs-ofctl ${values.at(-1)?.toFixed(0)} ms`);
  }
  return { name, unit: 'ms', ours, peer: { name: 'ovs-ofctl loading the same', values } };
}

async function coldStart(lab: BenchLab, services: number): Promise<number> {
  const before = readFileSync(lab.paths.agentLog, 'utf8').length;
  await lab.agent('start');
  let endMs = 0;
  await untilServed(lab, services);
  endMs = Date.now();
  while (!(await isSettled(lab))) {
    await sleep(agentPollMs);
    endMs = Date.now();
  }
  return endMs - firstListMs(readFileSync(lab.paths.agentLog, 'utf8').slice(before));
}

/** Each Service has a flow that handles its new connections. Scrapes of the agent's metrics would slow it down. */
async function untilServed(lab: BenchLab, services: number): Promise<void> {
  await withConnection(lab, async (connection) => {
    const isThere = async (): Promise<boolean> => {
      await sleep(switchPollMs);
      return (await connection.aggregate({ table: tables.balance.id }, signal)).flows >= services;
    };
    await until(isThere, 120_000, 'every Service to be on the bridge');
  });
}

/** Time of the agent's first list request, from its log lines about each synced resource (ms since 1970). */
function firstListMs(log: string): number {
  const begun = log.split('\n').flatMap((line) => {
    if (!line.includes('synced with the API server')) return [];
    const { time, tookMs } = JSON.parse(line) as { time: string; tookMs: number };
    return Date.parse(time) - tookMs;
  });
  if (begun.length === 0) throw new Error('the agent did not say when it listed anything');
  return Math.min(...begun);
}

/** Content of the bridge, as files `ovs-ofctl` loads. */
async function writeFloor(lab: BenchLab): Promise<readonly [groups: string, flows: string]> {
  const kept = (dump: string, mark: string) =>
    `${dump
      .split('\n')
      .filter((line) => line.includes(mark))
      .join('\n')}\n`;
  const files = [join(lab.paths.dir, 'floor.groups'), join(lab.paths.dir, 'floor.flows')] as const;
  writeFileSync(files[0], kept(await ofctl(lab, 'dump-groups', 'br-int'), 'group_id='));
  writeFileSync(files[1], kept(await ofctl(lab, '--no-stats', 'dump-flows', 'br-int'), 'actions='));
  return files;
}

function ofctl(lab: BenchLab, ...args: readonly string[]): Promise<string> {
  return lab.exec('ovs-ofctl', '-O', 'OpenFlow15', ...args);
}

async function emptyBridge(lab: BenchLab): Promise<void> {
  await ofctl(lab, 'del-flows', 'br-int');
  await ofctl(lab, 'del-groups', 'br-int');
}

/** Deletes the agent's copies of the cluster on disk; there are no pods whose addresses it would lose. */
function forget(lab: BenchLab): void {
  const { stateDir } = lab.paths;
  for (const name of readdirSync(stateDir)) rmSync(join(stateDir, name), { recursive: true });
}

/**
 * One endpoint of one Service replaced: from the arrival of the watch event, as seen by our own watch, until the Service's group in OVS has
 * the new address.
 */
async function changeRows(lab: BenchLab, print: SceneOptions['print']): Promise<readonly Measured[]> {
  print(`  ${changes} changes of an endpoint`);
  const ours = await timeChanges(lab, changes);
  return [
    { name: 'svc.change', unit: 'ms', ours },
    { name: 'svc.change.p99', unit: 'ms', ours: [ours.toSorted((a, b) => a - b)[Math.ceil(ours.length * 0.99) - 1] ?? Number.NaN] },
  ];
}

const slicesPath = '/apis/discovery.k8s.io/v1/namespaces/default/endpointslices';

/** @returns duration of each (ms) */
export async function timeChanges(lab: BenchLab, count: number): Promise<readonly number[]> {
  const stop = new AbortController();
  const lastMessageMs = new Map<string, number>();
  const listed = Promise.withResolvers<void>();
  const following = lab.api.follow(slicesPath, new Map(), (key) => lastMessageMs.set(key, performance.now()), listed.resolve, stop.signal);
  await listed.promise;
  try {
    return await withConnection(lab, async (connection) => {
      const groups = await groupsByEndpoint(connection);
      const times: number[] = [];
      for (let change = 0; change < count; change++) {
        const service = (change * 163) % of10k.services;
        const group = groups.get(registerOf(remoteEndpoint(service * of10k.endpoints + 1)));
        if (group === undefined) throw new Error(`no group leads to the endpoints of Service ${service}`);
        const key = `default/${sliceName(service, 0)}`;
        lastMessageMs.delete(key);
        const ledMs = await replaceEndpoint({ lab, connection }, { service, group });
        await until(async () => lastMessageMs.has(key), 10_000, `news of ${key}`);
        times.push(Math.max(0, ledMs - (lastMessageMs.get(key) ?? Number.NaN)));
        await sleep(20);
      }
      return times;
    });
  } finally {
    stop.abort();
    await following;
  }
}

/** Gives the first endpoint of a Service an unused address. @returns time when the group has it (`performance.now()`) */
async function replaceEndpoint(
  { lab, connection }: { readonly lab: BenchLab; readonly connection: OpenFlowConnection },
  { service, group }: { readonly service: number; readonly group: number },
): Promise<number> {
  const fresh = remoteEndpoint(spareEndpoints + spares++);
  const others = Array.from({ length: of10k.endpoints - 1 }, (_, each) => remoteEndpoint(service * of10k.endpoints + each + 1));
  const path = `${slicesPath}/${sliceName(service, 0)}`;
  const body = { endpoints: [fresh, ...others] };
  await lab.api.send({ method: 'PATCH', path, body, contentType: 'application/merge-patch+json' }, signal);
  const isThere = async (): Promise<boolean> => leadsTo(await groupOf(connection, group), registerOf(fresh));
  await until(isThere, 10_000, `a group to lead to ${registerOf(fresh)}`);
  return performance.now();
}

/** The number of the first group with an address, for each. */
async function groupsByEndpoint(connection: OpenFlowConnection): Promise<ReadonlyMap<number, number>> {
  const found = new Map<number, number>();
  for (const { id, buckets } of await connection.gather(writeGroupDescRequest, decodeGroupDescriptions, signal))
    for (const value of buckets.flatMap(({ actions }) => loaded(actions))) if (!found.has(value)) found.set(value, id);
  return found;
}

async function groupOf(connection: OpenFlowConnection, id: number): Promise<Group | undefined> {
  const [group] = await connection.gather((w) => writeGroupDescRequest(w, id), decodeGroupDescriptions, signal);
  return group;
}

function leadsTo(group: Group | undefined, value: number): boolean {
  return group?.buckets.some(({ actions }) => loaded(actions).includes(value)) ?? false;
}

/** IPv4 addresses in a bucket's actions: translations, or values of whole registers. */
function loaded(actions: Group['buckets'][number]['actions']): number[] {
  return actions.flatMap((action) => {
    if (action.kind === 'ct') return action.nat?.addresses?.family === 'ipv4' ? action.nat.addresses.first : [];
    return action.kind === 'setField' && action.field.startsWith('reg') && action.mask === undefined ? Number(action.value) : [];
  });
}

/** An IPv4 address as the value of a register. */
function registerOf(endpoint: object): number {
  const { addresses } = endpoint as { readonly addresses: readonly string[] };
  return (addresses[0] ?? '').split('.').reduce((value, part) => value * 256 + Number(part), 0);
}

/** A restart with nothing changed. */
async function restartRows(lab: BenchLab, print: SceneOptions['print']): Promise<readonly Measured[]> {
  print(`  ${restarts} restarts`);
  const { readyMs, flowMods } = await timeRestarts(lab, restarts);
  return [
    { name: 'svc.restart.ready', unit: 'ms', ours: readyMs },
    { name: 'svc.restart.flowmods', unit: 'messages', ours: flowMods },
  ];
}

/** Resident memory of ovs-vswitchd, in MiB. */
function switchMemory(lab: BenchLab): number {
  const pid = ovsProcess(nodePaths(lab.plan.dir, lab.node.name).dir, 'ovs-vswitchd')?.pid;
  const [, kib = ''] = /^VmRSS:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? [];
  return Number(kib) / 1024;
}

export async function withConnection<T>(lab: BenchLab, use: (connection: OpenFlowConnection) => Promise<T>): Promise<T> {
  const stop = new AbortController();
  const connection = new OpenFlowConnection({ endpoint: `unix:${lab.paths.dir}/br-int.mgmt` });
  const running = connection.run(stop.signal).catch(() => {});
  try {
    await connection.untilUp(AbortSignal.timeout(10_000));
    return await use(connection);
  } finally {
    stop.abort();
    await running;
  }
}
