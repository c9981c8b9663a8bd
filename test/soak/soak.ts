import { setTimeout as sleep } from 'node:timers/promises';
import { agentProcess, killAgent, startAgent } from '../../lab/node/agent.ts';
import { ovsProcess } from '../../lab/node/ovs.ts';
import { nodePaths } from '../../lab/plan/names.ts';
import { type ConvergeLab, until } from '../support/converge-lab.ts';
import type { CrashRuntime, LiveContainer } from '../support/crash-runtime.ts';
import { holdingsOf } from '../support/node-holdings.ts';
import { type Census, censusOf, orphansOf } from './census.ts';
import { foreign, gentle, violent } from './faults.ts';
import { figuresOf, type ProcessFigures, risen } from './figures.ts';
import { ServiceChurn } from './service-churn.ts';
import { type Sample, type Slope, slopeOf } from './slope.ts';

/** Steps between two complete checks. */
const roundSteps = { least: 500, most: 1_000, rounds: 50 } as const;
/** Share of the whole: processes are killed in the first rounds; then each lives on, so that its leaks add up. */
const violentShare = 0.25;
/** Share of the time in which processes live on: in its beginning the heap grows to its size, which is not measured. */
const settlingShare = 0.25;
/**
 * Idle time of the node after a round, before memory is read. By then the agent has detected that it is idle and collected its garbage
 * (src/agent/memory-tuner.ts: ten seconds, and fifteen): while it is busy its heap grows for half an hour and shrinks again, which a run of
 * two hours cannot distinguish from a leak.
 */
const restMs = 30_000;
/**
 * The userspace data path caches one of a hundred new flows, and keeps up to 8,192 dead ones, of 1.5 KiB each: hours of growth that ends at
 * 12 MiB, and would hide leaks. (`emc-insert-inv-prob` of ovs-vswitchd.conf.db(5); docs/data-paths.md.)
 */
const withoutDeadFlows = 'other_config:emc-insert-inv-prob=0';
/** Maximum slope in MiB per hour. A slope is above it if the whole 95 % interval is. */
const slopeMost = 1;
const streams = 8;
/** Frequencies per thousand steps. */
const share = { add: 480, remove: 370, check: 35, lose: 25, killPlugins: 15, service: 45, ask: 30 } as const;
/** Frequency per thousand steps of a violent round. */
const kills = 8;
const goneWithinMs = 20_000;
const reclaimedWithinMs = 60_000;
/** UDP connections expire within two minutes, remembered clients within three hours, or with their Service. */
const forgottenWithinMs = 240_000;

export interface SoakOptions {
  readonly lab: ConvergeLab;
  readonly runtime: CrashRuntime;
  /** Script that node runs as the agent. */
  readonly agent: string;
  /** Ends after this number of steps, */
  readonly steps: number;
  /** or of minutes, whichever comes first. */
  readonly minutes: number;
  readonly random: () => number;
  readonly print: (line: string) => void;
}

const watched = ['agent', 'vswitchd', 'database'] as const;
type Watched = (typeof watched)[number];

export interface RoundFigures extends Readonly<Record<Watched, ProcessFigures>> {
  readonly steps: number;
  readonly live: number;
}

export interface SoakOutcome {
  readonly steps: number;
  readonly agentKills: number;
  readonly rounds: readonly RoundFigures[];
  readonly reclaimedMs: number;
  readonly services: ServiceChurn['counts'];
  readonly faults: Readonly<Record<string, number>>;
  /** MiB per hour; of processes that ran long enough. */
  readonly slopes: Readonly<Record<string, Slope>>;
  /** Empty if there are none. */
  readonly problems: readonly string[];
}

/** Random ADD, DEL, CHECK, GC and kills on a real node, with a check of all its state after every round. */
export class Soak {
  readonly #options: SoakOptions;
  readonly #rounds: RoundFigures[] = [];
  readonly #problems: string[] = [];
  readonly #services: ServiceChurn;
  readonly #faults: Record<string, number> = {};
  readonly #samples: (Record<Watched, ProcessFigures> & { readonly hours: number })[] = [];
  #kills = 0;
  #killing: Promise<void> | undefined;
  readonly #startedMs = performance.now();

  constructor(options: SoakOptions) {
    this.#options = options;
    this.#services = new ServiceChurn(options.lab.api, options.random);
  }

  async run(): Promise<SoakOutcome> {
    const { runtime, lab } = this.#options;
    await lab.exec(1, 'ovs-vsctl', 'set', 'Open_vSwitch', '.', withoutDeadFlows);
    const before = await censusOf(lab);
    const done = await this.#runRounds();
    await this.#services.close();
    await Promise.all([...runtime.live.keys()].map((id) => runtime.remove(id)));
    await this.#expectNothingLeaked();
    const reclaimedMs = await until(
      async () => (await holdingsOf(lab)).quarantined === 0,
      reclaimedWithinMs,
      () => 'addresses stay in quarantine',
    );
    await this.#expectAsBefore(before);
    this.#compare();
    const slopes = this.#slopes();
    const problems = [...this.#problems, ...runtime.faults];
    const counted = { steps: done, agentKills: this.#kills, services: this.#services.counts, faults: this.#faults };
    return { ...counted, rounds: this.#rounds, reclaimedMs, slopes, problems };
  }

  /** @returns number of executed steps */
  async #runRounds(): Promise<number> {
    const { steps } = this.#options;
    const most = Math.min(roundSteps.most, Math.max(roundSteps.least, Math.ceil(steps / roundSteps.rounds)));
    let done = 0;
    while (this.#progress(done) < 1 && this.#problems.length === 0) {
      const count = Math.min(most, steps - done);
      const isViolent = this.#progress(done) < violentShare;
      await this.#round(count, isViolent);
      done += count;
      // Figures of consecutive rounds are for the same number of containers.
      await this.#levelTo(Math.ceil(this.#options.runtime.size / 2));
      if (!isViolent) await this.#rest();
      await this.#inspect(done);
    }
    return done;
  }

  /** Finished share of the steps or of the time, whichever is larger. */
  #progress(done: number): number {
    const { steps, minutes } = this.#options;
    return Math.max(done / steps, (performance.now() - this.#startedMs) / 60_000 / minutes);
  }

  async #round(count: number, isViolent: boolean): Promise<void> {
    const { lab, runtime } = this.#options;
    let left = count;
    const stream = async (): Promise<void> => {
      while (left-- > 0) await this.#step(isViolent);
    };
    const during = isViolent ? undefined : this.#inject(gentle);
    await Promise.all([...Array.from({ length: streams }, stream), during]);
    await this.#killing;
    await lab.untilReady(1);
    // While OVS is stopped, runtimes get no answer.
    await this.#inject(isViolent ? violent : foreign);
    await lab.untilReady(1);
    // The runtime calls GC alone.
    await runtime.collectGarbage();
  }

  /** Injects the next of these, in turn. */
  async #inject(faults: typeof gentle): Promise<void> {
    const names = Object.keys(faults);
    const name = names[this.#rounds.length % names.length] ?? '';
    this.#faults[name] = (this.#faults[name] ?? 0) + 1;
    await faults[name]?.(this.#options.lab);
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
    else if ((draw -= share.service) < 0) await this.#services.change([...runtime.live.values()]);
    else if ((draw -= share.ask) < 0) await this.#ask(runtime.live.get(id));
    else runtime.killPlugins();
  }

  async #ask(container: LiveContainer | undefined): Promise<void> {
    if (container !== undefined) await this.#services.ask(container);
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
    const { runtime, print, steps } = this.#options;
    await this.#expectNothingLeaked();
    await runtime.checkAll();
    this.#problems.push(...runtime.faults.splice(0));
    const figures = { steps: done, live: runtime.live.size, ...this.#figures() };
    this.#rounds.push(figures);
    const { agent, vswitchd } = figures;
    const counts = `${runtime.counts.added} added, ${runtime.counts.removed} removed, ${runtime.counts.lost} lost, ${this.#kills} kills`;
    print(
      `${done}${Number.isFinite(steps) ? `/${steps}` : ''}: ${runtime.live.size} live, ${counts}; agent ${agent.descriptors} fds ${agent.rssMib} MiB, ` +
        `vswitchd ${vswitchd.descriptors} fds ${vswitchd.rssMib} MiB; ${this.#pace(done)}`,
    );
  }

  #figures(): Record<Watched, ProcessFigures> {
    const { lab } = this.#options;
    const rundir = nodePaths(lab.plan.dir, lab.node(1).name).dir;
    const of = (id: { readonly pid: number } | undefined) => figuresOf(id?.pid ?? 0);
    return {
      agent: of(agentProcess(lab.plan, lab.node(1))),
      vswitchd: of(ovsProcess(rundir, 'ovs-vswitchd')),
      database: of(ovsProcess(rundir, 'ovsdb-server')),
    };
  }

  /** Adds and removes containers until this number is reached. */
  async #levelTo(count: number): Promise<void> {
    const { runtime } = this.#options;
    const ids = [...runtime.live.keys()];
    await Promise.all(ids.slice(count).map((id) => runtime.remove(id)));
    await Promise.all(Array.from({ length: Math.max(0, count - ids.length) }, () => runtime.add()));
  }

  /** Resources of idle processes, during the time without kills. */
  async #rest(): Promise<void> {
    await sleep(restMs);
    this.#samples.push({ hours: (performance.now() - this.#startedMs) / 3_600_000, ...this.#figures() });
  }

  /** Growth of memory of each process; those that certainly exceed the limit are problems. */
  #slopes(): Readonly<Record<string, Slope>> {
    const settled = this.#samples.slice(Math.floor(this.#samples.length * settlingShare));
    const found: Record<string, Slope> = {};
    for (const what of watched) {
      const samples: readonly Sample[] = settled.map((sample) => ({ hours: sample.hours, value: sample[what].rssMib }));
      const slope = slopeOf(samples);
      if (slope === undefined) continue;
      found[what] = slope;
      const { perHour, within } = slope;
      if (perHour - within > slopeMost)
        this.#problems.push(`${what}: memory grows by ${perHour.toFixed(1)} ± ${within.toFixed(1)} MiB an hour`);
    }
    return found;
  }

  /** Flows, groups, meters, rows, elements and tracked connections: as before the first container. */
  async #expectAsBefore(before: Census): Promise<void> {
    let found: readonly string[] = [];
    const isAsBefore = async () => {
      found = orphansOf(before, await censusOf(this.#options.lab));
      return found.length === 0;
    };
    await until(isAsBefore, forgottenWithinMs, () => found.join('; ')).catch((thrown: unknown) => this.#problems.push(String(thrown)));
  }

  /** Present speed, and remaining time. */
  #pace(done: number): string {
    const minutes = (performance.now() - this.#startedMs) / 60_000;
    const perSecond = done / minutes / 60;
    const minutesLeft = minutes / this.#progress(done) - minutes;
    return `${perSecond.toFixed(1)} steps/s, ${minutesLeft.toFixed(1)} minutes to go`;
  }

  /** Interfaces, ports, flows and leases: one for each live container, and no more. */
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

  /** Compares each process over its lifetime: from its first round to its last. */
  #compare(): void {
    // The first processes began with an empty node: later ones are compared with the second round.
    const [, ...rounds] = this.#rounds;
    // Each port has its own descriptor.
    const own = ({ live, vswitchd, ...others }: RoundFigures): Record<Watched, ProcessFigures> => ({
      ...others,
      vswitchd: { ...vswitchd, descriptors: vswitchd.descriptors - live },
    });
    for (const what of watched)
      for (const [pid, lived] of Map.groupBy(
        rounds.map((round) => own(round)[what]),
        (figures) => figures.pid,
      ))
        this.#compareRounds(`${what} ${pid}`, lived);
  }

  #compareRounds(what: string, figures: readonly ProcessFigures[]): void {
    const [first] = figures;
    const last = figures.at(-1);
    if (first && last) this.#problems.push(...risen(what, first, last));
  }
}
