import * as z from 'zod';
import { SeineError } from '../../base/errors/seine-error.ts';
import type { NodeAnswer } from '../fleet/answers.ts';

/** Part of an agent's status that is kept: thousands of whole ones would take hundreds of megabytes. */
export interface NodeSummary {
  readonly ready: boolean;
  /** Reason why it is not ready. */
  readonly reason?: string;
  readonly verdict: 'no problems' | 'problems' | 'not all checked' | 'unknown';
  /** First problems of the list. */
  readonly problems: readonly SummaryProblem[];
  readonly problemCount: number;
  /** Age of the oldest periodic check; null if there is none. */
  readonly oldestCheckSeconds: number | null;
  /** Names of periodic checks that are missing or overdue. */
  readonly staleChecks: readonly string[];
  readonly versions: { readonly seine: string; readonly node: string; readonly ovs: string };
  readonly dataPath: string;
  readonly policy: PolicySummary;
}

export type SummarisedNode = NodeAnswer<NodeSummary>;

interface SummaryProblem {
  readonly kind: string;
  readonly about: string;
  readonly message: string;
  readonly remedy?: string | undefined;
}

export interface PolicySummary {
  readonly enforcement: string;
  /** `not known` for a node that has no mode yet, or an agent that knows none. */
  readonly mode: string;
  /** Policies of the cluster, as this agent sees them; those that isolate pods of this node. */
  readonly objects: number;
  readonly selecting: number;
  readonly isolatedPods: number;
  readonly closedPods: number;
  readonly suspensions: number;
  readonly openedByHand: number;
  readonly shortages: number;
}

const PROBLEMS_KEPT = 20;

const many = <S extends z.ZodType>(element: S) => z.array(element).catch([]);
const counted = z.array(z.unknown()).catch([]);
const number = z.number().catch(0);
const word = z.string().catch('unknown');

const checksSchema = many(z.object({ name: z.string(), state: z.string(), ageSeconds: z.number().nullable() }));

/** Required members of an answer; all others may differ in another release, and are then unknown. */
const answerSchema = z.object({
  versions: z.object({ seine: z.string(), node: word, ovs: word }),
  readiness: z.object({ state: z.string(), reason: z.string().optional().catch(undefined) }),
  verdict: z.enum(['no problems', 'problems', 'not all checked', 'unknown']).catch('unknown'),
  problems: many(z.object({ kind: z.string(), about: word, message: word, remedy: z.string().optional().catch(undefined) })),
  healthChecks: checksSchema.optional(),
  bridge: z.object({ dataPath: word }).catch({ dataPath: 'unknown' }),
  networkPolicy: z
    .object({
      enforcement: word,
      mode: z.string().catch('not known'),
      objects: number,
      selecting: number,
      isolatedPods: number,
      closedPods: counted,
      suspensions: counted,
      openedByHand: counted,
      shortages: counted,
    })
    .transform((policy) => ({
      ...policy,
      closedPods: policy.closedPods.length,
      suspensions: policy.suspensions.length,
      openedByHand: policy.openedByHand.length,
      shortages: policy.shortages.length,
    })),
});

/** @param text output of `seinectl status -o json`. @throws SeineError `PROTOCOL` if it is not a status */
export function summaryOf(text: string): NodeSummary {
  const { readiness, verdict, problems, healthChecks = [], versions, bridge, networkPolicy } = answerIn(text);
  const ages = healthChecks.flatMap(({ ageSeconds }) => (ageSeconds === null ? [] : [ageSeconds]));
  const oldestCheckSeconds = ages.length === 0 ? null : Math.max(...ages);
  const staleChecks = healthChecks.filter(({ state }) => state !== 'fresh').map(({ name }) => name);
  return {
    ready: readiness.state === 'ready',
    ...(readiness.state === 'ready'
      ? {}
      : { reason: `${readiness.state}${readiness.reason === undefined ? '' : `: ${readiness.reason}`}` }),
    verdict,
    problems: problems.slice(0, PROBLEMS_KEPT),
    problemCount: problems.length,
    oldestCheckSeconds,
    staleChecks,
    versions,
    dataPath: bridge.dataPath,
    policy: networkPolicy,
  };
}

function answerIn(text: string): z.output<typeof answerSchema> {
  try {
    return answerSchema.parse(JSON.parse(text));
  } catch (cause) {
    throw new SeineError('PROTOCOL', 'its answer is not a status', { cause });
  }
}
