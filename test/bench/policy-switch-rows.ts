import { execFile } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { LoopTurns } from '../../src/base/async/loop-turns.ts';
import type { Steps } from '../../src/base/async/steps.ts';
import { nothing } from '../../src/dataplane/desired/host-entries.ts';
import type { Owner } from '../../src/dataplane/pipeline/cookie.ts';
import type { Flow } from '../../src/dataplane/pipeline/flow.ts';
import { tables } from '../../src/dataplane/pipeline/tables.ts';
import { DesiredState } from '../../src/dataplane/reconcile/desired-state.ts';
import { Reconciler } from '../../src/dataplane/reconcile/reconciler.ts';
import { type BridgeKey, type BridgeValue, depthOfKey, encodeBridgeEntries } from '../../src/dataplane/targets/bridge/bridge-entry.ts';
import { BridgeTarget } from '../../src/dataplane/targets/bridge/bridge-target.ts';
import { RowPacking } from '../../src/dataplane/targets/bridge/row-packing.ts';
import { OpenFlowConnection } from '../../src/openflow/connection/connection.ts';
import { PolicyEngine } from '../../src/policy/engine/policy-engine.ts';
import { addressRows } from '../../src/policy/flows/address-rows.ts';
import { PolicyFlows } from '../../src/policy/flows/policy-flows.ts';
import { largeNode } from '../support/large-policy-node.ts';
import { startSwitch, type TestSwitch } from '../support/open-vswitch.ts';
import { conjunctionsShaped } from './conjunctions-shape.ts';
import type { Measured } from './row.ts';
import type { SceneOptions } from './scenes.ts';

export const policySwitchRowNames = ['policy.flows', 'policy.flows.load', 'policy.cold', 'policy.cold.cpu'] as const;

const bridge = 'br-int';
const runs = 3;
const addresses = 100_000;
/** Batch size of the agent for a bridge. */
const batchSize = 500;
const sliceMs = 4;
const execute = promisify(execFile);

/**
 * Policy on its way to OVS. `flows`: number of flows of the node in the design's example, compared with a conjunction for each rule and an
 * address for each peer, as Antrea writes them. `cold`: rows of 100,000 addresses on an empty bridge, from known objects until the last
 * acknowledgement, compared with the tool for the same flows.
 */
export async function policySwitchRows({ selected, print }: SceneOptions): Promise<readonly Measured[]> {
  const ovs = startSwitch('--disable-system');
  try {
    ovs.exec('ovs-vsctl', 'add-br', bridge, '--', 'set', 'Bridge', bridge, 'datapath_type=netdev', 'fail_mode=secure');
    const rows: Measured[] = [];
    if (['policy.flows', 'policy.flows.load'].some(selected)) rows.push(...(await flowRows(ovs, print)));
    if (policySwitchRowNames.slice(2).some(selected)) rows.push(...(await coldRows(ovs, print)));
    return rows.filter(({ name }) => selected(name));
  } finally {
    await ovs.stop();
  }
}

function flowsOf(engine: PolicyEngine): ReadonlyMap<Owner, readonly Flow[]> {
  return new PolicyFlows({ families: ['ipv4'] }).update(engine.matrix, engine.update()).wanted;
}

async function flowRows(ovs: TestSwitch, print: SceneOptions['print']): Promise<readonly Measured[]> {
  const node = largeNode();
  const shaped = conjunctionsShaped(node, 'n0');
  const load: Pair = { ours: [], peer: [] };
  print(`policy of 110 pods in 60 namespaces of 100 pods: into an empty switch`);
  const selected = flowsOf(node.engine);
  const ours = [...selected.values()].flat().length;
  const file = join(ovs.runDir, 'conjunctions.txt');
  writeFileSync(file, `${shaped.join('\n')}\n`);
  for (let run = 0; run < runs; run++) {
    const cold = await ColdNode.start(ovs);
    load.ours.push(await timed(() => cold.hold(selected)));
    await cold.stop();
    await empty(ovs);
    load.peer.push(await timed(() => ofctl(ovs, '--bundle', 'add-flows', bridge, file)));
    await empty(ovs);
  }
  return [
    { name: 'policy.flows', unit: 'flows', ours: [ours], peer: { name: 'conjunctions over addresses', values: [shaped.length] } },
    { name: 'policy.flows.load', unit: 'ms', ours: load.ours, peer: { name: 'ovs-ofctl --bundle, conjunctions', values: load.peer } },
  ];
}

interface Pair {
  readonly ours: number[];
  readonly peer: number[];
}

async function coldRows(ovs: TestSwitch, print: SceneOptions['print']): Promise<readonly Measured[]> {
  print(`rows of ${addresses} addresses into an empty switch`);
  const cold: Pair = { ours: [], peer: [] };
  const cpu: number[] = [];
  for (let run = 0; run < runs; run++) {
    const engine = engineOfAddresses();
    const node = await ColdNode.start(ovs);
    const began = process.cpuUsage();
    cold.ours.push(
      await timed(async () => {
        engine.putPod({ namespace: 'ns0', name: 'here', nodeName: 'n0', podIps: ['10.255.0.5'], labels: {}, ports: {} });
        await node.follow(engine);
      }),
    );
    const { user, system } = process.cpuUsage(began);
    cpu.push((user + system) / 1_000);
    const held = Number(/flow_count=(\d+)/.exec(ovs.exec('ovs-ofctl', '-O', 'OpenFlow15', 'dump-aggregate', bridge, identities))?.[1]);
    if (held < addresses) throw new Error(`${held} rows of ${addresses} addresses`);
    if (run === 0) await writeFloor(ovs);
    await node.stop();
    await empty(ovs);
    cold.peer.push(await timed(() => ofctl(ovs, '--bundle', 'add-flows', bridge, floorFile(ovs))));
    await empty(ovs);
    print(
      `  ${cold.ours.at(-1)?.toFixed(0)} ms, ${cpu.at(-1)?.toFixed(0)} of them on a processor; ovs-ofctl ${cold.peer.at(-1)?.toFixed(0)} ms`,
    );
  }
  return [
    { name: 'policy.cold', unit: 'ms', ours: cold.ours, peer: { name: 'ovs-ofctl --bundle of the same', values: cold.peer } },
    { name: 'policy.cold.cpu', unit: 'ms', ours: cpu },
  ];
}

const identities = `table=${tables.sourceIdentity.id}`;

/** Pods of other nodes, all of them matched by a rule's selector; a pod of this node is still to come. */
function engineOfAddresses(): PolicyEngine {
  const engine = new PolicyEngine('n0');
  for (let at = 0; at < 1_000; at++)
    engine.putNode({ name: `n${at}`, podCidrs: [`10.${at >> 2}.${(at & 3) << 6}.0/18`], addresses: [`192.168.${at >> 8}.${at & 255}`] });
  for (let at = 0; at < addresses / 20; at++) engine.putNamespace(`ns${at}`, { 'kubernetes.io/metadata.name': `ns${at}` });
  const peers = [{ namespaces: [], pods: [{ key: 'app', operator: 'In' as const, values: ['a'] }] }];
  engine.putPolicy({ namespace: 'ns0', name: 'one', uid: 'u', generation: 1, podSelector: [], ingress: [{ peers, ports: 'any' }] });
  for (let at = 0; at < addresses; at++) {
    const [node, host] = [1 + (at % 999), 2 + Math.floor(at / 999)];
    engine.putPod({
      namespace: `ns${at % (addresses / 20)}`,
      name: `p${at}`,
      nodeName: `n${node}`,
      podIps: [`10.${node >> 2}.${((node & 3) << 6) + (host >> 8)}.${host & 255}`],
      labels: { app: 'a' },
      ports: {},
    });
  }
  engine.update();
  return engine;
}

const packings = new Map(Object.values(addressRows).map((rows) => [rows, new RowPacking(rows)]));

/** The part of an agent that installs flows in OVS. */
class ColdNode {
  readonly #desired = new DesiredState<BridgeKey, BridgeValue>({ equal: (a, b) => a === b, packings: [...packings.values()] });
  readonly #stop: AbortController;
  readonly #reconciler: Reconciler<BridgeKey, BridgeValue>;
  readonly #running: Promise<unknown>;

  private constructor(connection: OpenFlowConnection, stop: AbortController, running: Promise<unknown>) {
    this.#stop = stop;
    this.#reconciler = new Reconciler({
      name: 'bridge',
      desired: this.#desired,
      target: new BridgeTarget(connection, undefined, [...packings.values()]),
      equal: (a, b) => a === b,
      backoffMs: () => 100,
      batchSize,
      depthOf: depthOfKey,
      events: { round: () => {}, failure: () => {}, refused: () => {}, drift: () => {}, repaired: () => {} },
      now: () => performance.now(),
    });
    this.#running = Promise.all([running, this.#reconciler.run(stop.signal)]).catch(() => undefined);
  }

  static async start(ovs: TestSwitch): Promise<ColdNode> {
    const stop = new AbortController();
    const connection = new OpenFlowConnection({ endpoint: `unix:${ovs.runDir}/${bridge}.mgmt` });
    const running = connection.run(stop.signal);
    await connection.untilUp(stop.signal);
    return new ColdNode(connection, stop, running);
  }

  /** Resolves when OVS has acknowledged the last of them. */
  async hold(selected: ReadonlyMap<Owner, readonly Flow[]>): Promise<void> {
    const turns = new LoopTurns(sliceMs);
    for (const [owner, flows] of selected) {
      this.#desired.set(owner, encodeBridgeEntries(owner, { ...nothing, flows }));
      if (turns.due) await turns.next();
    }
    this.#reconciler.poke();
    await this.#reconciler.realized(this.#desired.revision, this.#stop.signal);
  }

  /** Processes what the engine has not evaluated yet, as the agent does: in turns, while OVS takes what is desired already. */
  async follow(engine: PolicyEngine): Promise<void> {
    const turns = new LoopTurns(sliceMs);
    const steps = this.#round(engine);
    while (!steps.next().done) {
      if (!turns.due) continue;
      this.#reconciler.poke();
      await turns.next();
    }
    this.#reconciler.poke();
    await this.#reconciler.realized(this.#desired.revision, this.#stop.signal);
  }

  *#round(engine: PolicyEngine): Steps {
    const flows = new PolicyFlows({ families: ['ipv4'] });
    const change = yield* engine.round();
    const { wanted: selected, subjects } = yield* flows.round(engine.coming, change);
    for (const part of selected)
      for (const [owner, rows] of part) {
        const packing = 'number' in rows ? packings.get(rows.rows) : undefined;
        if (packing && 'number' in rows) this.#desired.setPacked(owner, packing, packing.placeOf(rows.ip), rows.number | 0);
        else if ('length' in rows) this.#desired.set(owner, encodeBridgeEntries(owner, { ...nothing, flows: rows }));
        yield;
      }
    engine.publish();
    flows.publish(engine.matrix, subjects);
  }

  async stop(): Promise<void> {
    this.#stop.abort();
    await this.#running;
  }
}

function floorFile(ovs: TestSwitch): string {
  return join(ovs.runDir, 'floor.txt');
}

async function writeFloor(ovs: TestSwitch): Promise<void> {
  const dump = ovs.exec('ovs-ofctl', '-O', 'OpenFlow15', '--no-stats', 'dump-flows', bridge).split('\n');
  writeFileSync(floorFile(ovs), `${dump.filter((line) => line.includes('actions=')).join('\n')}\n`);
}

async function empty(ovs: TestSwitch): Promise<void> {
  await ofctl(ovs, 'del-flows', bridge);
}

async function ofctl({ netns, runDir }: TestSwitch, ...args: readonly string[]): Promise<void> {
  const env = { ...process.env, OVS_RUNDIR: runDir };
  await execute('nsenter', [`--net=/run/netns/${netns}`, 'ovs-ofctl', '-O', 'OpenFlow15', ...args], { env });
}

async function timed(work: () => Promise<unknown>): Promise<number> {
  const startMs = performance.now();
  await work();
  return performance.now() - startMs;
}
