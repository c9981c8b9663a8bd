import { join } from 'node:path';
import { labPaths } from '../../lab/plan/names.ts';
import { type BenchLab, makeNamespaces } from './bench-lab.ts';
import { type BenchPod, CniSide, type SideOptions } from './cni-side.ts';
import type { Measured } from './row.ts';

const debianPlugins = '/usr/lib/cni';
/** Number of spare namespaces, so that none is reused immediately. */
const spare = 70;
const fillWidth = 16;

export const cniRowNames = [
  'cni.add.10',
  'cni.del.10',
  'cni.check',
  'plugin.version',
  'cni.chain.10',
  'cni.add.100',
  'cni.add.parallel64',
  'cni.add.300',
] as const;
type CniRowName = (typeof cniRowNames)[number];

/** Limits that a runtime passes for a pod without annotations; Debian's plugin requires each. */
const noLimit = { ingressRate: 0, ingressBurst: 0, egressRate: 0, egressBurst: 0 };

/** Our plugin on the lab's node, and Debian's `bridge` with `host-local` on its own node: the same families and counts. */
function openSides(lab: BenchLab): { readonly ours: CniSide; readonly peer: CniSide } {
  const node = lab.netns('peer');
  makeNamespaces([node]);
  const ranges = lab.plan.families.map((family) => [{ subnet: family === 'ipv4' ? '10.250.0.0/16' : 'fd00:250::/64' }]);
  const routes = lab.plan.families.map((family) => ({ dst: family === 'ipv4' ? '0.0.0.0/0' : '::/0' }));
  const folder = join(lab.paths.dir, 'bench-peer');
  const peer = new CniSide({
    name: 'bridge + host-local',
    program: join(debianPlugins, 'bridge'),
    pluginFolders: debianPlugins,
    place: node,
    folder,
    chained: [
      { type: 'portmap', runtimeConfig: {} },
      { type: 'bandwidth', runtimeConfig: { bandwidth: noLimit } },
    ],
    conf: {
      cniVersion: '1.0.0',
      name: 'bench',
      type: 'bridge',
      bridge: 'cni0',
      isGateway: true,
      ipam: { type: 'host-local', dataDir: join(folder, 'leases'), ranges, routes },
    },
  });
  return { ours: openOurs(lab), peer };
}

export function openOurs(lab: BenchLab, more: Pick<SideOptions, 'isHurried'> = {}): CniSide {
  const bin = labPaths(lab.plan.dir).bin;
  return new CniSide({
    ...more,
    name: 'seine',
    program: join(bin, 'seine'),
    pluginFolders: bin,
    place: lab.node.netns,
    folder: join(lab.paths.dir, 'bench'),
    conf: {
      cniVersion: '1.0.0',
      name: 'bench',
      type: 'seine',
      agentSocket: lab.paths.cniSocket,
      stateDir: lab.paths.stateDir,
      deadline: 30,
    },
  });
}

/**
 * Both sides with ten pods each, warmed up.
 *
 * @param named called with all pods that ours will attach, before the first one
 */
export async function startCniBench(
  lab: BenchLab,
  selected: (name: string) => boolean,
  print: (text: string) => void,
  named: (pods: readonly BenchPod[]) => Promise<void> = async () => undefined,
): Promise<CniBench> {
  const most = selected('cni.add.300') ? 300 : selected('cni.add.100') ? 100 : 10;
  const bench = new CniBench(lab, print);
  print(`namespaces for ${most} pods of each side`);
  const pods = bench.ours.prepare(lab, most + spare);
  bench.peer.prepare(lab, most + spare);
  await named(pods);
  await bench.fillTo(10);
  await bench.warmUp();
  return bench;
}

export async function cniRows(bench: CniBench, selected: (name: string) => boolean, print: (text: string) => void): Promise<Measured[]> {
  const measure: Record<CniRowName, () => Promise<readonly Measured[]>> = {
    'cni.add.10': () => bench.addAndDelete(10, 40),
    'cni.del.10': async () => [],
    'cni.check': () => bench.check(40),
    'plugin.version': () => bench.version(60),
    'cni.chain.10': () => bench.chain(10, 40),
    'cni.add.100': () => bench.addAndDelete(100, 30),
    'cni.add.parallel64': () => bench.parallel(64, 6),
    'cni.add.300': () => bench.addAndDelete(300, 30),
  };
  const names = new Set(cniRowNames.filter(selected));
  if (names.has('cni.del.10')) names.add('cni.add.10');
  const rows: Measured[] = [];
  for (const name of cniRowNames) {
    if (!names.has(name)) continue;
    print(name);
    rows.push(...(await measure[name]()));
  }
  await bench.fillTo(10);
  return rows.filter((row) => selected(row.name));
}

class CniBench {
  readonly ours: CniSide;
  readonly peer: CniSide;
  readonly #lab: BenchLab;
  readonly #print: (text: string) => void;

  constructor(lab: BenchLab, print: (text: string) => void) {
    const { ours, peer } = openSides(lab);
    this.ours = ours;
    this.peer = peer;
    this.#lab = lab;
    this.#print = print;
  }

  get #sides(): readonly CniSide[] {
    return [this.ours, this.peer];
  }

  async fillTo(count: number): Promise<void> {
    for (const side of this.#sides) {
      const missing = count - side.attached.length;
      if (missing > 0) await side.add(missing, fillWidth);
      else if (missing < 0) await side.del(-missing, fillWidth);
    }
  }

  /** The first runs are compiled and cached: on a node that has run for a minute, that is done. */
  async warmUp(): Promise<void> {
    for (let round = 0; round < 10; round++)
      for (const side of this.#sides) {
        await side.add(2, 1);
        await side.del(2, 1);
      }
  }

  /** Adds one pod and deletes it, with this number of other pods. */
  async addAndDelete(beside: number, runs: number): Promise<readonly Measured[]> {
    await this.fillTo(beside);
    const add = new Pair();
    const del = new Pair();
    const before = await stageSums(this.#lab);
    for (let run = 0; run < runs; run++) {
      for (const [side, adds, dels] of this.#inTurn(run, add, del)) {
        adds.push(...(await side.add(1, 1)).each);
        dels.push(...(await side.del(1, 1)).each);
      }
    }
    const after = await stageSums(this.#lab);
    const spent = stages.map((stage) => ({ stage, ms: ((after.get(stage) ?? 0) - (before.get(stage) ?? 0)) / runs }));
    return [
      { name: `cni.add.${beside}`, unit: 'ms', ...this.#values(add) },
      { name: `cni.del.${beside}`, unit: 'ms', ...this.#values(del) },
      ...spent.map(({ stage, ms }) => ({ name: `cni.add.${beside}.${stage}`, unit: 'ms', ours: [ms] })),
    ];
  }

  /** Adds this number of pods concurrently, in pods per second. */
  async parallel(width: number, runs: number): Promise<readonly Measured[]> {
    await this.fillTo(10);
    const rates = new Pair();
    for (let run = 0; run < runs; run++)
      for (const [side, values] of this.#inTurn(run, rates, rates)) {
        const { allMs } = await side.add(width, width);
        values.push((width * 1000) / allMs);
        await side.del(width, width, 'go');
      }
    return [{ name: `cni.add.parallel${width}`, unit: 'pods/s', ...this.#values(rates) }];
  }

  /** Like `addAndDelete`, with the whole list of a node: ours is alone in its own, the peer's has plugins for host ports and bandwidth. */
  async chain(beside: number, runs: number): Promise<readonly Measured[]> {
    await this.fillTo(beside);
    const times = new Pair();
    for (let run = 0; run < runs; run++)
      for (const [side, values] of this.#inTurn(run, times, times)) {
        values.push(await side.addByChain());
        await side.delByChain();
      }
    return [{ name: `cni.chain.${beside}`, unit: 'ms', ...this.#values(times) }];
  }

  async check(runs: number): Promise<readonly Measured[]> {
    await this.fillTo(10);
    const times = new Pair();
    for (let run = 0; run < runs; run++)
      for (const [side, values] of this.#inTurn(run, times, times)) {
        const pod = side.attached[run % side.attached.length];
        if (pod) values.push(await side.check(pod));
      }
    return [{ name: 'cni.check', unit: 'ms', ...this.#values(times) }];
  }

  async version(runs: number): Promise<readonly Measured[]> {
    const times = new Pair();
    for (let run = 0; run < runs; run++) for (const [side, values] of this.#inTurn(run, times, times)) values.push(await side.version());
    return [{ name: 'plugin.version', unit: 'ms', ...this.#values(times) }];
  }

  /** Ends the namespaces' launchers; attachments are deleted with the lab. */
  async stop(): Promise<void> {
    for (const side of this.#sides) await side.stop();
  }

  /** The order changes with the run. */
  #inTurn(run: number, first: Pair, second: Pair): readonly (readonly [CniSide, number[], number[]])[] {
    const both = [
      [this.ours, first.ours, second.ours],
      [this.peer, first.peer, second.peer],
    ] as const;
    return run % 2 === 0 ? both : both.toReversed();
  }

  #values({ ours, peer }: Pair): Pick<Measured, 'ours' | 'peer'> {
    this.#print(`  ${ours.map((value) => value.toFixed(1)).join(' ')} | ${peer.map((value) => value.toFixed(1)).join(' ')}`);
    return { ours, peer: { name: this.peer.name, values: peer } };
  }
}

/** Stages of our ADD in the agent: `wiring` contains `flows`, `interface` and `port`, which overlap. */
const stages = ['addresses', 'wiring', 'flows', 'interface', 'port', 'disk'] as const;

/** Sums in milliseconds since the agent started. */
async function stageSums(lab: BenchLab): Promise<ReadonlyMap<string, number>> {
  const sums = stages.map(async (stage) => {
    const seconds = await lab.metric('cni_stage_duration_seconds_sum', { command: 'ADD', stage });
    return [stage, seconds * 1000] as const;
  });
  return new Map(await Promise.all(sums));
}

/** Measurements of both sides. */
class Pair {
  readonly ours: number[] = [];
  readonly peer: number[] = [];
}
