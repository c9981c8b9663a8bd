import type { Action, CtAction } from '../../openflow/actions/action.ts';
import type { KnownField, PacketState } from './packet-state.ts';

/** Bits of `ct_state`. Source: ovs-fields(7) "ct_state". */
export const stateBits = { new: 1, est: 2, rel: 4, rpl: 8, inv: 16, trk: 32, snat: 64, dnat: 128 } as const;

/** Connection tracking as a walk assumes it: `ct()` is not executed, its answer is. */
export interface AssumedTracking {
  /**
   * Changes the packet as `ct()` does: its translation, and `ct_state`, `ct_mark`, `ct_zone` and the original tuple for the table where it
   * continues. `exec` applies the actions on the mark. @returns false if the action cannot be read
   */
  track(packet: PacketState, action: CtAction, exec: (actions: readonly Action[], packet: PacketState) => boolean): boolean;
}

/** Addresses, protocol and ports of one direction of a connection. */
interface FlowTuple {
  readonly family: 4 | 6;
  readonly protocol: bigint;
  readonly src: bigint;
  readonly dst: bigint;
  readonly srcPort: bigint;
  readonly dstPort: bigint;
}

/** Connection that tracking knows, in one zone. */
interface KnownConnection {
  readonly original: FlowTuple;
  readonly reply: FlowTuple;
  mark: bigint;
  readonly replied: boolean;
}

const portFields: Readonly<Record<number, readonly [KnownField, KnownField]>> = {
  6: ['tcp_src', 'tcp_dst'],
  17: ['udp_src', 'udp_dst'],
  132: ['sctp_src', 'sctp_dst'],
};

/** Reads the tuple of a packet; undefined if it has no IP header. */
export function tupleOf(packet: PacketState): FlowTuple | undefined {
  const type = packet.get('eth_type');
  if (type !== 0x0800n && type !== 0x86ddn) return undefined;
  const [src, dst] = type === 0x0800n ? (['ip_src', 'ip_dst'] as const) : (['ipv6_src', 'ipv6_dst'] as const);
  const protocol = packet.get('ip_proto');
  const ports = portFields[Number(protocol)];
  return {
    family: type === 0x0800n ? 4 : 6,
    protocol,
    src: packet.get(src),
    dst: packet.get(dst),
    srcPort: ports ? packet.get(ports[0]) : 0n,
    dstPort: ports ? packet.get(ports[1]) : 0n,
  };
}

/** Writes the addresses and ports of a tuple to the packet. */
export function writeTuple(packet: PacketState, { family, protocol, src, dst, srcPort, dstPort }: FlowTuple): void {
  const [from, to] = family === 4 ? (['ip_src', 'ip_dst'] as const) : (['ipv6_src', 'ipv6_dst'] as const);
  packet.set(from, src);
  packet.set(to, dst);
  const ports = portFields[Number(protocol)];
  if (!ports) return;
  packet.set(ports[0], srcPort);
  packet.set(ports[1], dstPort);
}

/** Sets the original tuple, which flows match as `ct_nw_src` and the like. */
function writeOriginal(packet: PacketState, { family, protocol, src, dst, srcPort, dstPort }: FlowTuple): void {
  const [from, to] = family === 4 ? (['ct_nw_src', 'ct_nw_dst'] as const) : (['ct_ipv6_src', 'ct_ipv6_dst'] as const);
  packet.set(from, src);
  packet.set(to, dst);
  packet.set('ct_nw_proto', protocol);
  packet.set('ct_tp_src', srcPort);
  packet.set('ct_tp_dst', dstPort);
}

/** Removes all that tracking has found, as on a packet that continues without a table. */
export function clearTracking(packet: PacketState): void {
  for (const name of ['ct_state', 'ct_mark', 'ct_zone', 'ct_nw_src', 'ct_nw_dst', 'ct_ipv6_src', 'ct_ipv6_dst'] as const)
    packet.set(name, 0n);
  for (const name of ['ct_nw_proto', 'ct_tp_src', 'ct_tp_dst'] as const) packet.set(name, 0n);
}

function reversed({ src, dst, srcPort, dstPort, ...rest }: FlowTuple): FlowTuple {
  return { ...rest, src: dst, dst: src, srcPort: dstPort, dstPort: srcPort };
}

function keyOf(zone: number, { protocol, src, dst, srcPort, dstPort }: FlowTuple): string {
  return `${zone} ${protocol} ${src} ${srcPort} ${dst} ${dstPort}`;
}

function translated(tuple: FlowTuple, { nat }: CtAction): FlowTuple {
  const { direction, addresses, ports } = nat ?? {};
  if (!direction || !addresses) return tuple;
  const address = BigInt(addresses.first);
  return direction === 'src' ? { ...tuple, src: address } : { ...tuple, dst: address, ...(ports && { dstPort: BigInt(ports.first) }) };
}

interface FoundConnection {
  readonly connection: KnownConnection;
  readonly isReply: boolean;
}

/** Connection that a walk assumes to be established. */
interface EstablishedConnection {
  readonly zone: number;
  readonly original: FlowTuple;
  /** Tuple of replies. */
  readonly reply: FlowTuple;
  readonly mark: bigint;
}

/** Assumes that tracking knows the given connections, and those that the packet's own `ct(commit)` adds. */
export class AssumedConnections implements AssumedTracking {
  readonly #known = new Map<string, FoundConnection>();
  /** Connection of the packet: a second `ct()` in its zone does not look it up again. */
  #current: { readonly zone: number; readonly found: FoundConnection } | undefined;

  constructor(established: readonly EstablishedConnection[] = []) {
    for (const { zone, ...connection } of established) this.#add(zone, { ...connection, replied: true });
  }

  track(packet: PacketState, action: CtAction, exec: (actions: readonly Action[], packet: PacketState) => boolean): boolean {
    const tuple = tupleOf(packet);
    if (typeof action.zone !== 'number' || !tuple) return false;
    const { zone, commit } = action;
    const known = this.#current?.zone === zone ? this.#current.found : this.#known.get(keyOf(zone, tuple));
    packet.set('ct_zone', BigInt(zone));
    if (!known && !commit) return report(packet, tuple, stateBits.new | stateBits.trk, 0n);
    const reply = reversed(translated(tuple, action));
    const found = known ?? { connection: { original: tuple, reply, mark: 0n, replied: false }, isReply: false };
    const { connection, isReply } = found;
    this.#current = { zone, found };
    const wasTranslated = connection.reply.src !== connection.original.dst || connection.reply.srcPort !== connection.original.dstPort;
    if (commit) {
      packet.set('ct_mark', connection.mark);
      if (!exec(action.exec, packet)) return false;
      connection.mark = packet.get('ct_mark');
    }
    if (!known) this.#add(zone, connection);
    if (action.nat) writeTuple(packet, reversed(isReply ? connection.original : connection.reply));
    const bits = stateBits.trk | (connection.replied ? stateBits.est : stateBits.new) | (isReply ? stateBits.rpl : 0);
    const natBits = action.nat?.direction === 'dst' && wasTranslated ? stateBits.dnat : 0;
    return report(packet, connection.original, bits | natBits, connection.mark);
  }

  /** Returns the connections that are known, as after a reply. */
  established(): readonly EstablishedConnection[] {
    return [...this.#known].flatMap(([key, { connection, isReply }]) => {
      const { original, reply, mark } = connection;
      return isReply ? [] : [{ zone: Number(key.split(' ', 1)[0]), original, reply, mark }];
    });
  }

  #add(zone: number, connection: KnownConnection): void {
    this.#known.set(keyOf(zone, connection.original), { connection, isReply: false });
    this.#known.set(keyOf(zone, connection.reply), { connection, isReply: true });
  }
}

function report(packet: PacketState, original: FlowTuple, state: number, mark: bigint): true {
  packet.set('ct_state', BigInt(state));
  packet.set('ct_mark', mark);
  writeOriginal(packet, original);
  return true;
}

/** Assumes given states, one for each `ct()`, as `ofproto/trace --ct-next` does; `trk` and `new` after the last. */
export class ScriptedStates implements AssumedTracking {
  readonly #states: Iterator<number>;

  constructor(states: Iterable<number>) {
    this.#states = states[Symbol.iterator]();
  }

  track(packet: PacketState, action: CtAction, exec: (actions: readonly Action[], packet: PacketState) => boolean): boolean {
    const tuple = tupleOf(packet);
    if (!tuple) return false;
    const next = this.#states.next();
    const mark = packet.get('ct_mark');
    if (!exec(action.exec, packet)) return false;
    const marked = packet.get('ct_mark');
    writeTuple(packet, translated(tuple, action));
    return report(packet, tuple, next.done ? stateBits.trk | stateBits.new : next.value, action.exec.length > 0 ? marked : mark);
  }
}
