import { setTimeout as sleep } from 'node:timers/promises';
import { AlertWatch } from './alert-watch.ts';
import { repairs } from './counters.ts';
import type { AgentState, Done } from './draw.ts';
import type { Lab } from './lab.ts';
import { type LaneAnswer, type Lanes, monotonicMs } from './lanes.ts';
import { judgeLearned } from './learned.ts';
import { Losses } from './losses.ts';
import { megaflowsMs, staleMegaflows } from './megaflows.ts';
import { learnedFlows } from './snapshot.ts';
import { Starvation } from './starvation.ts';
import { ofStart, type Part } from './step.ts';

const pollMs = 100;

/** A step as seen by lanes and counters. */
export interface Course {
  readonly agent: AgentState;
  readonly done: readonly Done[];
}

/**
 * Lanes between pods of the tested node: when links are created and deleted, the userspace data path loses packets to other nodes
 * (docs/records/faults.md).
 */
const onTheNode = / near /;
/** Lanes to a Service: their connections may get another endpoint, once OVS has forgotten them. */
const toService = / (?:service|sticky) /;

/** Watches a node during faults: its lanes, and the agent's counters. */
export class Watch {
  readonly #lab: Lab;
  readonly #lanes: Lanes | undefined;
  readonly #losses = new Losses();
  readonly #starvation: Starvation;
  /** Steps that must make an alert true wait for it. */
  readonly alertWatch: AlertWatch;
  #counted: ReadonlyMap<Part, number> = new Map();
  #begunMs = 0;

  readonly #say: (line: string) => void;

  /** @param say called with faults of the host, which are not problems */
  constructor(lab: Lab, lanes: Lanes | undefined, say: (line: string) => void) {
    this.#say = say;
    this.#lab = lab;
    this.#lanes = lanes;
    this.#starvation = new Starvation(lab);
    this.alertWatch = new AlertWatch(lab.tried);
  }

  async begin(): Promise<void> {
    await this.alertWatch.begin();
    this.#counted = await repairs(this.#lab.tried);
    this.#begunMs = monotonicMs();
    this.#losses.begin(this.#begunMs);
  }

  /** @param withinMs maximum silence of a lane once the node is correct @returns differences from the expected state */
  async judge(course: Course, withinMs: number): Promise<readonly string[]> {
    const since = this.alertWatch.looks;
    const looks = [
      () => this.#uncounted(course),
      () => this.#unreported(course),
      () => this.#wrongLearned(),
      () => this.#firing(since, course),
    ];
    const found = (await Promise.all(looks.map((look) => empty(look, withinMs)))).flat();
    if (this.#lanes === undefined) return [...found, ...(await this.#staleMegaflows())];
    const answer = await this.#lanes.ask({ sinceMs: monotonicMs(), withinMs });
    this.#losses.end(mayLose(course));
    return [...found, ...this.#laneProblems(course, answer, await this.#starvation.look()), ...(await this.#staleMegaflows())];
  }

  /** Learned flows that are wrong for the present Services and endpoints. */
  async #wrongLearned(): Promise<readonly string[]> {
    const { api, tried } = this.#lab;
    const [flows, services, slices] = await Promise.all([
      learnedFlows(tried),
      api.list('/api/v1/services'),
      api.list('/apis/discovery.k8s.io/v1/endpointslices'),
    ]);
    return judgeLearned(flows, services, slices, tried.name);
  }

  #staleMegaflows(): Promise<readonly string[]> {
    return empty(() => staleMegaflows(this.#lab), megaflowsMs);
  }

  /** Alerts whose expression is true, whatever its `for`, by scrapes since the node was found correct. */
  async #firing(since: number, { done }: Course): Promise<string[]> {
    const ofStep = done.flatMap(({ kind }) => kind.alerts ?? []);
    return (await this.alertWatch.firing(since, ofStep)).map((alert) => `alert ${alert}`);
  }

  /** Alerts that were true since the step began. */
  get alerts(): readonly string[] {
    return this.alertWatch.became;
  }

  close(): void {
    this.alertWatch.close();
  }

  /** Missing alerts: of a start of the agent, and of steps that ran alone. */
  async #unreported({ agent, done }: Course): Promise<string[]> {
    const [one, another] = done;
    const starts = agent === 'dead' || agent === 'starting';
    const alone = one !== undefined && another === undefined && one.changed ? one.kind : undefined;
    const ofKind = alone?.alerts ?? (alone?.part !== undefined && !starts ? ['SeineDrift'] : []);
    return this.alertWatch.missing([...(starts ? ofStart : []), ...ofKind]).map((name) => `alert ${name} did not become true`);
  }

  /** Missing counts: faults while an agent ran must be counted. Those that it finds at its start are only repaired. */
  async #uncounted({ agent, done }: Course): Promise<string[]> {
    const [one] = done;
    const ran = agent === 'alive' || agent === 'frozen';
    if (!ran || one?.kind.part === undefined || !one.changed || done.length > 1) return [];
    const before = this.#counted.get(one.kind.part) ?? 0;
    const now = (await repairs(this.#lab.tried)).get(one.kind.part) ?? 0;
    return now > before ? [] : [`the repairs of part ${one.kind.part} are ${now}, as before`];
  }

  #laneProblems(course: Course, { silent, broken, lost }: LaneAnswer, isStarved: boolean): string[] {
    const ended = course.done.some(({ kind }) => kind.forgets) ? broken.filter((lane) => !toService.test(lane)) : broken;
    const wrong = lost.filter(({ lane, atMs }) => onTheNode.test(lane) && !this.#losses.allowed(atMs));
    if (isStarved && wrong.length > 0) this.#say(`    ${wrong.length} lost by the machine: ${this.#starvation.says}`);
    const ofLane = isStarved ? [] : [...Map.groupBy(wrong, ({ lane }) => lane)];
    const sent = (losses: typeof wrong) => losses.map(({ atMs }) => Math.round(atMs - this.#begunMs)).join(', ');
    return [
      ...silent.map((lane) => `lane ${lane}: no answer`),
      ...ended.map((lane) => `lane ${lane}: its connection ended`),
      ...ofLane.map(
        ([lane, losses]) =>
          `lane ${lane}: ${losses.length} lost, while nothing was harmed, sent ${sent(losses)} ms after the step began; ${this.#starvation.says}`,
      ),
    ];
  }
}

/** Reports whether packets depend on a faulty object. They do not depend on the agent, so it may be dead. */
function mayLose({ done }: Course): boolean {
  return done.some(({ kind }) => kind.changes === 'node' && !kind.harmless);
}

/**
 * Polls until the result is empty, or the time is over. A failed poll is ignored, e.g. while a killed OVS starts. @returns the last result
 */
async function empty(look: () => Promise<readonly string[]>, withinMs: number): Promise<readonly string[]> {
  for (const startedMs = performance.now(); ; await sleep(pollMs)) {
    const found = await look().catch((thrown: unknown) => [`! ${String(thrown)}`]);
    if (found.length === 0 || performance.now() - startedMs > withinMs) return found;
  }
}
