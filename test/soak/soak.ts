import { setTimeout as sleep } from 'node:timers/promises';
import { agentProcess, killAgent, startAgent } from '../../src/lab/node/agent.ts';
import { ovsProcess } from '../../src/lab/node/ovs.ts';
import { nodePaths } from '../../src/lab/plan/names.ts';
import { type ConvergeLab, until } from '../support/converge-lab.ts';
import type { CrashRuntime } from '../support/crash-runtime.ts';
import { holdingsOf } from '../support/node-holdings.ts';
import { figuresOf, type ProcessFigures, risen } from './figures.ts';

/** Between two looks at everything: so many of them are enough. */
const roundSteps = { least: 500, most: 2_000, rounds: 50 } as const;
/** Every so many rounds the agent is killed at random; in the others one process lives on, so that what it leaks adds up. */
const violentEvery = 4;
const lanes = 8;
/** Of a thousand steps. */
const share = { add: 520, remove: 400, check: 40, lose: 25, killPlugins: 15 } as const;
/** Of a thousand steps of a violent round. */
const kills = 8;
const goneWithinMs = 20_000;
const reclaimedWithinMs = 60_000;

export interface SoakOptions {
  readonly lab: ConvergeLab;
  readonly runtime: CrashRuntime;
  /** What node runs as the agent. */
  readonly agent: string;
  readonly steps: number;
  readonly random: () => number;
  readonly say: (line: string) => void;
}

export interface RoundFigures {
  readonly steps: number;
  readonly live: number;
  readonly agent: ProcessFigures;
  readonly vswitchd: ProcessFigures;
  readonly database: ProcessFigures;
}

export interface SoakOutcome {
  readonly steps: number;
  readonly agentKills: number;
  readonly rounds: readonly RoundFigures[];
  readonly reclaimedMs: number;
  /** Empty if all held. */
  readonly problems: readonly string[];
}

/** Random ADD, DEL, CHECK, GC and kills on a real node, with a look at everything it holds after every round. */
export class Soak {
  readonly #options: SoakOptions;
  readonly #rounds: RoundFigures[] = [];
  readonly #problems: string[] = [];
  #kills = 0;
  #killing: Promise<void> | undefined;
  readonly #startedMs = performance.now();

  constructor(options: SoakOptions) {
    this.#options = options;
  }

  async run(): Promise<SoakOutcome> {
    const { steps, runtime, lab } = this.#options;
    let done = 0;
    const most = Math.min(roundSteps.most, Math.max(roundSteps.least, Math.ceil(steps / roundSteps.rounds)));
    for (let round = 0; done < steps && this.#problems.length === 0; round++) {
      const count = Math.min(most, steps - done);
      await this.#round(count, round % violentEvery === violentEvery - 1);
      done += count;
      await this.#inspect(done);
    }
    await Promise.all([...runtime.live.keys()].map((id) => runtime.remove(id)));
    await this.#expectNothingLeaked();
    const reclaimedMs = await until(
      async () => (await holdingsOf(lab)).quarantined === 0,
      reclaimedWithinMs,
      () => 'addresses stay in quarantine',
    );
    this.#compare();
    return { steps: done, agentKills: this.#kills, rounds: this.#rounds, reclaimedMs, problems: [...this.#problems, ...runtime.faults] };
  }

  async #round(count: number, violent: boolean): Promise<void> {
    let left = count;
    const lane = async (): Promise<void> => {
      while (left-- > 0) await this.#step(violent);
    };
    await Promise.all(Array.from({ length: lanes }, lane));
    await this.#killing;
    await this.#options.lab.untilReady(1);
    // The runtime calls GC alone.
    await this.#options.runtime.collectGarbage();
  }

  async #step(violent: boolean): Promise<void> {
    const { runtime, random } = this.#options;
    if (violent && random() * 1000 < kills) this.#killing ??= this.#killAgent();
    const ids = [...runtime.live.keys()];
    const id = ids[Math.floor(random() * ids.length)] ?? '';
    let draw = random() * 1000;
    if ((draw -= share.add) < 0) await (runtime.hasRoom ? runtime.add() : runtime.remove(id));
    else if ((draw -= share.remove) < 0) await runtime.remove(id);
    else if ((draw -= share.check) < 0) await runtime.check(id);
    else if ((draw -= share.lose) < 0) await runtime.lose(id);
    else runtime.killPlugins();
  }

  async #killAgent(): Promise<void> {
    const { lab, agent, random } = this.#options;
    const node = lab.node(1);
    await sleep(random() * 30);
    await killAgent(lab.plan, node);
    this.#kills++;
    await sleep(random() * 200);
    startAgent(lab.plan, node, agent);
    await lab.untilReady(1);
    this.#killing = undefined;
  }

  async #inspect(done: number): Promise<void> {
    const { lab, runtime, say, steps } = this.#options;
    await this.#expectNothingLeaked();
    await runtime.checkAll();
    this.#problems.push(...runtime.faults.splice(0));
    const rundir = nodePaths(lab.plan.dir, lab.node(1).name).dir;
    const pidOf = (id: { readonly pid: number } | undefined): number => id?.pid ?? 0;
    const figures = {
      steps: done,
      live: runtime.live.size,
      agent: figuresOf(pidOf(agentProcess(lab.plan, lab.node(1)))),
      vswitchd: figuresOf(pidOf(ovsProcess(rundir, 'ovs-vswitchd'))),
      database: figuresOf(pidOf(ovsProcess(rundir, 'ovsdb-server'))),
    };
    this.#rounds.push(figures);
    const { agent, vswitchd } = figures;
    const counts = `${runtime.counts.added} added, ${runtime.counts.removed} removed, ${runtime.counts.lost} lost, ${this.#kills} kills`;
    say(
      `${done}/${steps}: ${runtime.live.size} live, ${counts}; agent ${agent.descriptors} fds ${agent.rssMib} MiB, ` +
        `vswitchd ${vswitchd.descriptors} fds ${vswitchd.rssMib} MiB; ${this.#pace(done)}`,
    );
  }

  /** How fast it goes, and how long it will still take. */
  #pace(done: number): string {
    const perSecond = (done / (performance.now() - this.#startedMs)) * 1_000;
    const minutesLeft = (this.#options.steps - done) / perSecond / 60;
    return `${perSecond.toFixed(1)} steps/s, ${minutesLeft.toFixed(1)} minutes to go`;
  }

  /** Interfaces, ports, flows and leases: one for each container that lives, and no more. */
  async #expectNothingLeaked(): Promise<void> {
    const { lab, runtime } = this.#options;
    let actual = '';
    const live = [...runtime.live.keys()].toSorted();
    const wanted = JSON.stringify([live.length, live, live.length, live]);
    const holds = async (): Promise<boolean> => {
      const { interfaces, ports, flows, leases } = await holdingsOf(lab);
      actual = JSON.stringify([interfaces, ports, flows, leases]);
      return actual === wanted;
    };
    await until(holds, goneWithinMs, () => `the node holds ${actual} and not ${wanted}`).catch((thrown: unknown) =>
      this.#problems.push(String(thrown)),
    );
  }

  /** The agent by its lives: within each, from the first round to the last. */
  #compare(): void {
    const lives = Map.groupBy(this.#rounds, ({ agent }) => agent.pid);
    for (const [pid, rounds] of lives)
      this.#compareRounds(
        `agent ${pid}`,
        rounds.map(({ agent }) => agent),
      );
    // The first process began with an empty node: what comes after it is compared with the second round.
    const [, ...rest] = this.#rounds;
    // A port is a descriptor of its own.
    const ownDescriptors = ({ vswitchd, live }: RoundFigures) => ({ ...vswitchd, descriptors: vswitchd.descriptors - live });
    this.#compareRounds('ovs-vswitchd', rest.map(ownDescriptors));
    this.#compareRounds(
      'ovsdb-server',
      rest.map(({ database }) => database),
    );
  }

  #compareRounds(what: string, figures: readonly ProcessFigures[]): void {
    const [first] = figures;
    const last = figures.at(-1);
    if (first && last) this.#problems.push(...risen(what, first, last));
  }
}
