import type { Random } from './random.ts';
import type { Scene } from './scene.ts';
import type { Deadline, Deed, StepKind } from './step.ts';
import { stepFamilies } from './steps/all.ts';
import { frozen, killed, startAgent } from './steps/life.ts';
import { podSteps } from './steps/pods.ts';

/** What the agent does while a step happens. */
export type AgentState = 'alive' | 'dead' | 'starting' | 'frozen';

const drawsMost = 60;
const pairsOf = 0.25;
const podsOf = 0.15;
/** Of families of steps in the order of the list; what an agent's start costs is paid once in a while. */
const weights = [3, 4, 3, 0.7];
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

export function drawStep(scene: Scene, random: Random): DrawnStep {
  const first = drawOne(scene, random, false);
  if (first.kind.alone) return { agent: 'alive', drawn: [first] };
  const agent = random.pick(states);
  const drawn = random.chance(pairsOf) ? [first, drawOne(scene, random, true)] : [first];
  const pod = random.chance(podsOf) ? drawPod(scene, random) : undefined;
  return { agent, drawn: pod === undefined ? drawn : [pod, ...drawn.slice(1)] };
}

function drawOne(scene: Scene, random: Random, beside: boolean): Drawn {
  for (let tries = 0; tries < drawsMost; tries++) {
    const kind = random.pick(family(random));
    const deed = beside && kind.alone ? undefined : kind.draw(scene, random);
    if (deed !== undefined) return { kind, deed };
  }
  throw new Error('no step can be done');
}

/** In the place of what was drawn first. */
function drawPod(scene: Scene, random: Random): Drawn | undefined {
  const kind = random.pick(podSteps);
  const deed = kind.draw(scene, random);
  return deed && { kind, deed };
}

function family(random: Random): readonly StepKind[] {
  let at = random.below(1_000_000) / 1_000_000;
  const all = weights.reduce((sum, weight) => sum + weight, 0);
  for (const [index, kinds] of stepFamilies.entries()) {
    at -= (weights[index] ?? 0) / all;
    if (at < 0) return kinds;
  }
  return stepFamilies[0] ?? [];
}

/** Does it. @returns what was done, for people */
export async function act({ lab }: Scene, { agent, drawn }: DrawnStep): Promise<readonly string[]> {
  const told: string[] = [];
  const both = async (): Promise<void> => {
    const outcomes = await Promise.allSettled(drawn.map(({ deed }) => deed.act()));
    for (const [index, outcome] of outcomes.entries()) told.push(outcomeOf(drawn[index], outcome, drawn.length > 1));
  };
  if (agent === 'alive') await both();
  else if (agent === 'frozen') await frozen(lab, 'agentPid', both);
  else {
    await killed(lab, 'agentPid');
    if (agent === 'dead') await both();
    await startAgent(lab);
    if (agent === 'starting') await both();
    await lab.untilReady();
  }
  for (const { deed } of drawn) await deed.settled?.();
  return told;
}

/** Of two at once, one may have taken away what the other changes. */
function outcomeOf(one: Drawn | undefined, outcome: PromiseSettledResult<unknown>, ofTwo: boolean): string {
  if (outcome.status === 'rejected' && !ofTwo) throw outcome.reason;
  const more =
    outcome.status === 'rejected' ? `not done: ${String(outcome.reason)}` : typeof outcome.value === 'string' ? outcome.value : '';
  return `${one?.kind.name} ${one?.deed.what} ${more}`.replaceAll(/\s+/g, ' ').trim();
}

export function deadlineOf({ agent, drawn }: DrawnStep): Deadline {
  const deadlines = drawn.map(({ kind }) => kind.deadline);
  if (agent === 'dead' || agent === 'starting' || deadlines.includes('restarted')) return 'restarted';
  return deadlines.includes('swept') ? 'swept' : 'announced';
}
