import type { FlowLogState, FlowView } from '../../api/flow-log.ts';
import { SeineError } from '../../base/errors/seine-error.ts';
import { type AgentPod, FollowedGaps, followable } from '../fleet/agents.ts';
import type { AgentReply } from '../fleet/query-agent.ts';
import { dueFlows } from './merge-flows.ts';

/** Interval between questions (ms), and how far back each reaches (s): further than the interval, in case an answer is late. */
const EVERY_MS = 2_000;
export const FOLLOW_SINCE_S = 20;
/** Maximum number of nodes that are followed at once. */
export const FOLLOWED_MAX = 64;
/** Maximum number of records of a node that are remembered as printed. */
const PRINTED_MAX = 131_072;

/** Latest records of a node. */
export interface NodeFlows {
  readonly flows: readonly FlowView[];
  /** State of its flow log; absent in an answer without one. */
  readonly state: FlowLogState | undefined;
}

interface FollowedFlows {
  /** Requests the records of the last {@link FOLLOW_SINCE_S} seconds. */
  readonly ask: (pods: readonly AgentPod[]) => Promise<readonly AgentReply<NodeFlows>[]>;
  /** Returns the agents that there are now. @throws SeineError if the API server does not answer */
  readonly find: () => Promise<readonly AgentPod[]>;
  /** Interval at which they are looked for again (ms): a rolling update replaces their pods. */
  readonly findAgainMs: number;
  readonly print: (flows: readonly FlowView[]) => void;
  readonly seeState: (state: FlowLogState) => void;
  readonly remark: (text: string) => void;
  /** Milliseconds since the epoch. */
  readonly wallMs: () => number;
  /** @throws what ends the command */
  readonly pause: (ms: number) => Promise<void>;
}

/** Asks agents again and again, and prints each record once. @throws what `pause` throws */
export async function followFlows(first: readonly AgentPod[], followed: FollowedFlows): Promise<never> {
  const failures = new Map<string, string>();
  const printed = new Set<string>();
  const startMs = followed.wallMs();
  const gaps = new FollowedGaps(followed.remark);
  const findEvery = Math.ceil(followed.findAgainMs / EVERY_MS);
  let pods = first;
  let waiting: readonly FlowView[] = [];
  for (let round = 1; ; round++) {
    const fresh: FlowView[] = [];
    for (const reply of await followed.ask(pods)) {
      const { node } = reply.pod;
      if ('failure' in reply) {
        if (failures.get(node) !== reply.failure) followed.remark(`${node} does not answer: ${reply.failure}`);
        failures.set(node, reply.failure);
        continue;
      }
      failures.delete(node);
      if (reply.answer.state) followed.seeState(reply.answer.state);
      fresh.push(...reply.answer.flows.filter((flow) => isNew(flow, printed, startMs)));
    }
    const { due, later } = dueFlows(waiting, fresh);
    waiting = later;
    followed.print(due);
    await followed.pause(EVERY_MS);
    if (round % findEvery === 0) pods = await presentPods(pods, gaps, followed);
  }
}

/** Returns the agents that are asked from now on: the same as before without the API server, and where all are being replaced. */
async function presentPods(before: readonly AgentPod[], gaps: FollowedGaps, { find, remark }: FollowedFlows): Promise<readonly AgentPod[]> {
  let found: readonly AgentPod[];
  try {
    found = await find();
  } catch (thrown) {
    if (SeineError.from(thrown, 'find the agents').code === 'INVARIANT') throw thrown;
    return before; // the agents' answers show whether this is serious
  }
  const running = found.filter(({ trouble }) => trouble === undefined);
  gaps.see(before, found);
  const present = followable(running, new Set(before.map(({ node }) => node)), FOLLOWED_MAX);
  if (present.length === 0) return before;
  const names = new Set(before.map(({ pod }) => pod));
  for (const { node, pod } of present) if (!names.has(pod)) remark(`${node}: follows ${pod}`);
  return present;
}

function isNew({ node, number, time }: FlowView, printed: Set<string>, startMs: number): boolean {
  if (Date.parse(time) < startMs - EVERY_MS) return false;
  const key = `${node} ${number} ${time}`;
  if (printed.has(key)) return false;
  printed.add(key);
  const [oldest] = printed;
  if (printed.size > PRINTED_MAX && oldest !== undefined) printed.delete(oldest);
  return true;
}
