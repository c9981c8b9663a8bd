import type { RuleCounters } from '../../api/policy.ts';
import { cookieOf } from '../../dataplane/pipeline/cookie.ts';
import { type PipelineTableName, tables } from '../../dataplane/pipeline/tables.ts';
import { decodeMatch } from '../../openflow/match/match.ts';
import type { PolicyController } from '../../policy/controller/policy-controller.ts';
import type { BridgeReader } from '../diagnose/entries/bridge-entries.ts';
import { type ApiAnswer, json } from './answer.ts';

type Decided = ReturnType<PolicyController['decided']> extends Generator<infer D> ? D : never;
type CountedOutcome = Decided['decision']['otherwise'];

export interface PolicyCountersPort {
  readonly openflow: Pick<BridgeReader, 'dumpFlows'>;
  /** @throws SeineError `UNAVAILABLE` until the node is known */
  readonly running: () => { readonly policy: Pick<PolicyController, 'decided'> };
}

/** Tables whose rows contain verdicts: relations that need no port, and all decisions. */
const countedTables: readonly PipelineTableName[] = [
  'egressAdmin',
  'egressAdminPorts',
  'egressNetworkPolicy',
  'egressNetworkPolicyPorts',
  'egressBaseline',
  'egressBaselinePorts',
  'ingressAdmin',
  'ingressAdminPorts',
  'ingressNetworkPolicy',
  'ingressNetworkPolicyPorts',
  'ingressBaseline',
  'ingressBaselinePorts',
];

/** IANA protocol numbers of protocols with ports. */
const protocols: Readonly<Record<number, 'TCP' | 'UDP' | 'SCTP'>> = { 6: 'TCP', 17: 'UDP', 132: 'SCTP' };

/** `GET /v1/policy/counters`: packets of rules, by their names. Read from OVS for this request. */
export async function policyCounters(port: PolicyCountersPort, signal: AbortSignal): Promise<ApiAnswer> {
  return json({ items: await readRuleCounters(port, signal) });
}

/** Counts packets of the opening direction, summed up for a rule with several rows. @throws SeineError like `BridgeReader.dumpFlows` */
export async function readRuleCounters({ openflow, running }: PolicyCountersPort, signal: AbortSignal): Promise<readonly RuleCounters[]> {
  const byCookie = new Map<bigint, Decided>();
  for (const rows of running().policy.decided()) byCookie.set(cookieOf(rows.owner), rows);
  const sums = new Map<string, Omit<RuleCounters, 'packets' | 'bytes'> & { packets: bigint; bytes: bigint }>();
  for (const table of countedTables)
    await openflow.dumpFlows(
      { table: tables[table].id },
      ({ cookie, match, packets, bytes }) => {
        const rows = byCookie.get(cookie);
        if (!rows) return;
        const { verdict, by } = outcomeOf(rows, match);
        if (verdict === 'next') return; // another tier decides, and counts
        const { direction } = rows;
        const key = JSON.stringify([direction, verdict, by]);
        const sum = sums.get(key) ?? { direction, verdict, by, packets: 0n, bytes: 0n };
        sum.packets += packets;
        sum.bytes += bytes;
        sums.set(key, sum);
      },
      signal,
    );
  return [...sums.values()].map(
    ({ packets, bytes, ...rest }): RuleCounters => ({ ...rest, packets: String(packets), bytes: String(bytes) }),
  );
}

/** Outcome of the range that the flow is a part of. */
function outcomeOf({ decision: { ranges, otherwise } }: Decided, encoded: Uint8Array): CountedOutcome {
  if (ranges.length === 0) return otherwise;
  const match = decodeMatch(encoded);
  const protocol = typeof match.ip_proto === 'number' ? protocols[match.ip_proto] : undefined;
  const asked = match.tcp_dst ?? match.udp_dst ?? match.sctp_dst ?? 0;
  const port = typeof asked === 'number' ? asked : asked.value;
  const isWhole = match.tcp_dst === undefined && match.udp_dst === undefined && match.sctp_dst === undefined;
  const range = ranges.find(
    (each) => each.protocol === protocol && (isWhole ? each.first === 0 && each.last === 65_535 : port >= each.first && port <= each.last),
  );
  return range?.outcome ?? otherwise;
}
