import { associationShareOf, isLearned, learnedCookie } from '../../pipeline/cookie.ts';
import { type Flow, isLearnStep, type LearnStep } from '../../pipeline/flow.ts';
import { PatternFlow } from '../../pipeline/flow-pattern.ts';
import { toLearn } from './encoding/learn-actions.ts';
import { type FlowToJudge, LearnedTemplate } from './encoding/learned-template.ts';

/**
 * How long what a step taught outlives it (ms): packets under way teach once more, and what was learned is taken away by what knows the
 * Service. After that it is removed as any foreign flow.
 */
const AFTERLIFE_MS = 10_000;

/** So many withdrawn owners' cookies are remembered. */
const WITHDRAWN_MAX = 10_000;

const families = ['ipv4', 'ipv6'] as const;
const transports = ['tcp', 'udp', 'sctp'] as const;
const sides = ['opener', 'answer'] as const;
const standings = ['letIn', 'kept', 'barred'] as const;

/** Every shape that there is, for as long as not every step is known. */
const everyStep: readonly LearnStep[] = families.flatMap((family): LearnStep[] => [
  { do: 'learnUnknownTunnelPeer', family },
  { do: 'learnFragments', family },
  ...sides.flatMap((side) => standings.map((as): LearnStep => ({ do: 'learnAssociation', family, side, as }))),
  ...transports.map((transport): LearnStep => ({ do: 'learnChoice', family, transport, cookie: learnedCookie })),
]);

/** What an owner's steps can teach. */
interface Declaration {
  readonly owner: string;
  readonly step: LearnStep;
  readonly template: LearnedTemplate;
  /** Infinity while the step is wanted. */
  untilMs: number;
}

/**
 * Which flows the switch may have added by itself: those that a wanted step teaches. A flow with a learned flow's cookie that is none of
 * them is foreign, and treated as every other foreign flow.
 */
export class LearnedFlows {
  readonly #nowMs: () => number;
  readonly #templates = new Map<string, LearnedTemplate>();
  readonly #byOwner = new Map<string, readonly Declaration[]>();
  readonly #byCookie = new Map<bigint, readonly Declaration[]>();
  /** Cookies of steps that are not wanted any more; oldest first. */
  readonly #withdrawn = new Set<bigint>();
  #isComplete = false;

  constructor(nowMs: () => number = () => performance.now()) {
    this.#nowMs = nowMs;
  }

  /** Replaces what `owner` declares by the steps of these flows. */
  declare(owner: string, flows: readonly Flow[]): void {
    const steps: LearnStep[] = [];
    for (const flow of flows) if (!(flow instanceof PatternFlow)) for (const step of flow.steps) if (isLearnStep(step)) steps.push(step);
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
   * From now on every step is known, and what withdrawn steps taught has been judged by who wanted them (30 % at once are held there): until
   * then any flow of a shape that some step has passes for a learned one.
   */
  complete(): void {
    this.#isComplete = true;
  }

  /**
   * The owner whose step teaches this flow; undefined for a flow that no step teaches. What the flow chose, e.g. whether its endpoint still
   * serves, is the owner's to judge.
   */
  teacherOf(flow: FlowToJudge): string | undefined {
    if (!isLearned(flow.cookie)) return undefined;
    const nowMs = this.#nowMs();
    const cookie = associationShareOf(flow.cookie) === undefined ? flow.cookie : learnedCookie;
    const declared = this.#byCookie.get(cookie)?.find((each) => each.untilMs > nowMs && covers(each, flow));
    if (declared !== undefined || this.#isComplete) return declared?.owner;
    return everyStep.some((step) => covers({ step, template: this.#templateOf(step) }, flow)) ? 'unknown yet' : undefined;
  }

  /** Whether the switch may have learned this flow. */
  covers(flow: FlowToJudge): boolean {
    return this.teacherOf(flow) !== undefined;
  }

  /** Whether a step that was wanted a while ago taught this flow. Only for what is said of its removal: a flow that says so may be foreign. */
  wasTaught({ cookie }: Pick<FlowToJudge, 'cookie'>): boolean {
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

/** A Service's affinity may have lasted otherwise when a client's choice was learned. */
function covers({ step, template }: Pick<Declaration, 'step' | 'template'>, flow: FlowToJudge): boolean {
  return template.covers(flow, step.do === 'learnChoice' ? 'any' : 'same');
}

/** Associations of all shares, and of releases before shares, are judged alike: by what they match and do. */
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
