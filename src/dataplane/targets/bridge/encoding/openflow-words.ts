import type { FieldName, Subfield } from '../../../../openflow/match/fields.ts';
import type { MatchProtocol, Transport } from '../../../pipeline/flow.ts';
import type { BitRange } from '../../../pipeline/registers.ts';

export const etherTypes = { ipv4: 0x0800, ipv6: 0x86dd, arp: 0x0806 } as const;
export const ipProtocols: Readonly<Record<MatchProtocol, number>> = { icmp: 1, tcp: 6, udp: 17, gre: 47, icmp6: 58, sctp: 132 };
export const portFields = { tcp: 'tcp_dst', udp: 'udp_dst', sctp: 'sctp_dst' } as const satisfies Readonly<Record<Transport, FieldName>>;

export type RegisterName = Extract<FieldName, `reg${number}`>;

export function registerName(reg: number): RegisterName {
  return `reg${reg}` as RegisterName; // the checked layout has no register above 15
}

export function range(field: FieldName, { first, width }: BitRange): Subfield {
  return { field, offset: first, bits: width };
}

export function whole(field: FieldName, bits: number): Subfield {
  return { field, offset: 0, bits };
}
