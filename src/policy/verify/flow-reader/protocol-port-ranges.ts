/** Protocols with and without ports; `other` represents every protocol that is not listed. */
const portRangeProtocols = ['TCP', 'UDP', 'SCTP', 'ICMP', 'other'] as const;
export type PortProtocol = (typeof portRangeProtocols)[number];

/** Range of destination ports of a protocol, both ends included; 0 to 65,535 if the protocol has no ports. */
export interface ProtocolPorts {
  readonly protocol: PortProtocol;
  readonly first: number;
  readonly last: number;
}

/** Lanes of all possible packets. */
export const allPortRanges: readonly ProtocolPorts[] = portRangeProtocols.map((protocol) => ({ protocol, first: 0, last: 65_535 }));

/** Divides lanes into the part that a flow's condition matches and the rest. Without a condition, everything matches. */
export function divide(
  portRanges: readonly ProtocolPorts[],
  condition: ProtocolPorts | undefined,
): { readonly inside: readonly ProtocolPorts[]; readonly outside: readonly ProtocolPorts[] } {
  if (!condition) return { inside: portRanges, outside: [] };
  const inside: ProtocolPorts[] = [];
  const outside: ProtocolPorts[] = [];
  for (const ports of portRanges) {
    const [first, last] = [Math.max(ports.first, condition.first), Math.min(ports.last, condition.last)];
    if (ports.protocol !== condition.protocol || first > last) {
      outside.push(ports);
      continue;
    }
    inside.push({ ...ports, first, last });
    if (ports.first < first) outside.push({ ...ports, last: first - 1 });
    if (ports.last > last) outside.push({ ...ports, first: last + 1 });
  }
  return { inside, outside };
}
