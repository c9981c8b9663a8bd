import { join } from 'node:path';
import { ApiView } from './api-view.ts';
import { Virgin } from './clean-node.ts';
import { type NodeWires, VirginGround, wiresOf } from './clean-node-check.ts';
import { type AgentState, act, type Done, type DrawnStep, deadlineOf, drawOfKinds, drawStep } from './draw.ts';
import { Lab, type LabOptions } from './lab.ts';
import { lateMostMs } from './late-events.ts';
import { judge, steadySnapshot, type TriedNode, type Verdict } from './oracle.ts';
import { asGiven, attachmentsOf, isStanding } from './pod-interfaces.ts';
import { probe } from './probes.ts';
import { Random } from './random.ts';
import { apiRests } from './rest.ts';
import { Scene } from './scene.ts';
import type { Snapshot } from './snapshot.ts';
import type { Deadline } from './step.ts';
import { TrafficStreams } from './streams.ts';
import type { Ground } from './tally.ts';
import { TriedView } from './tried-view.ts';
import { Watch } from './watch.ts';

/** Time for the other side to learn, e.g. after a daemon's death. */
const probeMs = 5_000;

/** One round of the sweep, on a small node, and two seconds (docs/reliability.md). */
export const deadlinesMs: Readonly<Record<Deadline, number>> = {
  announced: 2_000,
  swept: 6_000,
  restarted: 10_000,
  looked: 47_000,
};

export interface RunOptions extends LabOptions {
  readonly seed: number;
  /** Numbers of the steps, in order; each draws by the seed and its number. */
  readonly steps: readonly number[];
  /** Factor of the deadline, for a busy host. */
  readonly patience: number;
  /** Maximum number of steps that change the desired state, each of which needs a fresh node; unlimited if absent. */
  readonly changesMost?: number;
  /** Kinds of steps, separated by commas; any if absent. */
  readonly kind?: string;
  /** Packets, connections and messages a second on each stream; 0 for no streams. */
  readonly hertz: number;
  readonly print: (line: string) => void;
}

/** Report of a step. */
export interface StepReport extends Verdict {
  readonly number: number;
  readonly agent: AgentState;
  /** Kinds of steps that changed something. */
  readonly changed: readonly string[];
  readonly deeds: readonly string[];
  /** Alerts that became true meanwhile, without their `for`. */
  readonly alerts: readonly string[];
}

/** The lab did not start: an agent does not become ready. */
export class NotStarted extends Error {}

/** Components of a run. */
interface Parts {
  readonly lab: Lab;
  readonly scene: Scene;
  readonly wires: NodeWires;
  readonly view: ApiView;
  readonly viewSocket: string;
  readonly triedView: TriedView;
  readonly streams: TrafficStreams | undefined;
}

/** A lab under chaos. */
export class Chaos {
  readonly #options: RunOptions;
  readonly #lab: Lab;
  readonly #scene: Scene;
  readonly #wires: NodeWires;
  readonly #view: ApiView;
  readonly #viewSocket: string;
  readonly #triedView: TriedView;
  readonly #streams: TrafficStreams | undefined;
  readonly #watch: Watch;
  /** Environment of the next fresh node, prepared in advance. */
  #next: Promise<VirginGround>;
  #virgins = 0;
  #changes = 0;
  #wanted: Snapshot | undefined;

  private constructor(options: RunOptions, { lab, scene, wires, view, viewSocket, triedView, streams }: Parts) {
    this.#options = options;
    this.#lab = lab;
    this.#scene = scene;
    this.#wires = wires;
    this.#view = view;
    this.#viewSocket = viewSocket;
    this.#triedView = triedView;
    this.#streams = streams;
    this.#watch = new Watch(lab, streams, options.print);
    scene.alerts = this.#watch.alertWatch;
    this.#next = this.#prepare();
  }

  /** @throws NotStarted */
  static async begin(options: RunOptions): Promise<Chaos> {
    const lab = await Lab.raise(options).catch((cause: unknown) => {
      throw new NotStarted(String(cause), { cause });
    });
    let view: ApiView | undefined;
    let triedView: TriedView | undefined;
    try {
      const [scene, wires] = [await Scene.set(lab), await wiresOf(lab)];
      const viewSocket = join(lab.dir, 'view.sock');
      const pods = () => asGiven(attachmentsOf(lab.tried.rundir));
      view = await ApiView.open(viewSocket, lab.api, { is: 'virgin', ...(options.podInterface !== 'veth' && { pods }) });
      triedView = await TriedView.open(lab, wires.labId, options.seed);
      scene.way = triedView;
      const streams = options.hertz === 0 ? undefined : await TrafficStreams.open(lab, { SEINE_LAB: wires.labId }, options.hertz);
      return new Chaos(options, { lab, scene, wires, view, viewSocket, triedView, streams });
    } catch (thrown) {
      view?.close();
      triedView?.close();
      await lab.remove();
      throw thrown;
    }
  }

  /** Platform of the lab. */
  ground(): Promise<Ground> {
    return this.#lab.ground();
  }

  /** Executes the steps until one leaves the node in a wrong state. */
  async *steps(): AsyncGenerator<StepReport> {
    const beginning = await this.#settle(-1, { agent: 'alive', drawn: [] }, []);
    yield beginning;
    if (beginning.problems.length > 0) return;
    const [pods, standing] = [(await this.#lab.pods()).length, this.#lab.standingEnds().size];
    if (this.#options.podInterface !== 'veth') this.#options.print(`${standing} of ${pods} pods have standing ports`);
    for (const number of this.#options.steps) {
      const report = await this.#step(number);
      yield report;
      if (report.problems.length > 0) return;
    }
  }

  async end(): Promise<void> {
    await this.#next.then((ground) => ground.remove()).catch((error: unknown) => this.#options.print(String(error)));
    this.#watch.close();
    this.#streams?.close();
    this.#view.close();
    this.#triedView.close();
    await this.#lab.remove();
  }

  async #step(number: number): Promise<StepReport> {
    await this.#scene.look();
    const only = this.#changes < (this.#options.changesMost ?? Infinity) ? undefined : 'node';
    const { kind, seed } = this.#options;
    const random = new Random(seed, number);
    const step = kind === undefined ? drawStep(this.#scene, random, only) : drawOfKinds(this.#scene, random, kind.split(','));
    if (changesObjects(step)) this.#changes++;
    await this.#watch.begin();
    const done = await act(this.#scene, step);
    await apiRests(this.#lab);
    return await this.#settle(number, step, done);
  }

  /** Judges the result of the step. */
  async #settle(number: number, step: DrawnStep, done: readonly Done[]): Promise<StepReport> {
    const since = performance.now();
    if (changesObjects(step)) this.#wanted = undefined;
    const wanted = this.#wanted === undefined ? this.#fresh() : Promise.resolve(this.#wanted);
    const withinMs = (deadlinesMs[deadlineOf(step)] + lateMostMs) * this.#options.patience;
    const verdict = await judge(this.#tried, wanted, since, withinMs);
    this.#wanted = await wanted;
    const withinProbeMs = probeMs * this.#options.patience;
    const unreached = await probe(this.#scene, withinProbeMs);
    const watched = await this.#watch.judge({ agent: step.agent, done }, withinProbeMs);
    const problems = [...verdict.problems, ...unreached, ...watched];
    return {
      ...verdict,
      problems,
      number,
      agent: step.agent,
      changed: done.flatMap(({ kind, changed }) => (changed ? [kind.name] : [])),
      deeds: done.map(({ description }) => description),
      alerts: this.#watch.alerts,
    };
  }

  /** The desired state now. */
  async #fresh(): Promise<Snapshot> {
    const ground = await this.#next;
    const virgin = await Virgin.start(this.#lab, this.#wires, ground);
    const snapshot = await steadySnapshot(
      virgin.place,
      virgin.pods.map(({ netns, triedNetns, nodeEnd }) => ({ netns, as: triedNetns, nodeEnd: isStanding(nodeEnd) ? nodeEnd : undefined })),
    );
    await virgin.remove();
    this.#next = this.#prepare();
    return snapshot;
  }

  get #tried(): TriedNode {
    const pods = async () => {
      const found = await this.#lab.pods();
      const ends = this.#lab.standingEnds();
      return found.map(({ netns, containerID }) => ({ netns, as: netns, nodeEnd: ends.get(containerID) }));
    };
    return { place: this.#lab.tried, pods };
  }

  #prepare(): Promise<VirginGround> {
    const prepared = VirginGround.prepare(this.#lab, this.#wires, this.#virgins++, this.#viewSocket);
    prepared.catch(() => {}); // reported to the caller
    return prepared;
  }
}

function changesObjects({ drawn }: DrawnStep): boolean {
  return drawn.some(({ kind }) => kind.changes === 'objects');
}
