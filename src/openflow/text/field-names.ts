import { type FieldName, fields } from '../match/fields.ts';

/** Names of headers in moves, learned flows and registers of output (ovs-fields(7)). */
const named: Readonly<Partial<Record<FieldName, string>>> = {
  packet_type: 'OXM_OF_PACKET_TYPE',
  dp_hash: 'NXM_NX_DP_HASH',
  recirc_id: 'NXM_NX_RECIRC_ID',
  conj_id: 'NXM_NX_CONJ_ID',
  in_port: 'OXM_OF_IN_PORT',
  in_port_16: 'NXM_OF_IN_PORT',
  actset_output: 'OXM_OF_ACTSET_OUTPUT',
  eth_src: 'NXM_OF_ETH_SRC',
  eth_dst: 'NXM_OF_ETH_DST',
  eth_type: 'NXM_OF_ETH_TYPE',
  vlan_vid: 'OXM_OF_VLAN_VID',
  vlan_pcp: 'OXM_OF_VLAN_PCP',
  vlan_tci: 'NXM_OF_VLAN_TCI',
  mpls_tc: 'OXM_OF_MPLS_TC',
  mpls_bos: 'OXM_OF_MPLS_BOS',
  mpls_ttl: 'NXM_NX_MPLS_TTL',
  mpls_label: 'OXM_OF_MPLS_LABEL',
  ip_src: 'NXM_OF_IP_SRC',
  ip_dst: 'NXM_OF_IP_DST',
  ipv6_src: 'NXM_NX_IPV6_SRC',
  ipv6_dst: 'NXM_NX_IPV6_DST',
  ip_frag: 'NXM_NX_IP_FRAG',
  ip_dscp: 'OXM_OF_IP_DSCP',
  ip_ecn: 'NXM_NX_IP_ECN',
  nw_tos: 'NXM_OF_IP_TOS',
  nw_ttl: 'NXM_NX_IP_TTL',
  ipv6_label: 'NXM_NX_IPV6_LABEL',
  ip_proto: 'NXM_OF_IP_PROTO',
  tcp_src: 'NXM_OF_TCP_SRC',
  tcp_dst: 'NXM_OF_TCP_DST',
  tcp_flags: 'NXM_NX_TCP_FLAGS',
  udp_src: 'NXM_OF_UDP_SRC',
  udp_dst: 'NXM_OF_UDP_DST',
  sctp_src: 'OXM_OF_SCTP_SRC',
  sctp_dst: 'OXM_OF_SCTP_DST',
  icmp_type: 'NXM_OF_ICMP_TYPE',
  icmp_code: 'NXM_OF_ICMP_CODE',
  icmpv6_type: 'NXM_NX_ICMPV6_TYPE',
  icmpv6_code: 'NXM_NX_ICMPV6_CODE',
  nd_target: 'NXM_NX_ND_TARGET',
  nd_sll: 'NXM_NX_ND_SLL',
  nd_tll: 'NXM_NX_ND_TLL',
  arp_op: 'NXM_OF_ARP_OP',
  arp_spa: 'NXM_OF_ARP_SPA',
  arp_tpa: 'NXM_OF_ARP_TPA',
  arp_sha: 'NXM_NX_ARP_SHA',
  arp_tha: 'NXM_NX_ARP_THA',
  tun_src: 'NXM_NX_TUN_IPV4_SRC',
  tun_dst: 'NXM_NX_TUN_IPV4_DST',
  metadata: 'OXM_OF_METADATA',
  in_phy_port: 'OXM_OF_IN_PHY_PORT',
  pbb_isid: 'OXM_OF_PBB_ISID',
  pbb_uca: 'OXM_OF_PBB_UCA',
  ipv6_exthdr: 'OXM_OF_IPV6_EXTHDR',
  nd_reserved: 'ERICOXM_OF_ICMPV6_ND_RESERVED',
  nd_options_type: 'ERICOXM_OF_ICMPV6_ND_OPTIONS_TYPE',
};

/** Other names are regular: `reg3` is NXM_NX_REG3, `xreg1` OXM_OF_PKT_REG1. */
export function headerName(field: FieldName): string {
  if (field.startsWith('nsh_')) return `NXOXM_${field.toUpperCase()}`;
  if (/^tun_(erspan|gtpu)_/.test(field)) return `NXOXM_ET_${field.slice(4).toUpperCase()}`;
  return named[field] ?? (/^xreg\d/.test(field) ? `OXM_OF_PKT_REG${field.slice(4)}` : `NXM_NX_${field.toUpperCase()}`);
}

/** Names of fields in `set_field` and matches, if they differ from ours. */
const spoken: Readonly<Partial<Record<FieldName, string>>> = {
  ip_ecn: 'nw_ecn',
  ip_proto: 'nw_proto',
  in_port_16: 'in_port',
  in_port: 'in_port_oxm',
};

export function fieldWord(field: FieldName): string {
  return spoken[field] ?? field;
}

/** Fields by their names in matches, `set_field` and constants of `learn`. */
export const fieldNamesByWord: ReadonlyMap<string, FieldName> = new Map<string, FieldName>([
  ...(Object.keys(fields) as FieldName[]).map((name) => [name, name] as const),
  ['nw_ecn', 'ip_ecn'],
  ['nw_proto', 'ip_proto'],
  ['nw_frag', 'ip_frag'],
  ['nw_src', 'ip_src'],
  ['nw_dst', 'ip_dst'],
  ['dl_src', 'eth_src'],
  ['dl_dst', 'eth_dst'],
  ['dl_type', 'eth_type'],
  ['tunnel_id', 'tun_id'],
  ['gtpu_flags', 'tun_gtpu_flags'],
  ['gtpu_msgtype', 'tun_gtpu_msgtype'],
  ['in_port_oxm', 'in_port'],
]);

/** Fields by the names of their headers; standard and Nicira names mean the same field. */
export const fieldNamesByHeader: ReadonlyMap<string, FieldName> = new Map<string, FieldName>([
  ...(Object.keys(fields) as FieldName[]).map((name) => [headerName(name), name] as const),
  ...(Object.keys(fields) as FieldName[]).map((name) => [`OXM_OF_${name.toUpperCase()}`, name] as const),
  ['OXM_OF_IPV4_SRC', 'ip_src'],
  ['OXM_OF_IPV4_DST', 'ip_dst'],
  ['OXM_OF_TUNNEL_ID', 'tun_id'],
  ['OXM_OF_IPV6_FLABEL', 'ipv6_label'],
  ['OXM_OF_IPV6_ND_TARGET', 'nd_target'],
  ['OXM_OF_IPV6_ND_SLL', 'nd_sll'],
  ['OXM_OF_IPV6_ND_TLL', 'nd_tll'],
  ['OXM_OF_ICMPV4_TYPE', 'icmp_type'],
  ['OXM_OF_ICMPV4_CODE', 'icmp_code'],
]);
