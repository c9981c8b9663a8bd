import { SeineError } from '../../base/errors/seine-error.ts';
import { type Family, type Ip, isIp, parseIp } from '../../base/net/ip.ts';
import type { Mac } from '../../base/net/mac.ts';
import type { NodeEnvironment } from '../../dataplane/compile/environment.ts';
import { ownAddresses } from '../../dataplane/compile/environment.ts';
import type { Peer } from '../../kubernetes/resources/peer-source.ts';
import type { PolicyPod } from '../../kubernetes/resources/policy-pod.ts';
import { type Lease, podName } from '../../pods/ipam/lease.ts';
import { externalTargets, type ReachedService } from './external-targets.ts';
import type { KernelTranslation } from './kernel-paths.ts';
import type { TraceTarget } from './trace-ends.ts';

/** Sender of the traced packet. */
export interface TraceSender {
  readonly name: string;
  /** A pod or process of this node, a host outside, or a pod of another node, from the tunnel or from the kernel. Not pods and tunnels: from the gateway. */
  readonly kind: 'pod' | 'node' | 'outside' | 'tunnel' | 'direct';
  readonly addresses: readonly Ip[];
  /** Sending pod of this node. */
  readonly pod?: { readonly ofPort: number; readonly mac: Mac };
  /** Node that a packet from the tunnel comes from. */
  readonly peer?: Peer;
}

interface TraceReceiver {
  readonly name: string;
  readonly addresses: readonly Ip[];
  /** Addresses with ports, if a host outside reaches a Service: one packet is traced for each. */
  readonly targets?: readonly TraceTarget[];
  readonly service?: ReachedService;
}

export interface TraceQuestion {
  readonly from: TraceSender;
  readonly to: TraceReceiver;
  readonly protocol: 'tcp' | 'udp' | 'sctp' | 'icmp';
  /** Absent for ICMP. */
  readonly port?: number;
  readonly sourcePort: number;
  /** True if the source port was asked for. */
  readonly hasSourcePort: boolean;
  readonly isEstablished: boolean;
  readonly families: readonly Family[];
}

/** Parts of the agent that know names. */
export interface TraceNames {
  readonly node: string;
  readonly leases: readonly Lease[];
  readonly environment: NodeEnvironment;
  readonly portOf: (lease: Lease) => number | undefined;
  readonly podElsewhere: (name: string) => PolicyPod | undefined;
  readonly service: (name: string) => ReachedService | undefined;
  readonly peer: (name: string) => Peer | undefined;
  readonly translated: KernelTranslation;
}

const outsideDefaults = [parseIp('203.0.113.1'), parseIp('2001:db8::1')];
const SOURCE_PORT = 40_000;
const NAME_CHARACTERS_MAX = 400;

/** Reads the query `from`, `to`, `port`, `family`, `source-port` and `established`. @throws SeineError `INVALID_INPUT` that names the field and the value */
export function traceQuestion(query: URLSearchParams, names: TraceNames): TraceQuestion {
  const [fromText, toText] = [textOf(query, 'from'), textOf(query, 'to')];
  const from = senderOf(fromText, names);
  const named = receiverOf(toText, names);
  const { protocol, port } = portOf(query.get('port') ?? undefined, named);
  const to =
    from.kind === 'outside' && named.service
      ? reachedFromOutside(named, named.service, { protocol, ...(port !== undefined && { port }) }, names)
      : named;
  const asked = query.get('family') ?? undefined;
  if (asked !== undefined && asked !== 'ipv4' && asked !== 'ipv6') throw invalid('family', asked, 'is neither ipv4 nor ipv6');
  const families = (['ipv4', 'ipv6'] as const).filter(
    (family) => (asked ?? family) === family && has(from.addresses, family) && has(to.addresses, family),
  );
  if (families.length === 0)
    throw invalid('family', asked ?? 'any', `${from.name} and ${to.name} have no ${asked ?? ''} address of one family`.replace('  ', ' '));
  return {
    ...{ from, to, protocol, families },
    ...(port !== undefined && { port }),
    sourcePort: numberOf('source-port', query.get('source-port') ?? String(SOURCE_PORT), 65_535),
    hasSourcePort: query.has('source-port'),
    isEstablished: query.get('established') === 'true',
  };
}

/** A host outside does not reach cluster addresses, unless a network routes them: then it is traced to the address. */
function reachedFromOutside(
  { name }: TraceReceiver,
  service: ReachedService,
  asked: Pick<TraceQuestion, 'protocol' | 'port'>,
  names: TraceNames,
): TraceReceiver {
  const targets = externalTargets(name, service, asked, names);
  return { name, service, targets, addresses: targets.map(({ ip }) => ip) };
}

function has(addresses: readonly Ip[], family: Family): boolean {
  return addresses.some((each) => each.family === family);
}

function textOf(query: URLSearchParams, field: string): string {
  const text = query.get(field) ?? '';
  if (text === '' || text.length > NAME_CHARACTERS_MAX) throw invalid(field, text.slice(0, 40), 'names no end of a connection');
  return text;
}

function invalid(field: string, value: string, why: string): SeineError {
  return new SeineError('INVALID_INPUT', `${field}: ${JSON.stringify(value)} ${why}`);
}

function numberOf(field: string, text: string, most: number): number {
  const number = Number(text);
  if (!/^\d{1,5}$/.test(text) || number < 1 || number > most) throw invalid(field, text, `is not a number from 1 to ${most}`);
  return number;
}

function portOf(text: string | undefined, { service, name }: TraceReceiver): Pick<TraceQuestion, 'protocol' | 'port'> {
  if (text === undefined) {
    if (!service) return { protocol: 'icmp' };
    const [only, ...more] = service.ports;
    if (!only || more.length > 0)
      throw invalid(
        'port',
        '',
        `is needed: ${name} has the ports ${service.ports.map((each) => `${each.port}/${each.protocol}`).join(', ') || 'none'}`,
      );
    return { protocol: only.protocol.toLowerCase() as 'tcp', port: only.port };
  }
  if (text.toLowerCase() === 'icmp') return { protocol: 'icmp' };
  const [digits = '', protocol = 'tcp', ...rest] = text.toLowerCase().split('/');
  if ((protocol !== 'tcp' && protocol !== 'udp' && protocol !== 'sctp') || rest.length > 0)
    throw invalid('port', text, 'is not of the form 80, 80/TCP, 53/UDP, 5000/SCTP or icmp');
  return { protocol, port: numberOf('port', digits, 65_535) };
}

function senderOf(text: string, names: TraceNames): TraceSender {
  const { environment, node } = names;
  const [kind = '', rest = ''] = split(text);
  if (kind === 'node') {
    if (rest !== node) throw elsewhere('from', text, rest, names);
    return { name: text, kind: 'node', addresses: environment.gateway.addresses };
  }
  if (kind === 'outside') return { name: text, kind: 'outside', addresses: outsideOf('from', text, rest) };
  if (kind === 'tunnel' || kind === 'direct') return peerSender(kind, text, rest, names);
  if (isIp(text)) return senderAt(parseIp(text), names);
  const lease = leaseNamed(text, names);
  if (lease) return podSender(lease, names);
  const pod = names.podElsewhere(text);
  if (pod) throw elsewhere('from', text, pod.nodeName ?? 'no node', names);
  throw invalid('from', text, 'is no pod that this node knows; forms: NAMESPACE/POD, node:NAME, outside[:ADDRESS], ADDRESS');
}

function elsewhere(field: string, text: string, node: string, { node: own }: TraceNames): SeineError {
  return invalid(field, text, `is on ${node}, and this is ${own}; run this there, or on a host with a kubeconfig`);
}

/** Splits a prefix off a name: an IPv6 address has none. */
function split(text: string): readonly [kind?: string, rest?: string] {
  const [, kind, rest = ''] = /^(node|outside|tunnel|direct|service)(?::(.*))?$/.exec(text) ?? [];
  return kind === undefined ? [] : [kind, rest];
}

function outsideOf(field: string, text: string, address: string): readonly Ip[] {
  if (address === '') return outsideDefaults;
  if (!isIp(address)) throw invalid(field, text, 'is not outside:ADDRESS');
  return [parseIp(address)];
}

/**
 * Packet of another node, which arrives here through the tunnel (`tunnel:NODE/ADDRESS`) or through the kernel (`direct:NODE/ADDRESS`). The
 * kernel of this node may also return a packet of its own bridge, for a node port.
 */
function peerSender(way: 'tunnel' | 'direct', text: string, rest: string, names: TraceNames): TraceSender {
  const [nodeName = '', address = ''] = rest.split('/');
  if (!isIp(address)) throw invalid('from', text, `is not of the form ${way}:NODE/ADDRESS`);
  if (way === 'direct' && nodeName === names.node) return { name: text, addresses: [parseIp(address)], kind: 'direct' };
  const peer = names.peer(nodeName);
  if (!peer) throw invalid('from', text, 'names no other node that this node knows');
  const sender = { name: text, addresses: [parseIp(address)] };
  return way === 'tunnel' ? { ...sender, kind: 'tunnel', peer } : { ...sender, kind: 'direct' };
}

function senderAt(ip: Ip, names: TraceNames): TraceSender {
  const lease = names.leases.find((each) => isAllocated(each) && each.addresses.some((own) => own.ip.text === ip.text));
  if (lease) return { ...podSender(lease, names), addresses: [ip] };
  const isOwn = ownAddresses(names.environment).some(({ text }) => text === ip.text);
  return isOwn
    ? { name: `node:${names.node}`, kind: 'node', addresses: [ip] }
    : { name: `outside:${ip.text}`, kind: 'outside', addresses: [ip] };
}

function isAllocated({ state }: Lease): boolean {
  return state === 'allocated';
}

function leaseNamed(name: string, { leases }: TraceNames): Lease | undefined {
  return leases.find((each) => isAllocated(each) && podName(each) === name);
}

function podSender(lease: Lease, { portOf: ofPortOf }: TraceNames): TraceSender {
  const ofPort = ofPortOf(lease);
  if (ofPort === undefined) throw invalid('from', podName(lease), 'has no port on the bridge yet: `seinectl explain pod` gives the reason');
  return { name: podName(lease), kind: 'pod', addresses: lease.addresses.map(({ ip }) => ip), pod: { ofPort, mac: lease.mac } };
}

function receiverOf(text: string, names: TraceNames): TraceReceiver {
  const [kind, rest = ''] = split(text);
  if (kind === 'outside') return { name: text, addresses: outsideOf('to', text, rest) };
  if (kind === 'service') return serviceReceiver(text, rest, names);
  if (kind === 'node') return nodeReceiver(text, rest, names);
  if (kind === 'tunnel' || kind === 'direct') throw invalid('to', text, 'is not a receiver');
  if (isIp(text)) return { name: text, addresses: [parseIp(text)] };
  const lease = leaseNamed(text, names);
  if (lease) return { name: text, addresses: lease.addresses.map(({ ip }) => ip) };
  const pod = names.podElsewhere(text);
  if (!pod || pod.podIps.length === 0)
    throw invalid(
      'to',
      text,
      'is no pod with an address; forms: NAMESPACE/POD, service:NAMESPACE/NAME, node:NAME, outside[:ADDRESS], ADDRESS',
    );
  return { name: text, addresses: pod.podIps.map(parseIp) };
}

function serviceReceiver(text: string, name: string, names: TraceNames): TraceReceiver {
  const service = names.service(name);
  if (!service) throw invalid('to', text, 'is no Service that this node knows; the form is service:NAMESPACE/NAME');
  if (service.clusterIps.length === 0) throw invalid('to', text, 'is headless or an external name: trace to one of its pods');
  return { name: text, addresses: service.clusterIps.map(parseIp), service };
}

function nodeReceiver(text: string, name: string, names: TraceNames): TraceReceiver {
  if (name === names.node) return { name: text, addresses: ownAddresses(names.environment) };
  const peer = names.peer(name);
  if (!peer) throw invalid('to', text, 'is no node that this node knows');
  return { name: text, addresses: peer.addresses.map(parseIp) };
}
