import { reg } from '../../dataplane/pipeline/fields.ts';
import { tables } from '../../dataplane/pipeline/tables.ts';
import { toOpenFlowMatch } from '../../dataplane/targets/bridge/encoding/to-openflow.ts';
import type { OpenFlowConnection } from '../../openflow/connection/connection.ts';
import { encodeMatch } from '../../openflow/match/match.ts';

/** Number of packets that policies denied (or would deny), or allowed, since their flows were installed. */
export interface VerdictCounts {
  readonly ingress: bigint;
  readonly egress: bigint;
}

type Bridge = Pick<OpenFlowConnection, 'aggregate'>;

/** Counts by the flows that deny, with or without a copy to the agent. @throws SeineError as for `OpenFlowConnection.aggregate` */
export async function readDeniedCounts(bridge: Bridge, signal: AbortSignal): Promise<VerdictCounts> {
  return await countsOf(bridge, 'deny', signal);
}

/** Counts by the flows that allow. @throws SeineError as for `OpenFlowConnection.aggregate` */
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
