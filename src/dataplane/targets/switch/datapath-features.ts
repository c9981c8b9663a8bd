import type { GroupFeatures, MeterFeatures } from '../../../openflow/switch-features.ts';

/** Facts read about a data path; undefined if it did not report them. */
export interface DatapathFacts {
  readonly type: 'system' | 'netdev';
  /** `Datapath.capabilities` of OVSDB, ovs-vswitchd.conf.db(5). */
  readonly capabilities: ReadonlyMap<string, string> | undefined;
  /** `Open_vSwitch.iface_types` of OVSDB. */
  readonly interfaceTypes: ReadonlySet<string> | undefined;
  readonly meters: MeterFeatures | undefined;
  readonly groups: GroupFeatures | undefined;
  /** True if its connection tracking supports SCTP ports. */
  readonly tracksSctp: boolean | undefined;
  /** True if it fills in checksums that a pod's kernel left to the device. */
  readonly fillsChecksums: boolean;
}

/** Capability in which data paths differ. */
interface FeatureRow {
  /** Seine's use of it, present or possible. */
  readonly use: string;
  /** Effect of its absence; omitted if there is none. */
  readonly without?: string;
  readonly of: (facts: DatapathFacts) => boolean | number | undefined;
}

const flag =
  (name: string) =>
  ({ capabilities }: DatapathFacts): boolean | undefined => {
    const value = capabilities?.get(name);
    return value === undefined ? undefined : value === 'true';
  };

const number =
  (name: string) =>
  ({ capabilities }: DatapathFacts): number | undefined => {
    const value = Number(capabilities?.get(name) ?? Number.NaN);
    return Number.isSafeInteger(value) ? value : undefined;
  };

const link =
  (type: string) =>
  ({ interfaceTypes }: DatapathFacts): boolean | undefined =>
    interfaceTypes?.has(type);

const bit = (bits: number | undefined, at: number): boolean | undefined => (bits === undefined ? undefined : (bits & (1 << at)) !== 0);

const tracked = 'connections are not tracked: neither replies of Services nor traffic of pods passes';

/** Features in display order, with the names of OVS where it has one. */
export const datapathFeatures = {
  recirc: { use: 'packets continue through the tables after connection tracking', without: tracked, of: flag('recirc') },
  ct_state: { use: 'new, established and invalid connections are distinguished', without: tracked, of: flag('ct_state') },
  ct_zone: { use: 'pods’ connections are tracked apart from the node’s', without: tracked, of: flag('ct_zone') },
  ct_mark: { use: 'a connection stores its Service', without: 'Services fail', of: flag('ct_mark') },
  ct_label: { use: 'not used', of: flag('ct_label') },
  ct_state_nat: { use: 'addresses of Services are translated', without: 'Services fail', of: flag('ct_state_nat') },
  ct_orig_tuple: {
    use: 'later IPv4 fragments find their Service',
    without: 'fragmented IPv4 datagrams to Services are lost',
    of: flag('ct_orig_tuple'),
  },
  ct_orig_tuple6: {
    use: 'later IPv6 fragments find their Service',
    without: 'fragmented IPv6 datagrams to Services are lost',
    of: flag('ct_orig_tuple6'),
  },
  ct_flush: {
    use: 'a Service’s stale connections are deleted by zone and tuple (NXT_CT_FLUSH, ADR 24)',
    without: 'UDP clients of a Service keep sending to a removed endpoint until they pause',
    of: flag('ct_flush'),
  },
  ct_clear: { use: 'not used', of: flag('ct_clear') },
  ct_timeout: { use: 'not used: connection timeouts are the tracker’s defaults', of: flag('ct_timeout') },
  ct_zero_snat: { use: 'not used', of: flag('ct_zero_snat') },
  ct_eventmask: { use: 'not used', of: flag('ct_eventmask') },
  sctp: {
    use: 'SCTP Services; without it their ports are not served, with an event on each. Policies apply without it too (ADR 56)',
    of: ({ tracksSctp }) => tracksSctp,
  },
  groups_select: { use: 'a Service’s endpoints', without: 'Services fail', of: ({ groups }) => bit(groups?.types, 1) },
  groups_max: { use: 'one for each Service port, and more for large ones', of: ({ groups }) => groups?.maxSelectGroups },
  max_hash_alg: { use: 'dp_hash of groups: 0 is the kernel’s own hash, 1 adds a symmetric one', of: number('max_hash_alg') },
  meters_max: {
    use: 'bandwidth limits of pods, and new connections of isolated pods to Services, one meter each',
    of: ({ meters }) => meters?.maxMeters,
  },
  meters_kbps: { use: 'bandwidth limits of pods, in bits', of: ({ meters }) => bit(meters?.capabilities, 0) },
  meters_pktps: {
    use: 'new connections of an isolated pod to Services, in packets',
    without: 'a denied pod may fill the connection tracker with connections to Services',
    of: ({ meters }) => bit(meters?.capabilities, 1),
  },
  meters_burst: { use: 'burst size of both', of: ({ meters }) => bit(meters?.capabilities, 2) },
  checksums: {
    use: 'pods may leave checksums to the device; otherwise, the agent turns that off in every pod',
    of: ({ fillsChecksums }) => fillsChecksums,
  },
  geneve: { use: '`tunnelType: geneve`', of: link('geneve') },
  vxlan: { use: '`tunnelType: vxlan`', of: link('vxlan') },
  gre: { use: '`tunnelType: gre`', of: link('gre') },
  ip6gre: { use: '`tunnelType: gre` where nodes have no IPv4 address, on the kernel’s data path', of: link('ip6gre') },
  tnl_push_pop: { use: 'OVS itself adds tunnel headers; otherwise the kernel’s tunnels do', of: flag('tnl_push_pop') },
  masked_set_action: { use: 'bits of a field are set without matching the rest: fewer megaflows', of: flag('masked_set_action') },
  nd_ext: { use: 'not used: neighbour advertisements are rewritten without it', of: flag('nd_ext') },
  ufid: { use: 'megaflows have identifiers, which saves CPU', of: flag('ufid') },
  clone: { use: 'not used', of: flag('clone') },
  sample_nesting: { use: 'not used', of: flag('sample_nesting') },
  trunc: { use: 'not used', of: flag('trunc') },
  check_pkt_len: { use: 'not used', of: flag('check_pkt_len') },
  explicit_drop_action: { use: 'not used', of: flag('explicit_drop_action') },
  lb_output_action: { use: 'not used (bonds)', of: flag('lb_output_action') },
  add_mpls: { use: 'not used', of: flag('add_mpls') },
  max_mpls_depth: { use: 'not used', of: number('max_mpls_depth') },
  max_vlan_headers: { use: 'not used: tagged frames are dropped', of: number('max_vlan_headers') },
} as const satisfies Readonly<Record<string, FeatureRow>>;

type DatapathFeature = keyof typeof datapathFeatures;

/** Capabilities of a data path; `null` if it did not report the feature. */
export type DatapathCapabilities = Readonly<Record<DatapathFeature, boolean | number | null>>;

export function capabilitiesOf(facts: DatapathFacts): DatapathCapabilities {
  const entries = Object.entries<FeatureRow>(datapathFeatures).map(([name, { of }]) => [name, of(facts) ?? null] as const);
  return Object.fromEntries(entries) as DatapathCapabilities;
}

/** Capability known to be missing, and its effect on traffic. */
export interface MissingFeature {
  readonly feature: string;
  readonly consequence: string;
}

export function missingIn(abilities: DatapathCapabilities): MissingFeature[] {
  return Object.entries<FeatureRow>(datapathFeatures).flatMap(([feature, { without }]) =>
    without !== undefined && abilities[feature as DatapathFeature] === false ? [{ feature, consequence: without }] : [],
  );
}
