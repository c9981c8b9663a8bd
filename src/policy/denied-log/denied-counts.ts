import { reg } from '../../dataplane/pipeline/fields.ts';
import { tables } from '../../dataplane/pipeline/tables.ts';
import { toOpenFlowMatch } from '../../dataplane/targets/bridge/encoding/to-openflow.ts';
import type { OpenFlowConnection } from '../../openflow/connection/connection.ts';
import { encodeMatch } from '../../openflow/match/match.ts';

/** Packets that policies denied, or would have, or allowed, since their flows are there. */
export interface VerdictCounts {
  readonly ingress: bigint;
  readonly egress: bigint;
}

type Bridge = Pick<OpenFlowConnection, 'aggregate'>;

/** By the flows that say no, with a copy to the agent or without. @throws SeineError as `OpenFlowConnection.aggregate` */
export async function readDeniedCounts(bridge: Bridge, signal: AbortSignal): Promise<VerdictCounts> {
  return await countsOf(bridge, 'deny', signal);
}

/** By the flows that say yes. @throws SeineError as `OpenFlowConnection.aggregate` */
export async function readAllowedCounts(bridge: Bridge, signal: AbortSignal): Promise<VerdictCounts> {
  return await countsOf(bridge, 'allow', signal);
}

async function countsOf(bridge: Bridge, verdict: 'allow' | 'deny', signal: AbortSignal): Promise<VerdictCounts> {
  const match = encodeMatch(toOpenFlowMatch({ regs: [reg.verdict(verdict)] }));
  const [ingress, egress] = await Promise.all([
    bridge.aggregate({ table: tables.ingressVerdict.id, match }, signal),
    bridge.aggregate({ table: tables.egressVerdict.id, match }, signal),
  ]);
  return { ingress: ingress.packets, egress: egress.packets };
}
