import type { OpenFlowConnection } from '../openflow/connection.ts';
import { encodeMatch } from '../openflow/match.ts';
import { reg } from '../pipeline/fields.ts';
import { tables } from '../pipeline/tables.ts';
import { toOpenFlowMatch } from '../reconcile/to-openflow.ts';

/** Packets that policies denied, or would have, since their flows are there. */
export interface DeniedCounts {
  readonly ingress: bigint;
  readonly egress: bigint;
}

/** By the flows that say no, with a copy to the agent or without. @throws SeineError as `OpenFlowConnection.aggregate` */
export async function readDeniedCounts(bridge: Pick<OpenFlowConnection, 'aggregate'>, signal: AbortSignal): Promise<DeniedCounts> {
  const match = encodeMatch(toOpenFlowMatch({ regs: [reg.verdict('deny')] }));
  const [ingress, egress] = await Promise.all([
    bridge.aggregate({ table: tables.ingressVerdict.id, match }, signal),
    bridge.aggregate({ table: tables.egressVerdict.id, match }, signal),
  ]);
  return { ingress: ingress.packets, egress: egress.packets };
}
