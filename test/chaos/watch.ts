import { setTimeout as sleep } from 'node:timers/promises';
import { AlertWatch } from './alert-watch.ts';
import { repairs } from './counters.ts';
import type { AgentState, Done } from './draw.ts';
import type { Lab } from './lab.ts';
import { assessLearned } from './learned.ts';
import { Losses } from './losses.ts';
import { megaflowsMs, staleMegaflows } from './megaflows.ts';
import { learnedFlows } from './snapshot.ts';
import { Starvation } from './starvation.ts';
import { ofStart, type Part } from './step.ts';
import { monotonicMs, type StreamReport, type TrafficStreams } from './streams.ts';

const pollMs = 100;

/** A step as seen by streams and counters. */
export interface Course {
  readonly agent: AgentState;
  readonly done: readonly Done[];
}

/**
 * Streams between pods of the tested node: when links are created and deleted, the userspace data path loses packets to other nodes
 * (docs/records/faults.md).
 */
const onTheNode = / near /;
/** Streams to pods of the other node. */
const toOtherNode = / far /;
/** Streams to a Service: their connections may get another endpoint, once OVS has forgotten them. */
const toService = / (?:service|sticky) /;

/** Watches a node during faults: its streams, and the agent's counters. */
export class Watch {
  readonly #lab: Lab;
  readonly #streams: TrafficStreams | undefined;
  readonly #losses = new Losses();
  readonly #starvation: Starvation;
  /** Steps that must make an alert true wait for it. */
  readonly alertWatch: AlertWatch;
  #counted: ReadonlyMap<Part, number> = new Map();
  #begunMs = 0;

  readonly #print: (line: string) => void;

  /** @param print called with faults of the host, which are not problems */
  constructor(lab: Lab, streams: TrafficStreams | undefined, print: (line: string) => void) {
    this.#print = print;
    this.#lab = lab;
    this.#streams = streams;
    this.#starvation = new Starvation(lab);
    this.alertWatch = new AlertWatch(lab.tried);
  }

  async begin(): Promise<void> {
    await this.alertWatch.begin();
    this.#counted = await repairs(this.#lab.tried);
    this.#begunMs = monotonicMs();
    this.#losses.begin(this.#begunMs);
  }

  /** @param withinMs maximum silence of a stream once the node is correct @returns differences from the expected state */
  async judge(course: Course, withinMs: number): Promise<readonly string[]> {
    const since = this.alertWatch.looks;
    const looks = [
      () => this.#uncounted(course),
      () => this.#unreported(course),
      () => this.#wrongLearned(),
      () => this.#firing(since, course),
    ];
    const found = (await Promise.all(looks.map((look) => empty(look, withinMs)))).flat();
    if (this.#streams === undefined) return [...found, ...(await this.#staleMegaflows())];
    const answer = await this.#streams.ask({ sinceMs: monotonicMs(), withinMs });
    this.#losses.end(mayLose(course));
    return [...found, ...this.#streamProblems(course, answer, await this.#starvation.look()), ...(await this.#staleMegaflows())];
  }

  /** Learned flows that are wrong for the present Services and endpoints. */
  async #wrongLearned(): Promise<readonly string[]> {
    const { api, tried } = this.#lab;
    const [flows, services, slices] = await Promise.all([
      learnedFlows(tried),
      api.list('/api/v1/services'),
      api.list('/apis/discovery.k8s.io/v1/endpointslices'),
    ]);
    return assessLearned(flows, services, slices, tried.name);
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

  #streamProblems(course: Course, { silent, broken, lost }: StreamReport, isStarved: boolean): string[] {
    const kept = course.done.some(({ kind }) => kind.translates) ? broken.filter((stream) => !toOtherNode.test(stream)) : broken;
    const ended = course.done.some(({ kind }) => kind.forgets) ? kept.filter((stream) => !toService.test(stream)) : kept;
    const wrong = lost.filter(({ stream, atMs }) => onTheNode.test(stream) && !this.#losses.allowed(atMs));
    if (isStarved && wrong.length > 0) this.#print(`    ${wrong.length} lost by the machine: ${this.#starvation.says}`);
    const ofStream = isStarved ? [] : [...Map.groupBy(wrong, ({ stream }) => stream)];
    const sent = (losses: typeof wrong) => losses.map(({ atMs }) => Math.round(atMs - this.#begunMs)).join(', ');
    return [
      ...silent.map((stream) => `stream ${stream}: no answer`),
      ...ended.map((stream) => `stream ${stream}: its connection ended`),
      ...ofStream.map(
        ([stream, losses]) =>
          `stream ${stream}: ${losses.length} lost, while no fault was active, sent ${sent(losses)} ms after the step began; ${this.#starvation.says}`,
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
