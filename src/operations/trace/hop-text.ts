import type { WalkedPacket, WalkHop } from '../../dataplane/flow-walk/flow-walk.ts';
import type { KnownField, PacketState } from '../../dataplane/flow-walk/packet-state.ts';
import { cookieFeature } from '../../dataplane/pipeline/cookie.ts';
import { reg } from '../../dataplane/pipeline/fields.ts';
import type { Mark } from '../../dataplane/pipeline/registers.ts';
import { type PipelineTableName, tableName } from '../../dataplane/pipeline/tables.ts';
import { addressIn, portIn, tunnelDestination } from './trace-packet.ts';

/** Names for numbers of this node's bridge. */
export interface HopNames {
  /** Pod with this OpenFlow port; `the node` for the gateway. */
  readonly port: (number: number) => string;
  /** Node with this tunnel address. */
  readonly peerAt: (address: string) => string | undefined;
  /** Pod, on any node, with this address. */
  readonly podAt: (address: string) => string | undefined;
  /** Owner of the entries with this cookie. */
  readonly owner: (cookie: bigint) => string | undefined;
  readonly tunnelType: string;
}

/** One hop, with the packet before and after it. */
interface HopView {
  readonly hop: WalkHop;
  readonly before: PacketState;
  readonly after: PacketState;
  readonly names: HopNames;
}

const priorityOfMiss = 0;

/** Returns a sentence for each hop of a walk; empty for hops that only pass the packet on. */
export function hopTexts(walked: WalkedPacket, names: HopNames): readonly string[] {
  return walked.hops.map((hop, at) => {
    const table = tableName(hop.table);
    const after = walked.hops[at + 1]?.packet ?? walked.outputs.at(-1)?.packet ?? hop.packet;
    const write = table && texts[table];
    if (!write || (hop.flow?.priority ?? priorityOfMiss) === priorityOfMiss) return '';
    return write({ hop, before: hop.packet, after, names });
  });
}

const none = '';

const texts: Partial<Readonly<Record<PipelineTableName, (view: HopView) => string>>> = {
  classify: ({ before, names }) => `arrives from ${names.port(Number(before.get('in_port')))}${tunnelSourceText(before, names)}`,
  spoofGuard: ({ before }) => `${addressIn(before, 'src').text} is an address of the sender`,
  neighbour: ({ before }) => `asks for the Ethernet address of ${addressIn(before, 'dst').text}`,
  state: ({ before }) => stateText(before),
  sourceRangeSets: ({ before }) => `${addressIn(before, 'src').text} is in loadBalancerSourceRanges of the Service`,
  affinity: ({ before, after }) =>
    changed(before, after, ['reg3', 'reg12', 'reg13', 'reg14', 'reg15']) ? 'the client keeps its endpoint' : none,
  balance: balanceText,
  dnat: ({ before, after }) => (isSameEnd(before, after) ? none : `the destination becomes ${endText(after)}`),
  egressEntry: ({ hop }) => entryText(hop, 'sender'),
  egressVerdict: ({ after }) => verdictText(after, 'egress'),
  route: ({ after, names }) => routeText(after, names),
  ttl: ({ before, after }) => {
    const [from, to] = [before.get('nw_ttl'), after.get('nw_ttl')];
    return from === to ? none : `is routed: TTL ${from} becomes ${to}`;
  },
  snat: ({ before, after }) => {
    const [from, to] = [addressIn(before, 'src').text, addressIn(after, 'src').text];
    return from === to ? none : `the source becomes ${to}, so that replies come back this way`;
  },
  ingressEntry: ({ hop }) => entryText(hop, 'receiver'),
  ingressVerdict: ({ after }) => verdictText(after, 'ingress'),
  commit: ({ before }) => ((before.get('ct_state') & 1n) === 1n ? 'the connection is admitted and tracked' : none),
  tunnel: ({ after, names }) => {
    const to = tunnelDestination(after);
    return to ? `is sent to ${names.peerAt(to.text) ?? 'a node'}, ${to.text}, over ${names.tunnelType}` : none;
  },
  output: ({ after, names }) => `leaves to ${names.port(Number(after.get('reg1')))}`,
  timeExceeded: () => 'the agent reports to the sender that the TTL ended',
  refusals: () => 'the agent refuses the connection to the sender',
};

function tunnelSourceText(packet: PacketState, names: HopNames): string {
  const ipv4 = packet.get('tun_src');
  if (ipv4 === 0n && packet.get('tun_ipv6_src') === 0n) return none;
  const copy = packet.copy();
  copy.set('tun_dst', ipv4);
  copy.set('tun_ipv6_dst', packet.get('tun_ipv6_src'));
  const address = tunnelDestination(copy)?.text ?? '';
  return ` of ${names.peerAt(address) ?? 'an unknown node'}, ${address}`;
}

function stateText(packet: PacketState): string {
  const state = Number(packet.get('ct_state'));
  if ((state & 16) !== 0) return 'belongs to no connection';
  if ((state & 8) !== 0) return 'is a reply of a known connection';
  return (state & 1) !== 0 ? 'opens a connection' : 'belongs to a known connection';
}

function balanceText({ hop, after, before, names }: HopView): string {
  const owner = hop.flow && names.owner(hop.flow.cookie);
  const [, service = ''] = /^service\/([^:]+)/.exec(owner ?? '') ?? [];
  const name = service === '' ? 'a Service' : `Service ${service}`;
  // One endpoint is translated to at once, several are a group, and without any the packet is refused.
  if (!hop.actions.some(({ kind }) => kind === 'group' || kind === 'ct')) return `is for ${name}, which has no endpoint for this client`;
  const endpoint = endpointText(after, before);
  return `is for ${name}; of its endpoints this path has ${endpoint}`;
}

/** Endpoint in the registers, or the translated destination. */
function endpointText(after: PacketState, before: PacketState): string {
  if (!isSameEnd(before, after)) return endText(after);
  const copy = after.copy();
  const isIpv4 = after.get('eth_type') === 0x0800n;
  if (isIpv4) copy.set('ip_dst', after.get('reg3'));
  else copy.set('ipv6_dst', after.read({ field: 'xxreg3', offset: 0, bits: 128 }) ?? 0n);
  const address = addressIn(copy, 'dst');
  return address.value === 0n ? 'the address itself' : `${address.text} port ${Number(after.get('reg4') & 0xffffn)}`;
}

function isSameEnd(before: PacketState, after: PacketState): boolean {
  return endText(before) === endText(after);
}

function endText(packet: PacketState): string {
  const port = portIn(packet, 1);
  return `${addressIn(packet, 'dst').text}${port === undefined ? '' : ` port ${port}`}`;
}

function changed(before: PacketState, after: PacketState, names: readonly KnownField[]): boolean {
  return names.some((name) => before.get(name) !== after.get(name));
}

function entryText({ flow, actions }: WalkHop, end: 'sender' | 'receiver'): string {
  if (!flow || cookieFeature(flow.cookie) !== 'subject') return none;
  const isIsolated = actions.length > 0;
  return isIsolated ? `policies isolate the ${end}` : `no policy isolates the ${end}`;
}

function verdictText(packet: PacketState, direction: 'egress' | 'ingress'): string {
  return hasMark(packet, reg.verdict('deny')) ? `${direction} policies deny it` : `${direction} policies allow it`;
}

function routeText(packet: PacketState, names: HopNames): string {
  const { text } = addressIn(packet, 'dst');
  const pod = names.podAt(text);
  if (hasMark(packet, reg.destination('pod'))) return `${text} is ${pod === undefined ? 'a pod' : `pod ${pod}`} of this node`;
  if (hasMark(packet, reg.destination('tunnel'))) return `${text} is ${pod === undefined ? 'a pod' : `pod ${pod}`} of another node`;
  return hasMark(packet, reg.destination('gateway')) ? `${text} is reached through the node` : none;
}

function hasMark(packet: PacketState, mark: Mark): boolean {
  return (packet.get(`reg${mark.reg}` as 'reg0') & BigInt(mark.mask)) === BigInt(mark.value);
}
