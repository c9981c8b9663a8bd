import type { Random } from './random.ts';
import type { Scene } from './scene.ts';
import { type Deadline, type Deed, nothingThere, type StepKind } from './step.ts';
import { everyKind, pathSteps, standingFamilies, stepFamilies } from './steps/all.ts';
import { frozen, killed, startAgent } from './steps/life.ts';
import { podSteps } from './steps/pods.ts';

/** State of the agent during a step. */
export type AgentState = 'alive' | 'dead' | 'starting' | 'frozen';

const drawsMost = 60;
const pairsOf = 0.25;
const podsOf = 0.15;
/** Part of the steps that concern the ways between nodes, in labs that do not use the tunnel. */
const pathsOf = 0.5;
/** Weights of the families of steps, in the order of the list; expensive starts of an agent are rare. */
const weights = [3, 4, 3, 0.7, 0.6];
const states: readonly AgentState[] = ['alive', 'alive', 'alive', 'alive', 'alive', 'alive', 'frozen', 'frozen', 'dead', 'starting'];

export interface Drawn {
  readonly kind: StepKind;
  readonly deed: Deed;
}

/** One step, or two at once. */
export interface DrawnStep {
  readonly agent: AgentState;
  readonly drawn: readonly Drawn[];
}

/**
 * Draws one of the requested kinds, alone, in any state of the agent. Of several, one that is possible now, including changes to results of
 * others. A name that is listed twice is drawn twice as often. With a single kind nothing is chosen, so that its seeds keep their meaning.
 *
 * @throws Error if there is no such kind
 */
export function drawOfKinds(scene: Scene, random: Random, names: readonly string[]): DrawnStep {
  const kinds = names.map((name) => {
    const kind = everyKind.find((each) => each.name === name);
    if (kind === undefined) throw new Error(`no kind of step is called ${name}`);
    return kind;
  });
  const [only] = kinds;
  if (only !== undefined && kinds.length === 1) return drawnAlone(only, only.draw(scene, random), random);
  for (let tries = 0; tries < drawsMost; tries++) {
    const kind = random.pick(kinds);
    const deed = kind.draw(scene, random);
    if (deed !== undefined) return drawnAlone(kind, deed, random);
  }
  return { agent: 'alive', drawn: [] };
}

function drawnAlone(kind: StepKind, deed: Deed | undefined, random: Random): DrawnStep {
  return { agent: kind.alone ? 'alive' : random.pick(states), drawn: deed === undefined ? [] : [{ kind, deed }] };
}

/** @param only `node`: nothing that changes the desired state */
export function drawStep(scene: Scene, random: Random, only?: StepKind['changes']): DrawnStep {
  const may = ({ changes }: StepKind): boolean => only === undefined || changes === only;
  const first = drawOne(scene, random, may);
  if (first.kind.alone) return { agent: 'alive', drawn: [first] };
  const agent = random.pick(states);
  const drawn = random.chance(pairsOf) ? [first, drawOne(scene, random, (kind) => may(kind) && !kind.alone)] : [first];
  const pod = random.chance(podsOf) && only !== 'node' ? drawPod(scene, random) : undefined;
  return { agent, drawn: pod === undefined ? drawn : [pod, ...drawn.slice(1)] };
}

function drawOne(scene: Scene, random: Random, may: (kind: StepKind) => boolean): Drawn {
  for (let tries = 0; tries < drawsMost; tries++) {
    const kind = random.pick(family(scene, random));
    const deed = may(kind) ? kind.draw(scene, random) : undefined;
    if (deed !== undefined) return { kind, deed };
  }
  throw new Error('no step can be done');
}

/** Replacement of the first draw. */
function drawPod(scene: Scene, random: Random): Drawn | undefined {
  const kind = random.pick(podSteps);
  const deed = kind.draw(scene, random);
  return deed && { kind, deed };
}

function family({ lab }: Scene, random: Random): readonly StepKind[] {
  const { paths } = lab.options;
  if (paths !== undefined && random.chance(pathsOf)) return pathSteps[paths];
  const families = lab.options.podInterface === 'veth' ? stepFamilies : standingFamilies;
  let at = random.below(1_000_000) / 1_000_000;
  const all = weights.reduce((sum, weight) => sum + weight, 0);
  for (const [index, kinds] of families.entries()) {
    at -= (weights[index] ?? 0) / all;
    if (at < 0) return kinds;
  }
  return families[0] ?? [];
}

/** Result of a step. */
export interface Done {
  readonly kind: StepKind;
  /** Description for the output. */
  readonly description: string;
  /** True if there was anything to change. */
  readonly changed: boolean;
}

/** Executes the step. */
export async function act({ lab, alerts }: Scene, { agent, drawn }: DrawnStep): Promise<readonly Done[]> {
  const done: Done[] = [];
  const both = async (): Promise<void> => {
    const outcomes = await Promise.allSettled(drawn.map(({ deed }) => deed.act()));
    for (const [index, one] of drawn.entries()) {
      const outcome = outcomes[index];
      if (outcome === undefined) continue;
      const changed = outcome.status === 'fulfilled' && outcome.value !== nothingThere;
      done.push({ kind: one.kind, description: outcomeOf(one, outcome, drawn.length > 1), changed });
    }
  };
  if (agent === 'alive') await both();
  else if (agent === 'frozen') await frozen(lab, 'agentPid', both);
  else {
    await killed(lab, 'agentPid');
    await alerts?.scrape();
    if (agent === 'dead') await both();
    await startAgent(lab);
    if (agent === 'starting') await both();
    await lab.untilReady();
  }
  for (const { deed } of drawn) await deed.settled?.();
  return done;
}

/** Outcome of one of two at once: the other may have removed what it changes. */
function outcomeOf(one: Drawn, outcome: PromiseSettledResult<unknown>, ofTwo: boolean): string {
  if (outcome.status === 'rejected' && !ofTwo) throw outcome.reason;
  const more =
    outcome.status === 'rejected' ? `not done: ${String(outcome.reason)}` : typeof outcome.value === 'string' ? outcome.value : '';
  return `${one.kind.name} ${one.deed.what} ${more}`.replaceAll(/\s+/g, ' ').trim();
}

export function deadlineOf({ agent, drawn }: DrawnStep): Deadline {
  const deadlines = drawn.map(({ kind }) => kind.deadline);
  if (deadlines.includes('looked')) return 'looked';
  if (agent === 'dead' || agent === 'starting' || deadlines.includes('restarted')) return 'restarted';
  return deadlines.includes('swept') ? 'swept' : 'announced';
}
