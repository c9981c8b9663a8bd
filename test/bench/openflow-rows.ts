import { execFile } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { promisify } from 'node:util';
import { ByteWriter } from '../../src/base/bytes/bytes.ts';
import { type BridgeKey, type BridgeValue, observedFlow } from '../../src/dataplane/targets/bridge/bridge-entry.ts';
import { OpenFlowConnection } from '../../src/openflow/connection/connection.ts';
import { writeFlow } from '../../src/openflow/flows/flow.ts';
import { noInstructions, writeFlowMod } from '../../src/openflow/flows/flow-mod.ts';
import { encodeInstructions } from '../../src/openflow/flows/instructions.ts';
import { writeGroupMod } from '../../src/openflow/groups/group.ts';
import { encodeMatch } from '../../src/openflow/match/match.ts';
import { meterFlag, writeMeterMod } from '../../src/openflow/meter.ts';
import { ALL_TABLES } from '../../src/openflow/protocol.ts';
import { startSwitch, type TestSwitch } from '../support/open-vswitch.ts';
import { codecRowNames, codecRows } from './openflow-codec-rows.ts';
import { type BenchFlow, benchFlow } from './openflow-flows.ts';
import type { Measured } from './row.ts';
import type { SceneOptions } from './scenes.ts';

const liveRowNames = ['of.roundtrip', 'of.bundle4', 'of.install100k', 'of.dump100k', 'of.dump100k.blocked'] as const;
export const openflowRowNames = [...codecRowNames, ...liveRowNames] as const;

const many = 100_000;
const runs = 5;
const exchanges = 3_000;
const bridge = 'br-int';
const execute = promisify(execFile);

export async function openflowRows({ selected, print }: SceneOptions): Promise<readonly Measured[]> {
  const rows: Measured[] = codecRows(selected, print);
  if (!liveRowNames.some(selected)) return rows;
  const ovs = startSwitch('--disable-system');
  const stop = new AbortController();
  try {
    ovs.exec('ovs-vsctl', 'add-br', bridge, '--', 'set', 'Bridge', bridge, 'datapath_type=netdev', 'fail_mode=secure');
    const connection = new OpenFlowConnection({ endpoint: `unix:${ovs.runDir}/${bridge}.mgmt` });
    const running = connection.run(stop.signal);
    await connection.untilUp(stop.signal);
    const scene = { ovs, connection, signal: stop.signal };
    await makeWhatFlowsUse(scene);
    if (selected('of.roundtrip')) rows.push(await exchangeRow('of.roundtrip', 1, scene));
    if (selected('of.bundle4')) rows.push(await exchangeRow('of.bundle4', 4, scene));
    if (liveRowNames.slice(2).some(selected)) rows.push(...(await manyRows(scene, print)).filter(({ name }) => selected(name)));
    stop.abort();
    await running;
  } finally {
    stop.abort();
    await ovs.stop();
  }
  return rows;
}

interface Scene {
  readonly ovs: TestSwitch;
  readonly connection: OpenFlowConnection;
  readonly signal: AbortSignal;
}

const scratch = new ByteWriter(4096);

function message(write: (w: ByteWriter) => void): Uint8Array {
  write(scratch.truncate(0));
  return scratch.finish();
}

/** Encodes one after the other, into the same bytes. */
function* encoded(flows: readonly BenchFlow[]): Generator<Uint8Array> {
  for (const flow of flows) {
    writeFlow(scratch.truncate(0), flow);
    yield scratch.written();
  }
}

async function makeWhatFlowsUse({ connection, signal }: Scene): Promise<void> {
  const meter = { id: 1, flags: meterFlag.kilobits, bands: [{ kind: 'drop', rate: 1_000_000, burst: 100_000 }] } as const;
  const groups = Array.from({ length: 1_000 }, (_, index) =>
    message((w) =>
      writeGroupMod(w, {
        command: 'add',
        id: index + 1,
        type: 'select',
        buckets: [{ id: 0, weight: 1, actions: [{ kind: 'output', port: 1 }] }],
      }),
    ),
  );
  await connection.apply([message((w) => writeMeterMod(w, { command: 'add', ...meter })), ...groups], signal);
}

/** One change with its confirmation: a flow-mod with a barrier, or several in a bundle. */
async function exchangeRow(name: string, count: number, { connection, signal }: Scene): Promise<Measured> {
  const ours: number[] = [];
  for (let run = 0; run < exchanges; run++) {
    const flows = Array.from({ length: count }, (_, index) => benchFlow(count * run + index));
    const startedMs = performance.now();
    const messages = flows.map((flow) => message((w) => writeFlow(w, flow)));
    await (count === 1 ? connection.apply(messages, signal) : connection.bundle(messages, signal));
    if (run >= exchanges / 10) ours.push(performance.now() - startedMs); // warm-up
  }
  await removeAll({ connection, signal });
  return { name, unit: 'ms', ours };
}

async function removeAll({ connection, signal }: Pick<Scene, 'connection' | 'signal'>): Promise<void> {
  const match = encodeMatch({});
  const mod = { command: 'delete', table: ALL_TABLES, priority: 0, match, instructions: noInstructions } as const;
  await connection.apply([message((w) => writeFlowMod(w, mod))], signal);
}

/** Installs and dumps of the same flows, ours and the tool's in turn. */
async function manyRows(scene: Scene, print: (text: string) => void): Promise<Measured[]> {
  print(`${many} flows into a switch, and back`);
  const { ovs, connection, signal } = scene;
  const flows = Array.from({ length: many }, (_, index) => benchFlow(index));
  const selected = new Map(flows.map(wantedEntry));
  const file = join(ovs.runDir, 'flows.txt');
  const install: Values = { ours: [], peer: [] };
  const dump: Values = { ours: [], peer: [] };
  const blocked: number[] = [];
  for (let run = 0; run < runs; run++) {
    install.ours.push(
      await timed(async () => connection.bundle({ length: flows.length, [Symbol.iterator]: () => encoded(flows) }, signal)),
    );
    if (run === 0) writeFileSync(file, ovs.exec('ovs-ofctl', '-O', 'OpenFlow15', '--no-stats', 'dump-flows', bridge));
    const turn = await compared(selected, scene);
    dump.ours.push(turn.tookMs);
    blocked.push(turn.blockedMs);
    dump.peer.push(await timed(() => ofctl(ovs, 'dump-flows', bridge)));
    await removeAll(scene);
    install.peer.push(await timed(() => ofctl(ovs, '--bundle', 'add-flows', bridge, file)));
    await removeAll(scene);
  }
  const peer = (name: string, values: readonly number[]) => ({ name: `ovs-ofctl ${name}`, values });
  return [
    { name: 'of.install100k', unit: 'ms', ours: install.ours, peer: peer('--bundle add-flows', install.peer) },
    { name: 'of.dump100k', unit: 'ms', ours: dump.ours, peer: peer('dump-flows', dump.peer) },
    { name: 'of.dump100k.blocked', unit: 'ms', ours: blocked },
  ];
}

interface Values {
  readonly ours: number[];
  readonly peer: number[];
}

/** The form in which the agent keeps desired flows of a bridge. */
function wantedEntry({ table, priority, cookie, match, does }: BenchFlow): readonly [BridgeKey, BridgeValue] {
  const none = { idleTimeout: 0, hardTimeout: 0, importance: 0, flags: 0, packets: 0n, bytes: 0n, durationNs: 0n };
  return observedFlow({ table, priority, cookie, match: encodeMatch(match), instructions: encodeInstructions(does), ...none });
}

/** Reads all flows and compares each with the desired state. @returns also the longest time in which nothing else could run */
async function compared(
  selected: ReadonlyMap<BridgeKey, BridgeValue>,
  { connection, signal }: Scene,
): Promise<{ readonly tookMs: number; readonly blockedMs: number }> {
  const delay = monitorEventLoopDelay({ resolution: 1 });
  delay.enable();
  let equal = 0;
  const tookMs = await timed(() =>
    connection.dumpFlows(
      {},
      (entry) => {
        const [key, value] = observedFlow(entry);
        if (selected.get(key) === value) equal++;
      },
      signal,
    ),
  );
  delay.disable();
  if (equal !== selected.size) throw new Error(`${equal} of ${selected.size} flows came back as they were sent`);
  return { tookMs, blockedMs: delay.max / 1e6 };
}

async function timed(work: () => Promise<unknown>): Promise<number> {
  const startedMs = performance.now();
  await work();
  return performance.now() - startedMs;
}

/** The tool, without a reader of its output: `dump-flows` into a pipe would also measure this process. */
async function ofctl({ netns, runDir }: TestSwitch, ...args: readonly string[]): Promise<void> {
  const command = ['ovs-ofctl', '-O', 'OpenFlow15', ...args].join(' ');
  const env = { ...process.env, OVS_RUNDIR: runDir };
  await execute('nsenter', [`--net=/run/netns/${netns}`, 'sh', '-c', `exec ${command} >/dev/null`], { env });
}
