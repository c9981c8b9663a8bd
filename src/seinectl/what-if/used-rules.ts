import * as z from 'zod';
import { SeineError } from '../../base/errors/seine-error.ts';
import type { KubeAccess } from '../../kubernetes/client/config.ts';
import type { KubeHttp } from '../../kubernetes/client/http-client.ts';
import { PodExec } from '../../kubernetes/client/pod-exec.ts';
import type { WhatIf } from '../../simulate/what-if/what-if.ts';
import { findAgents } from '../fleet/agents.ts';
import { askAgents } from '../fleet/query-agent.ts';

/** Packets that rules and isolating policies have counted, on the nodes of the pods concerned. */
export interface RuleEvidence {
  /** Packets by the deciding rules, as `keyOfRules` names them. */
  readonly packets: ReadonlyMap<string, bigint>;
  /** Nodes that answered. */
  readonly nodes: readonly string[];
  /** Reason why it is not known, or not completely. */
  readonly unknown?: string;
}

interface AgentAccess {
  readonly http: KubeHttp;
  readonly access: KubeAccess;
  readonly userAgent: string;
  /** Namespace of the agents. */
  readonly namespace: string;
  readonly signal: AbortSignal;
}

/** Each question is a process on a node. */
const NODES_MAX = 64;
const AGENT_TIMEOUT_MS = 30_000;
const PARALLEL = 16;

const counters = z.object({
  items: z.array(z.object({ verdict: z.enum(['allow', 'deny']), by: z.array(z.string()), packets: z.string().regex(/^\d{1,20}$/) })),
});

export function noEvidence(unknown: string): RuleEvidence {
  return { packets: new Map(), nodes: [], unknown };
}

export function keyOfRules(verdict: 'allow' | 'deny', rule: string): string {
  return `${verdict} ${rule}`;
}

/** Asks the agents of the pods whose connections change for the packets of their rules. Failures are part of the answer. */
export async function usedRules(result: WhatIf, { http, access, userAgent, namespace, signal }: AgentAccess): Promise<RuleEvidence> {
  const nodes = nodesConcerned(result);
  if (nodes.length === 0) return { packets: new Map(), nodes: [] };
  try {
    const { pods } = await findAgents(http, namespace, undefined, signal);
    const asked = pods.filter(({ node }) => nodes.includes(node)).slice(0, NODES_MAX);
    if (asked.length === 0) return noEvidence(`namespace ${namespace} has no agent of these nodes`);
    const question = {
      request: { path: '/v1/policy/counters' },
      command: ['seinectl', 'policy', 'top', '--for', '1s', '-o', 'json'],
      understand: countersIn,
      timeoutMs: AGENT_TIMEOUT_MS,
      parallel: PARALLEL,
      progress: () => undefined,
    };
    const replies = await askAgents(new PodExec(access, userAgent), asked, question, signal);
    const packets = new Map<string, bigint>();
    for (const reply of replies)
      for (const { verdict, by, packets: counted } of 'answer' in reply ? reply.answer : [])
        for (const rule of by) packets.set(keyOfRules(verdict, rule), (packets.get(keyOfRules(verdict, rule)) ?? 0n) + BigInt(counted));
    const failures = replies.flatMap((reply) => ('failure' in reply ? [`${reply.pod.node}: ${reply.failure}`] : []));
    const left = nodes.length - asked.length;
    const unknown = [...failures.slice(0, 3), ...(left > 0 ? [`${left} more nodes were not asked`] : [])].join('; ');
    const answered = replies.flatMap((reply) => ('answer' in reply ? [reply.pod.node] : []));
    return { packets, nodes: answered, ...(unknown === '' ? {} : { unknown }) };
  } catch (thrown) {
    const error = SeineError.from(thrown, 'ask agents');
    if (error.code === 'INVARIANT') throw error;
    return noEvidence(error.rawMessage);
  }
}

/** @throws SeineError `PROTOCOL` for an answer of another form */
function countersIn(text: string): z.output<typeof counters>['items'] {
  try {
    return counters.parse(JSON.parse(text)).items;
  } catch (cause) {
    throw new SeineError('PROTOCOL', 'the answer has no counters of rules', { cause });
  }
}

function nodesConcerned({ connections, units }: WhatIf): readonly string[] {
  const names = new Set(connections.filter(({ change }) => change !== 'other rule').flatMap(({ from, to }) => [from, to]));
  const parties = units.filter(({ name }) => names.has(name)).flatMap((unit) => unit.parties);
  return [...new Set(parties.flatMap((party) => (party.is === 'pod' ? (party.pod.spec.nodeName ?? []) : [])))].sort();
}
