/** Protocols with and without ports; `other` represents every protocol that is not listed. */
const laneProtocols = ['TCP', 'UDP', 'SCTP', 'ICMP', 'other'] as const;
export type LaneProtocol = (typeof laneProtocols)[number];

/** Range of destination ports of a protocol, both ends included; 0 to 65,535 if the protocol has no ports. */
export interface Lane {
  readonly protocol: LaneProtocol;
  readonly first: number;
  readonly last: number;
}

/** Lanes of all possible packets. */
export const allLanes: readonly Lane[] = laneProtocols.map((protocol) => ({ protocol, first: 0, last: 65_535 }));

/** Divides lanes into the part that a flow's condition matches and the rest. Without a condition, everything matches. */
export function divide(
  lanes: readonly Lane[],
  condition: Lane | undefined,
): { readonly inside: readonly Lane[]; readonly outside: readonly Lane[] } {
  if (!condition) return { inside: lanes, outside: [] };
  const inside: Lane[] = [];
  const outside: Lane[] = [];
  for (const lane of lanes) {
    const [first, last] = [Math.max(lane.first, condition.first), Math.min(lane.last, condition.last)];
    if (lane.protocol !== condition.protocol || first > last) {
      outside.push(lane);
      continue;
    }
    inside.push({ ...lane, first, last });
    if (lane.first < first) outside.push({ ...lane, last: first - 1 });
    if (lane.last > last) outside.push({ ...lane, first: last + 1 });
  }
  return { inside, outside };
}
