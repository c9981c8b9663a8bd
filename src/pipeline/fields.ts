import { bitRange, type FieldSpec, layoutFields } from './registers.ts';

/**
 * What the bits of the registers mean. reg10 and reg11 are spare. A field keeps its place for ever: packets in
 * flight during an upgrade meet flows of both versions.
 */
export const registerFields = {
  source: {
    reg: 0,
    bits: [0, 3],
    doc: 'Where the packet entered the bridge.',
    values: { tunnel: 1, gateway: 2, pod: 3, world: 4 },
  },
  destination: { reg: 0, bits: [4, 7], doc: 'What kind of port it leaves by.', values: { tunnel: 1, gateway: 2, pod: 3 } },
  rewriteMac: { reg: 0, bits: [9, 9], doc: 'The packet is routed: Ethernet source and TTL change.', values: { no: 0, yes: 1 } },
  verdict: { reg: 0, bits: [10, 12], doc: 'What policy decided (reserved).' },
  reason: { reg: 0, bits: [13, 17], doc: 'What the agent shall do with a copy (reserved).' },
  recovery: {
    reg: 0,
    bits: [18, 19],
    doc: 'What the agent does about a half-open connection: asks what its client called the server, or sends its packet once more.',
    values: { no: 0, asked: 1, again: 2 },
  },
  outPort: { reg: 1, bits: [0, 31], doc: 'OpenFlow port chosen by `switch`.' },
  ruleId: { reg: 2, bits: [0, 31], doc: 'Policy rule that decided (reserved).' },
  endpointIpv4: { reg: 3, bits: [0, 31], doc: 'IPv4 address of the endpoint that the group picked.' },
  endpointPort: { reg: 4, bits: [0, 15], doc: 'Port of the endpoint that the group picked.' },
  serviceState: {
    reg: 4,
    bits: [16, 18],
    doc: 'How far the choice of an endpoint has come.',
    values: { choose: 1, chosen: 2, learn: 3 },
  },
  entryKind: { reg: 4, bits: [19, 21], doc: 'Which kind of Service address was asked (reserved).' },
  scope: { reg: 4, bits: [22, 24], doc: 'Who asks a Service, where that makes a difference.', values: { pod: 1, node: 2, world: 3 } },
  pieces: {
    reg: 4,
    bits: [25, 25],
    doc: 'Whether the later pieces of this datagram were told which endpoint is theirs.',
    values: { untold: 0, told: 1 },
  },
  peer: { reg: 5, bits: [0, 31], doc: 'The node that a tunnel packet came from: a hash of its name.' },
  question: { reg: 6, bits: [0, 31], doc: 'Number of what the agent asks (`recovery`).' },
  group: { reg: 7, bits: [0, 31], doc: 'Service group: also tells which Service this is.' },
  sourceIdentity: { reg: 8, bits: [0, 31], doc: 'Which peer selectors the source matches (reserved).' },
  destinationIdentity: { reg: 9, bits: [0, 31], doc: 'Which peer selectors the destination matches (reserved).' },
  endpointIpv6a: { reg: 12, bits: [0, 31], doc: 'IPv6 address of the endpoint, bits 96..127 (xxreg3 as a whole).' },
  endpointIpv6b: { reg: 13, bits: [0, 31], doc: 'IPv6 address of the endpoint, bits 64..95.' },
  endpointIpv6c: { reg: 14, bits: [0, 31], doc: 'IPv6 address of the endpoint, bits 32..63.' },
  endpointIpv6d: { reg: 15, bits: [0, 31], doc: 'IPv6 address of the endpoint, bits 0..31.' },
} as const satisfies Readonly<Record<string, FieldSpec>>;

export const reg = layoutFields(registerFields);

/**
 * What the bits of `ct_mark` mean. Marks live as long as connections do, through agent upgrades: bits are added, never
 * re-used.
 */
export const ctMarkFields = {
  source: {
    reg: 0,
    bits: [0, 3],
    doc: 'Where the connection was opened from; same values as the register.',
    values: { tunnel: 1, gateway: 2, pod: 3, world: 4 },
  },
  service: { reg: 0, bits: [4, 4], doc: 'Translated to an endpoint of a Service.', values: { no: 0, yes: 1 } },
  snat: { reg: 0, bits: [5, 5], doc: 'Its source is translated as well, in the SNAT zone.', values: { no: 0, yes: 1 } },
  hairpin: { reg: 0, bits: [6, 6], doc: 'Leaves by the port it came in by.', values: { no: 0, yes: 1 } },
} as const satisfies Readonly<Record<string, FieldSpec>>;

export const ctMark = layoutFields(ctMarkFields);

/** Remembers in the connection where it was opened from. */
export const sourceToCtMark = { from: bitRange(registerFields.source), to: bitRange(ctMarkFields.source) } as const;
