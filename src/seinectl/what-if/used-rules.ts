import * as z from 'zod';
import { SeineError } from '../../base/errors/seine-error.ts';
import type { KubeAccess } from '../../kubernetes/client/config.ts';
import type { KubeHttp } from '../../kubernetes/client/http-client.ts';
import { PodExec } from '../../kubernetes/client/pod-exec.ts';
import { keyOf } from '../../policy/reach/objects.ts';
import type { WhatIf } from '../../simulate/what-if/what-if.ts';
import { RelayPool } from '../fleet/agent-relay.ts';
import { findAgents } from '../fleet/agents.ts';
import { askAgents } from '../fleet/query-agent.ts';
import { type ConnectionEvidence, failuresByReason, noConnections, usedConnections } from './used-connections.ts';

/** Packets that rules and isolating policies have counted, on the nodes of the pods concerned. */
export interface RuleEvidence {
  /** Packets by the deciding rules, as `keyOfRules` names them. */
  readonly packets: ReadonlyMap<string, bigint>;
  /** Nodes that answered. */
  readonly nodes: readonly string[];
  /** Reason why it is not known, or not completely. */
  readonly unknown?: string;
  readonly connections: ConnectionEvidence;
}

interface AgentAccess {
  readonly http: KubeHttp;
  readonly access: KubeAccess;
  readonly userAgent: string;
  /** Namespace of the agents. */
  readonly namespace: string;
  /** How far back records of connections count. */
  readonly sinceSeconds: number;
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
  return { packets: new Map(), nodes: [], unknown, connections: noConnections };
}

export function keyOfRules(verdict: 'allow' | 'deny', rule: string): string {
  return `${verdict} ${rule}`;
}

/**
 * Asks the agents of the pods whose connections change for these connections, and for the packets of their rules. Failures are part of the
 * answer.
 */
export async function usedRules(result: WhatIf, agents: AgentAccess): Promise<RuleEvidence> {
  const { http, access, userAgent, namespace, signal, sinceSeconds } = agents;
  const concerned = podsConcerned(result);
  const nodes = [...new Set(concerned.flatMap(({ node }) => node ?? []))].sort();
  if (nodes.length === 0) return { packets: new Map(), nodes: [], connections: noConnections };
  const exec = new PodExec(access, userAgent);
  const relays = new RelayPool(exec);
  try {
    const { pods } = await findAgents(http, namespace, undefined, signal);
    const asked = pods.filter(({ node }) => nodes.includes(node)).slice(0, NODES_MAX);
    if (asked.length === 0) return noEvidence(`namespace ${namespace} has no agent of these nodes`);
    const question = {
      request: { path: '/v1/policy/counters' },
      relays,
      command: ['seinectl', 'policy', 'top', '--for', '1s', '-o', 'json'],
      understand: countersIn,
      timeoutMs: AGENT_TIMEOUT_MS,
      parallel: PARALLEL,
      progress: () => undefined,
    };
    const replies = await askAgents(exec, asked, question, signal);
    const packets = new Map<string, bigint>();
    for (const reply of replies)
      for (const { verdict, by, packets: counted } of 'answer' in reply ? reply.answer : [])
        for (const rule of by) packets.set(keyOfRules(verdict, rule), (packets.get(keyOfRules(verdict, rule)) ?? 0n) + BigInt(counted));
    const left = nodes.length - asked.length;
    const unknown = [...failuresByReason(replies), ...(left > 0 ? [`${left} more nodes were not asked`] : [])].join('; ');
    const answered = replies.flatMap((reply) => ('answer' in reply ? [reply.pod.node] : []));
    const names = concerned.map(({ name }) => name);
    const connections = await usedConnections({ exec, relays, pods: asked, names, sinceSeconds, signal });
    return { packets, nodes: answered, connections, ...(unknown === '' ? {} : { unknown }) };
  } catch (thrown) {
    const error = SeineError.from(thrown, 'ask agents');
    if (error.code === 'INVARIANT') throw error;
    return noEvidence(error.rawMessage);
  } finally {
    relays.close();
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

function podsConcerned({ connections, services, units }: WhatIf): readonly { readonly name: string; readonly node: string | undefined }[] {
  const changed = [...connections.filter(({ change }) => change !== 'other rule'), ...services];
  const names = new Set(changed.flatMap(({ from, to }) => [unitName(from), to]));
  const parties = units.filter(({ name }) => names.has(name)).flatMap((unit) => unit.parties);
  return parties.flatMap((party) => (party.is === 'pod' ? [{ name: keyOf(party.pod), node: party.pod.spec.nodeName }] : []));
}

/** Returns the name of a unit without the node that a Service's result adds. */
export function unitName(end: string): string {
  return end.replace(/ on \S+(?: and \d+ more)?$/, '');
}
