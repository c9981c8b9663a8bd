import { bitRange, type FieldSpec, layoutFields } from './registers.ts';

/**
 * Meaning of the registers' bits. A field never moves: packets in flight during an upgrade meet flows of both
 * versions.
 */
export const registerFields = {
  source: {
    reg: 0,
    bits: [0, 3],
    doc: 'Where the packet entered the bridge.',
    values: { tunnel: 1, gateway: 2, pod: 3, external: 4 },
  },
  destination: { reg: 0, bits: [4, 7], doc: 'What kind of port it leaves by.', values: { tunnel: 1, gateway: 2, pod: 3 } },
  direct: {
    reg: 0,
    bits: [8, 8],
    doc: 'The packet leaves through the gateway for a pod of another node, without a tunnel.',
    values: { no: 0, yes: 1 },
  },
  routed: { reg: 0, bits: [9, 9], doc: 'The packet is routed: Ethernet source and TTL change.', values: { no: 0, yes: 1 } },
  verdict: {
    reg: 0,
    bits: [10, 12],
    doc: 'Decision so far: replies of admitted connections, and related packets, are allowed. Policy decides about the rest.',
    values: { none: 0, standing: 1, allow: 2, deny: 3 },
  },
  reason: {
    reg: 0,
    bits: [13, 17],
    doc: 'Reason for denying a packet that no rule denies, or for sending a copy to the agent.',
    values: { none: 0, log: 1, pieces: 3 },
  },
  halfOpenProbe: {
    reg: 0,
    bits: [18, 19],
    doc: 'Half-open connection: the agent looks up the original destination in conntrack, or sends the packet again.',
    values: { no: 0, sent: 1, repeated: 2 },
  },
  unsettled: {
    reg: 0,
    bits: [20, 20],
    doc: 'This connection is not admitted yet: if it is committed before that, it is `barred`.',
    values: { no: 0, yes: 1 },
  },
  answerFrom: {
    reg: 0,
    bits: [21, 22],
    doc: 'Reply for which policy decides again whether its sender may receive the connection.',
    values: { no: 0, yes: 1, asked: 2 },
  },
  answerTo: {
    reg: 0,
    bits: [23, 24],
    doc: 'Reply for which policy decides again whether its receiver may open the connection.',
    values: { no: 0, yes: 1, asked: 2 },
  },
  answerPorts: {
    reg: 0,
    bits: [25, 25],
    doc: 'The ports of a reply have been looked up like those of the packet that opened its connection.',
    values: { no: 0, yes: 1 },
  },
  sctpSide: {
    reg: 0,
    bits: [26, 27],
    doc: 'If conntrack does not support SCTP ports: the sender of this packet of an admitted association.',
    values: { unknown: 0, opener: 1, answer: 2 },
  },
  associationLearned: {
    reg: 0,
    bits: [28, 28],
    doc: 'Whether the share of the sender had room for this SCTP association, as `learn` reports it.',
    values: { no: 0, yes: 1 },
  },
  sentBy: {
    reg: 0,
    bits: [29, 29],
    doc: 'Whether a packet of ICMP from the tunnel has an address that is the node’s own: its gateway’s, or the first of its pod network.',
    values: { pod: 0, node: 1 },
  },
  expired: {
    reg: 0,
    bits: [30, 30],
    doc: 'The TTL or hop limit ends on this hop: `output` passes the packet to `timeExceeded`.',
    values: { no: 0, yes: 1 },
  },
  reporterSaved: {
    reg: 0,
    bits: [31, 31],
    doc: 'The registers of the endpoint have the source address of this time exceeded error, while connection tracking translates it.',
    values: { no: 0, yes: 1 },
  },
  outPort: { reg: 1, bits: [0, 31], doc: 'OpenFlow port chosen by `switch`.' },
  ruleId: { reg: 2, bits: [0, 31], doc: 'Policy rule that decided (reserved).' },
  sourceRangesHigh: {
    reg: 2,
    bits: [0, 31],
    doc: 'Set of source ranges of a Service, between `sourceRanges` and `sourceRangeSets`: the first half of a hash.',
    shares: ['ruleId'],
  },
  sourceRangesLow: { reg: 5, bits: [0, 31], doc: 'The second half. Packets from tunnels are not looked up as Services.', shares: ['peer'] },
  endpointIpv4: { reg: 3, bits: [0, 31], doc: 'IPv4 address of the endpoint that the group picked.' },
  endpointPort: { reg: 4, bits: [0, 15], doc: 'Port of the endpoint that the group picked.' },
  serviceState: {
    reg: 4,
    bits: [16, 18],
    doc: 'State of the choice of an endpoint.',
    values: { choose: 1, chosen: 2, learn: 3 },
  },
  entryKind: { reg: 4, bits: [19, 21], doc: 'Kind of the Service address (reserved).' },
  scope: { reg: 4, bits: [22, 24], doc: 'Client of a Service, where they differ.', values: { pod: 1, node: 2, external: 3 } },
  fragments: {
    reg: 4,
    bits: [25, 25],
    doc: 'Whether table `affinity` has the endpoint for the later fragments of this datagram.',
    values: { endpointUnknown: 0, endpointKnown: 1 },
  },
  tries: {
    reg: 4,
    bits: [26, 27],
    doc: 'Number of retries of a translation that found no free tuple.',
    values: { none: 0, one: 1, two: 2 },
  },
  peer: { reg: 5, bits: [0, 31], doc: 'The node that a tunnel packet came from: a hash of its name.' },
  probeId: { reg: 6, bits: [0, 31], doc: 'Number of the agent’s probe (`halfOpenProbe`).' },
  group: { reg: 7, bits: [0, 31], doc: 'Service group: also identifies the Service.' },
  sourceFine: {
    reg: 8,
    bits: [0, 19],
    doc: 'Peers of ingress rules with labels or ports of pods that contain the source: one number for each set of them.',
  },
  sourceCoarse: { reg: 8, bits: [20, 31], doc: 'The same of blocks and whole namespaces.' },
  destinationFine: { reg: 9, bits: [0, 19], doc: 'As `sourceFine`, of egress rules and the destination.' },
  destinationCoarse: { reg: 9, bits: [20, 31], doc: 'As `sourceCoarse`, of egress rules and the destination.' },
  clusterPolicies: {
    reg: 10,
    bits: [4, 4],
    doc: 'Whether the classes of cluster policies are loaded: then evaluation begins with the Admin tier. Cleared by `egressLookup` and `ingressLookup`.',
    values: { no: 0, yes: 1 },
  },
  denial: {
    reg: 10,
    bits: [5, 6],
    doc: 'What the sender of a denied packet gets, loaded with the verdict: an answer, or nothing. `unset`: as the node is configured.',
    values: { unset: 0, reject: 1, drop: 2 },
  },
  probeNumber: { reg: 11, bits: [0, 11], doc: 'Number of a trace probe (`probe`).' },
  probe: {
    reg: 11,
    bits: [31, 31],
    doc: 'A probe of `seinectl trace`: it takes the path of other packets, and goes to the agent where they would be dropped or delivered.',
    values: { no: 0, yes: 1 },
  },
  decision: { reg: 12, bits: [0, 31], shares: ['endpointIpv6a'], doc: 'Decision by ports, after the choice of an endpoint.' },
  adminClass: {
    reg: 13,
    bits: [0, 10],
    shares: ['endpointIpv6b'],
    doc: 'Class of the local pod for ClusterNetworkPolicy, Admin tier. 0: no rules in this tier.',
  },
  networkPolicyClass: {
    reg: 13,
    bits: [11, 21],
    shares: ['endpointIpv6b'],
    doc: 'Class of the local pod for NetworkPolicy, in the direction that is decided: pods of one class have the same rules.',
    values: { none: 0, closed: 1 },
  },
  baselineClass: {
    reg: 13,
    bits: [22, 31],
    shares: ['endpointIpv6b'],
    doc: 'Class of the local pod for ClusterNetworkPolicy, Baseline tier. 0: no rules in this tier.',
  },
  policyClasses: {
    reg: 13,
    bits: [0, 31],
    shares: ['adminClass', 'networkPolicyClass', 'baselineClass', 'endpointIpv6b'],
    doc: 'The classes of all tiers together.',
  },
  endpointIpv6a: { reg: 12, bits: [0, 31], doc: 'IPv6 address of the endpoint, bits 96..127 (xxreg3 as a whole).' },
  endpointIpv6b: { reg: 13, bits: [0, 31], doc: 'IPv6 address of the endpoint, bits 64..95.' },
  endpointIpv6c: { reg: 14, bits: [0, 31], doc: 'IPv6 address of the endpoint, bits 32..63.' },
  endpointIpv6d: { reg: 15, bits: [0, 31], doc: 'IPv6 address of the endpoint, bits 0..31.' },
} as const satisfies Readonly<Record<string, FieldSpec>>;

export const reg = layoutFields(registerFields);

/** Meaning of the bits of `ct_mark`. Marks live as long as connections, also through agent upgrades: add new bits, never reuse one. */
export const ctMarkFields = {
  source: {
    reg: 0,
    bits: [0, 3],
    doc: 'Where the connection was opened from; same values as the register.',
    values: { tunnel: 1, gateway: 2, pod: 3, external: 4 },
  },
  service: { reg: 0, bits: [4, 4], doc: 'Translated to an endpoint of a Service.', values: { no: 0, yes: 1 } },
  snat: { reg: 0, bits: [5, 5], doc: 'Its source is translated as well, in the SNAT zone.', values: { no: 0, yes: 1 } },
  hairpin: { reg: 0, bits: [6, 6], doc: 'Leaves by the port it came in by.', values: { no: 0, yes: 1 } },
  unadmitted: { reg: 0, bits: [7, 7], doc: 'Committed, and not admitted: replies are dropped.', values: { no: 0, yes: 1 } },
  receiver: {
    reg: 0,
    bits: [8, 23],
    doc: 'Output port of the packet that was admitted: that of the local pod, or the tunnel. 0: an earlier release committed it.',
  },
  touched: {
    reg: 0,
    bits: [24, 24],
    doc: 'Set and cleared again by one packet, so that a commit changes the mark.',
    values: { no: 0, yes: 1 },
  },
} as const satisfies Readonly<Record<string, FieldSpec>>;

export const ctMark = layoutFields(ctMarkFields);

/** Moves of the number of a trace probe to the key of the tunnel, and back. */
export const probeNumberBits = bitRange(registerFields.probeNumber);

/** Move that stores in the connection whether it is admitted yet. */
export const unsettledToCtMark = { from: bitRange(registerFields.unsettled), to: bitRange(ctMarkFields.unadmitted) } as const;

/** Move that stores in the connection its origin. */
export const sourceToCtMark = { from: bitRange(registerFields.source), to: bitRange(ctMarkFields.source) } as const;

/** Move that stores in the connection its output port. */
export const outPortToCtMark = { from: { ...bitRange(registerFields.outPort), width: 16 }, to: bitRange(ctMarkFields.receiver) } as const;
