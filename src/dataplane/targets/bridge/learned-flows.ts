import type { Family } from '../../../base/net/ip.ts';
import { associationShareOf, isLearned, learnedCookie } from '../../pipeline/cookie.ts';
import { type Flow, isLearnStep, type LearnStep } from '../../pipeline/flow.ts';
import { type EntryPattern, PatternFlow } from '../../pipeline/flow-pattern.ts';
import { toLearn } from './encoding/learn-actions.ts';
import { type CandidateFlow, LearnedTemplate } from './encoding/learned-template.ts';

/**
 * Time for which flows of a withdrawn step are still accepted (ms): packets in transit may still create flows, and the Service controller
 * removes learned flows. After that they are removed like any foreign flow.
 */
const AFTERLIFE_MS = 10_000;

/** Maximum number of cookies of withdrawn steps that are remembered. */
const WITHDRAWN_MAX = 10_000;

const families = ['ipv4', 'ipv6'] as const;
const transports = ['tcp', 'udp', 'sctp'] as const;
const sides = ['opener', 'answer'] as const;
const standings = ['letIn', 'kept', 'barred'] as const;

/** All shapes of learn steps; used until all steps are known. */
const everyStep: readonly LearnStep[] = families.flatMap((family): LearnStep[] => [
  { do: 'learnUnknownTunnelPeer', family },
  { do: 'learnFragments', family },
  ...sides.flatMap((side) => standings.map((as): LearnStep => ({ do: 'learnAssociation', family, side, as }))),
  ...transports.map((transport): LearnStep => ({ do: 'learnChoice', family, transport, cookie: learnedCookie })),
]);

/** One learn step of an owner, and the flows that it can create. */
interface Declaration {
  readonly owner: string;
  readonly step: LearnStep;
  readonly template: LearnedTemplate;
  /** Infinity while the step is desired. */
  untilMs: number;
}

/**
 * Flows that OVS may have added itself: those that a desired step creates. A flow with the cookie of a learned flow that no step creates is
 * foreign, and is treated like any other foreign flow.
 */
export class LearnedFlows {
  readonly #nowMs: () => number;
  readonly #templates = new Map<string, LearnedTemplate>();
  readonly #byOwner = new Map<string, readonly Declaration[]>();
  readonly #byCookie = new Map<bigint, readonly Declaration[]>();
  /** Cookies of steps that are no longer desired; oldest first. */
  readonly #withdrawn = new Set<bigint>();
  #isComplete = false;

  constructor(nowMs: () => number = () => performance.now()) {
    this.#nowMs = nowMs;
  }

  /** Replaces the learn steps of `owner` with those of these flows. */
  declare(owner: string, flows: readonly Flow[]): void {
    this.declareSteps(owner, learnStepsOf(flows));
  }

  /** Learn steps that are declared for `owner`. */
  stepsOf(owner: string): readonly LearnStep[] {
    return (this.#byOwner.get(owner) ?? []).map(({ step }) => step);
  }

  declareSteps(owner: string, steps: readonly LearnStep[]): void {
    const before = this.#byOwner.get(owner) ?? [];
    if (steps.length === 0 && before.length === 0) return;
    const untilMs = Infinity;
    const declarations = steps.map((step): Declaration => ({ owner, step, template: this.#templateOf(step), untilMs }));
    const after = [...new Map(declarations.map((each) => [cookieAndShape(each.step), each])).values()];
    if (after.length === 0) this.#byOwner.delete(owner);
    else this.#byOwner.set(owner, after);
    for (const each of before) each.untilMs = this.#nowMs() + AFTERLIFE_MS;
    const cookies = new Set([...before, ...after].map(({ step }) => cookieOfStep(step)));
    for (const cookie of cookies) {
      this.#replace(cookie, owner, after);
      this.#noteWithdrawn(cookie, after);
    }
  }

  /**
   * Declares all steps known, and flows of withdrawn steps checked by their owners, which delay a removal of 30 % at once. Until then any
   * flow that has the shape of some step counts as learned.
   */
  complete(): void {
    this.#isComplete = true;
  }

  /**
   * Returns the owner whose step creates this flow; undefined if no step does. The owner checks what the flow chose, e.g. whether its
   * endpoint still serves.
   */
  teacherOf(flow: CandidateFlow): string | undefined {
    if (!isLearned(flow.cookie)) return undefined;
    const nowMs = this.#nowMs();
    const cookie = associationShareOf(flow.cookie) === undefined ? flow.cookie : learnedCookie;
    const declared = this.#byCookie.get(cookie)?.find((each) => each.untilMs > nowMs && covers(each, flow));
    if (declared !== undefined || this.#isComplete) return declared?.owner;
    return everyStep.some((step) => covers({ step, template: this.#templateOf(step) }, flow)) ? 'unknown yet' : undefined;
  }

  /** Reports whether OVS may have learned this flow. */
  covers(flow: CandidateFlow): boolean {
    return this.teacherOf(flow) !== undefined;
  }

  /**
   * Reports whether a step that was desired until recently created this flow. Use it only to describe a removal: a foreign flow may have
   * the same cookie.
   */
  wasTaught({ cookie }: Pick<CandidateFlow, 'cookie'>): boolean {
    return isLearned(cookie) && this.#withdrawn.has(cookie);
  }

  #noteWithdrawn(cookie: bigint, after: readonly Declaration[]): void {
    this.#withdrawn.delete(cookie);
    if (cookie === learnedCookie || after.some(({ step }) => cookieOfStep(step) === cookie)) return;
    this.#withdrawn.add(cookie);
    const [oldest] = this.#withdrawn;
    if (this.#withdrawn.size > WITHDRAWN_MAX && oldest !== undefined) this.#withdrawn.delete(oldest);
  }

  #replace(cookie: bigint, owner: string, after: readonly Declaration[]): void {
    const nowMs = this.#nowMs();
    const isNow = (text: string): boolean => after.some(({ step }) => cookieAndShape(step) === text);
    const others = (this.#byCookie.get(cookie) ?? []).filter(
      (each) => each.untilMs > nowMs && !(each.owner === owner && isNow(cookieAndShape(each.step))),
    );
    const all = [...others, ...after.filter(({ step }) => cookieOfStep(step) === cookie)];
    if (all.length === 0) this.#byCookie.delete(cookie);
    else this.#byCookie.set(cookie, all);
  }

  #templateOf(step: LearnStep): LearnedTemplate {
    const shape = shapeOf(step);
    const known = this.#templates.get(shape);
    if (known) return known;
    const template = new LearnedTemplate(toLearn(step));
    this.#templates.set(shape, template);
    return template;
  }
}

/** Returns the learn steps of flows, each once. Flows of one pattern and family differ in them by their cookie at most. */
export function learnStepsOf(flows: readonly Flow[]): readonly LearnStep[] {
  const steps = new Map<string, LearnStep>();
  const read = new Map<EntryPattern, Family>();
  for (const flow of flows) {
    if (flow instanceof PatternFlow) {
      const { pattern, place } = flow.from;
      if (learnsNothing.has(pattern) || read.get(pattern) === place.ip.family) continue;
      read.set(pattern, place.ip.family);
      if (!flow.steps.some(isLearnStep)) learnsNothing.add(pattern);
    }
    for (const step of flow.steps) if (isLearnStep(step)) steps.set(cookieAndShape(step), step);
  }
  return [...steps.values()];
}

/** Patterns of flows without a learn step. */
const learnsNothing = new WeakSet<EntryPattern>();

/**
 * Reports whether the step creates this flow. Timeouts of affinity flows may differ: the Service's affinity may have been different when
 * the choice was learned.
 */
function covers({ step, template }: Pick<Declaration, 'step' | 'template'>, flow: CandidateFlow): boolean {
  return template.covers(flow, step.do === 'learnChoice' ? 'any' : 'same');
}

/**
 * Returns the cookie by which a step is found. Associations of all shares, and of releases before shares, have one: they are compared by
 * match and actions.
 */
function cookieOfStep(step: LearnStep): bigint {
  return step.do === 'learnChoice' ? step.cookie : learnedCookie;
}

function shapeOf(step: LearnStep): string {
  const { do: what, family } = step;
  if (step.do === 'learnChoice') return `${what} ${family} ${step.transport}`;
  return step.do === 'learnAssociation' ? `${what} ${family} ${step.side} ${step.as}` : `${what} ${family}`;
}

function cookieAndShape(step: LearnStep): string {
  return `${cookieOfStep(step)} ${shapeOf(step)}`;
}
