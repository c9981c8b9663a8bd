import { SeineError } from '../../base/errors/seine-error.ts';
import { parseIp } from '../../base/net/ip.ts';
import { ctMark } from '../pipeline/fields.ts';
import type { CtState, Nat } from '../pipeline/flow.ts';
import { mayOpen, type Packet, reversed, type Tuple, tupleKey, tupleOf, withQuoted, withTuple } from './packet.ts';

/** Arguments of `ct()`. */
interface Tracking {
  readonly zone: number;
  readonly commit: boolean;
  readonly nat: Nat | undefined;
  /** The mark after the action's `exec`, from the mark before it. */
  readonly remark: (mark: number) => number;
  /** Result of an earlier `ct()` for this packet. */
  readonly before: Remembered | undefined;
  /** True if the packet continues in another table: a data path may process another packet before it does. */
  readonly recirculates: boolean;
}

/** A packet keeps its connection; a second `ct()` in that zone does not look it up again. */
export interface Remembered {
  readonly zone: number;
  readonly connection: ModelConnection;
  readonly reply: boolean;
}

/** The packet after tracking. */
interface Tracked {
  readonly packet: Packet;
  readonly state: ReadonlySet<CtState>;
  readonly mark: number;
  readonly remembered?: Remembered;
  /** True if OVS does not see the original tuple of its connection. */
  readonly hidesTuple?: boolean;
}

export interface Tracker {
  /** @param mark mark of the packet so far */
  track(packet: Packet, mark: number, tracking: Tracking): Tracked;
}

interface ModelConnection {
  /** Tuples of the first packet, and of its answer. */
  readonly original: Tuple;
  readonly reply: Tuple;
  replied: boolean;
  mark: number;
  /** Marks that packets of this batch left where another packet may be processed in between. */
  marksOfBatch: Set<number>;
  /** A packet has written the mark and continues without a recirculation: no other packet is processed before its next action. */
  isBetweenActions: boolean;
}

/** The userspace data path's tracker sees no ports of SCTP. Source: lib/conntrack.c `extract_l4`. */
function seenBy(of: 'userspace' | 'kernel', packet: Packet): Tuple | undefined {
  const tuple = tupleOf(packet);
  return tuple && of === 'userspace' && tuple.protocol === 'sctp' ? { ...tuple, srcPort: 0, dstPort: 0 } : tuple;
}

/**
 * Connection tracking by ovs-actions(7) "ct": a connection is known once it is committed; it is new until an answer came; only its first
 * commit decides about translation, and every later packet gets that translation if it requests any.
 *
 * The kernel's is different in one point: while a connection is new, a packet is translated only by an action that names a kind of
 * translation, not by a plain `nat`. Source: Linux 6.1 net/openvswitch/conntrack.c `ovs_ct_nat`.
 */
export class ConnectionTracker implements Tracker {
  readonly #of: 'userspace' | 'kernel';
  readonly #connections = new Map<string, Remembered>();
  #beforeBatch: ReadonlyMap<string, Remembered> = new Map();
  #batch: 'new' | 'same' = 'new';

  constructor(of: 'userspace' | 'kernel') {
    this.#of = of;
  }

  /**
   * Called before each packet. Packets of one batch are all looked up before one of them is committed. Source: lib/dpif-netdev.c
   * `dp_execute_cb`, which runs OVS_ACTION_ATTR_CT for a whole batch.
   */
  startPacket(batch: 'new' | 'same'): void {
    if (batch === 'new') {
      this.#beforeBatch = new Map(this.#connections);
      for (const { connection } of this.#connections.values()) connection.marksOfBatch.clear();
    }
    this.#batch = batch;
  }

  track(packet: Packet, mark: number, tracking: Tracking): Tracked {
    const { zone, commit, nat, remark, before } = tracking;
    if (packet.quotes) return this.#related(packet, packet.quotes, tracking);
    if (before?.zone === zone) {
      if (nat?.kind === 'dst') refuseToBar(before.connection.mark, remark(before.connection.mark));
      return this.#seen(packet, before, tracking, mark);
    }
    const tuple = seenBy(this.#of, packet);
    if (!tuple) return { packet, state: new Set(['trk', 'inv']), mark: 0 };
    const connections = commit || this.#batch === 'new' ? this.#connections : this.#beforeBatch;
    const found = connections.get(`${zone} ${tupleKey(tuple)}`);
    // It was looked up before, and not found: the kernel finds it now by itself.
    if (found) return this.#seen(packet, found, tracking, commit && this.#batch === 'same' ? mark : undefined);
    if (!mayOpen(packet)) return { packet, state: new Set(['trk', 'inv']), mark: 0 };
    const fresh = new Set<CtState>(['trk', 'new']);
    if (!commit) return { packet, state: fresh, mark: 0 };
    const delivered = translated(tuple, nat);
    if (nat) refuseFatal(tuple, delivered, nat);
    const connection: ModelConnection = {
      original: tuple,
      reply: reversed(delivered),
      replied: false,
      mark: remark(0),
      marksOfBatch: new Set(),
      isBetweenActions: false,
    };
    if (tracking.recirculates) connection.marksOfBatch.add(connection.mark);
    this.#connections.set(`${zone} ${tupleKey(tuple)}`, { zone, connection, reply: false });
    this.#connections.set(`${zone} ${tupleKey(connection.reply)}`, { zone, connection, reply: true });
    if (nat?.kind === 'dst') fresh.add('dnat');
    return { packet: this.#sentOn(packet, delivered), state: fresh, mark: connection.mark, remembered: { zone, connection, reply: false } };
  }

  /** @param carried mark of a packet whose connection the kernel does not look up again; absent if it does */
  #seen(packet: Packet, remembered: Remembered, { commit, nat, remark, recirculates }: Tracking, carried?: number): Tracked {
    const { connection, reply } = remembered;
    if (reply) connection.replied = true;
    const mark = this.#committed(connection, { commit, remark, recirculates }, carried);
    const state = new Set<CtState>(['trk', connection.replied ? 'est' : 'new']);
    if (reply) state.add('rpl');
    if (nat?.kind === 'dst') state.add('dnat');
    const towards = reversed(reply ? connection.original : connection.reply);
    const refused = this.#of === 'kernel' && nat?.kind === 'restore' && !connection.replied;
    const onTheWay = nat && !refused ? this.#sentOn(packet, towards) : packet;
    return { packet: onTheWay, state, mark, remembered };
  }

  /**
   * The mark of the packet afterwards. The kernel sets a packet's mark to its connection's when it looks the connection up, and when a
   * commit of the packet changes that mark; a commit that writes an equal mark leaves the packet's. Packets of a batch take turns at each
   * recirculation, so one may find what the other wrote there. Source: Linux 6.1 net/openvswitch/conntrack.c `__ovs_ct_lookup`,
   * `ovs_ct_set_mark`.
   */
  #committed(
    connection: ModelConnection,
    { commit, remark, recirculates }: Pick<Tracking, 'commit' | 'remark' | 'recirculates'>,
    carried?: number,
  ): number {
    if (!commit) return this.#of === 'kernel' && carried !== undefined ? carried : connection.mark;
    const isAlone = this.#of === 'userspace' || this.#batch === 'new' || connection.isBetweenActions;
    const isLeft = !isAlone && [...connection.marksOfBatch].some((mark) => remark(mark) === mark);
    connection.isBetweenActions = !recirculates;
    if (isLeft && carried !== undefined) return carried;
    connection.mark = remark(connection.mark);
    if (recirculates) connection.marksOfBatch.add(connection.mark);
    return connection.mark;
  }

  /**
   * An ICMP error belongs to the connection that it quotes. On the kernel's data path one of the opening side is translated only by an
   * action that commits. Source: lib/conntrack.c `extract_l4_icmp`; Linux 6.1 net/openvswitch/conntrack.c `ovs_ct_nat`.
   *
   * For such an error the kernel reports `rel` alone, and Open vSwitch reads the original tuple only of packets that are new, established
   * or replies. Source: lib/packets.h `pkt_metadata_from_flow`, lib/flow.h `is_ct_valid`.
   */
  #related(packet: Packet, quotes: Tuple, { zone, commit, nat, remark }: Tracking): Tracked {
    const found = this.#connections.get(`${zone} ${tupleKey(reversed(quotes))}`);
    if (!found || packet.ipDst?.text !== quotes.src.text) return { packet, state: new Set(['trk', 'inv']), mark: 0 };
    const { connection, reply } = found;
    if (commit) connection.mark = remark(connection.mark);
    const state = new Set<CtState>(['trk', 'rel']);
    if (reply) state.add('rpl');
    const [before, after] = [reversed(quotes), reversed(reply ? connection.original : connection.reply)];
    const refused = this.#of === 'kernel' && nat?.kind === 'restore' && !reply && !commit;
    const onTheWay = nat && !refused ? damaged(this.#of, packet, withQuoted(packet, before, after)) : packet;
    return { packet: onTheWay, state, mark: connection.mark, remembered: found, hidesTuple: this.#of === 'kernel' && !reply };
  }

  /** Fields that it does not see stay unchanged. */
  #sentOn(packet: Packet, to: Tuple): Packet {
    const { portSrc: srcPort = 0, portDst: dstPort = 0 } = packet;
    const isBlind = this.#of === 'userspace' && packet.protocol === 'sctp';
    return withTuple(packet, isBlind ? { ...to, srcPort, dstPort } : to);
  }
}

/**
 * Conditions under which Open vSwitch 3.1.0 aborts sooner or later: a translation that changes nothing, and one of a packet whose source
 * equals its destination, with another whose answer does. Source: lib/conntrack.c `process_one`, where both lookups find a connection's
 * other half.
 */
function refuseFatal(tuple: Tuple, delivered: Tuple, nat: Nat): void {
  if (nat.kind !== 'restore' && tupleKey(tuple) === tupleKey(delivered))
    throw new SeineError('INVARIANT', `${tupleKey(tuple)} is translated to what it is`);
  if (nat.kind === 'dst' && tupleKey(tuple) === tupleKey(reversed(tuple)))
    throw new SeineError('INVARIANT', `${tupleKey(tuple)} is translated, which comes from where it goes to`);
}

/**
 * If a translation over IPv6 changes the source of an error about TCP, the userspace tracker writes a checksum into the first two bytes of
 * the quoted address. Source: lib/packets.c `packet_update_csum128`.
 */
function damaged(of: 'userspace' | 'kernel', before: Packet, after: Packet): Packet {
  const { quotes } = after;
  if (of === 'kernel' || quotes?.protocol !== 'tcp' || quotes.src.family !== 'ipv6' || before.ipSrc?.text === after.ipSrc?.text)
    return after;
  // If the destination changes too, the address is written afterwards.
  return before.ipDst?.text === after.ipDst?.text ? { ...after, quotes: { ...quotes, src: damagedIp } } : after;
}

const damagedIp = parseIp('dead::');

/**
 * On the kernel's data path answers arrive while a later packet of the client is translated; until that one is admitted, they would be
 * dropped.
 */
function refuseToBar(before: number, after: number): void {
  const { value, mask } = ctMark.unadmitted('yes');
  if ((before & mask) === 0 && (after & mask) === value)
    throw new SeineError('INVARIANT', 'happened: the translation of a known packet bars a connection that was let in');
}

function translated(tuple: Tuple, nat: Nat | undefined): Tuple {
  switch (nat?.kind) {
    case 'src':
      return { ...tuple, src: nat.ip };
    case 'dst':
      return { ...tuple, dst: nat.ip, dstPort: nat.port ?? tuple.dstPort };
    case 'restore':
    case undefined:
      return tuple;
  }
}

/**
 * The tracker of `ofproto/trace --ct-next` (ovs-vswitchd(8)): returns scripted answers, translates only if the action itself names the
 * target, and keeps the packet's mark.
 */
export class ScriptedTracker implements Tracker {
  readonly #states: Iterator<ReadonlySet<CtState>>;

  constructor(states: Iterable<ReadonlySet<CtState>>) {
    this.#states = states[Symbol.iterator]();
  }

  track(packet: Packet, mark: number, { remark, nat }: Tracking): Tracked {
    const next = this.#states.next();
    const tuple = tupleOf(packet);
    const onTheWay = tuple ? withTuple(packet, translated(tuple, nat)) : packet;
    return { packet: onTheWay, state: next.done ? new Set(['trk', 'new']) : next.value, mark: remark(mark) };
  }
}
