import type { Action, CtAction, LearnAction, ResubmitAction } from '../../openflow/actions/action.ts';
import { ofPort } from '../../openflow/protocol.ts';
import { type AssumedTracking, clearTracking, tupleOf, writeTuple } from './assumed-tracking.ts';
import { actionsOf, described, type FlowSource, type InstalledFlow, otherSourcePorts, selectFlow } from './installed-flow.ts';
import { PacketState, type WalkedFields } from './packet-state.ts';

/** Visit of a packet to one table. */
export interface WalkHop {
  readonly table: number;
  /** Flow that applied; absent if none matched. */
  readonly flow?: InstalledFlow;
  readonly actions: readonly Action[];
  /** The packet as the table saw it. */
  readonly packet: PacketState;
  /** Different buckets of the group of the flow, as text; absent if it has none. */
  readonly buckets?: ReadonlySet<string>;
}

/** Choice among the different buckets of a group. */
interface GroupChoice {
  /** Number of different buckets. */
  readonly buckets: number;
  /** The bucket that was taken, as text. */
  readonly taken: string;
  /** Groups that packets with other source ports have instead, each with such a port and its number of different buckets; empty if not asked. */
  readonly others: readonly { readonly sourcePort: number; readonly buckets: number }[];
}

/** Copy of the packet that leaves the tables. */
export interface PacketOutput {
  /** `learning`: the switch's own forwarding, NORMAL. `agent`: with the user data of the action. */
  readonly to: number | 'inPort' | 'learning' | { readonly agent: Uint8Array };
  readonly packet: PacketState;
}

/** Way of one packet through the tables. */
export interface WalkedPacket {
  readonly hops: readonly WalkHop[];
  /** Empty: the packet is dropped in the table of the last hop. */
  readonly outputs: readonly PacketOutput[];
  /** Reason for which the rest of the way is unknown. */
  readonly unreadable?: string;
  /** Choice of the last group of the way, if there was one. */
  readonly choice?: GroupChoice;
}

interface WalkOptions {
  readonly tracking: AssumedTracking;
  /** Index of the bucket of a group; those that do the same as one before are last. `texts` are the different ones. Default: the first. */
  readonly choose?: (group: number, buckets: number, texts: readonly string[]) => number;
  /** True to look for the groups of other source ports, for which the table of the group's flow is read once more. */
  readonly hasOthers?: boolean;
}

/** Maximum number of visits of one packet; more mean a loop. */
const hopsMax = 500;

/** Actions that change neither the packet nor its way. */
const harmless: ReadonlySet<Action['kind']> = new Set(['meter', 'note']);

/** Thrown to end a walk. */
class WalkEnd {
  readonly unreadable: string | undefined;
  constructor(unreadable?: string) {
    this.unreadable = unreadable;
  }
}

/** Interprets the flows of a bridge for a packet, by their bytes only. Unknown actions and ambiguous flows are reported, never guessed. */
export async function walkPacket(source: FlowSource, packet: WalkedFields, options: WalkOptions): Promise<WalkedPacket> {
  const walk = new Walker(source, options);
  const end = await walk.start(PacketState.of(packet));
  return {
    hops: walk.hops,
    outputs: walk.outputs,
    ...(end?.unreadable !== undefined && { unreadable: end.unreadable }),
    ...(walk.choice && { choice: walk.choice }),
  };
}

class Walker {
  readonly hops: (WalkHop & { buckets?: ReadonlySet<string> })[] = [];
  readonly outputs: PacketOutput[] = [];
  choice: GroupChoice | undefined;
  readonly #source: FlowSource;
  readonly #options: WalkOptions;

  constructor(source: FlowSource, options: WalkOptions) {
    this.#source = source;
    this.#options = options;
  }

  /** @returns the reason for which the walk ended early, if it did */
  async start(packet: PacketState): Promise<WalkEnd | undefined> {
    try {
      await this.#visit(0, packet);
      return undefined;
    } catch (thrown) {
      if (thrown instanceof WalkEnd) return thrown;
      throw thrown;
    }
  }

  /** @param seen packet that the flows match; another than `packet` for a lookup by the original tuple */
  async #visit(table: number, packet: PacketState, seen = packet): Promise<void> {
    if (this.hops.length >= hopsMax) throw new WalkEnd(`the packet visits more than ${hopsMax} tables`);
    const { flow, unreadable } = await selectFlow(this.#source, table, seen);
    const { apply, gotoTable, hasMore } = flow ? actionsOf(flow) : { apply: [], hasMore: false };
    this.hops.push({ table, actions: apply, packet: packet.copy(), ...(flow && { flow }) });
    if (unreadable !== undefined) throw new WalkEnd(unreadable);
    if (!flow) return;
    if (hasMore) throw new WalkEnd(`${described(flow)}: an instruction cannot be read`);
    for (const action of apply) await this.#perform(action, packet, flow);
    if (gotoTable !== undefined) await this.#visit(gotoTable, packet);
  }

  async #perform(action: Action, packet: PacketState, flow: InstalledFlow): Promise<void> {
    switch (action.kind) {
      case 'ct':
        return this.#track(action, packet, flow);
      case 'group':
        return this.#choose(action.group, packet, flow);
      case 'resubmit':
        return this.#resubmit(action, packet, flow);
      case 'output':
        return this.#output(action.port, packet);
      case 'outputRegister':
        return this.#output(Number(packet.read(action.from) ?? 0n), packet);
      case 'controller':
        this.outputs.push({ to: { agent: action.userdata ?? new Uint8Array(0) }, packet: packet.copy() });
        return;
      case 'decTtl':
        if (packet.get('nw_ttl') <= 1n) throw new WalkEnd();
        packet.set('nw_ttl', packet.get('nw_ttl') - 1n);
        return;
      case 'learn':
        assumeLearned(action, packet);
        return;
      default:
        if (!harmless.has(action.kind) && !writeFields(action, packet))
          throw new WalkEnd(`${described(flow)}: the action ${action.kind} cannot be read`);
    }
  }

  #output(port: number, packet: PacketState): void {
    if (port === ofPort.inPort) this.outputs.push({ to: 'inPort', packet: packet.copy() });
    else if (port === ofPort.normal) this.outputs.push({ to: 'learning', packet: packet.copy() });
    // A switch never sends a packet to its input port, unless that is named (ovs-actions(7) "output").
    else if (BigInt(port) !== packet.get('in_port')) this.outputs.push({ to: port, packet: packet.copy() });
  }

  async #resubmit({ port, table, withTracked }: ResubmitAction, packet: PacketState, flow: InstalledFlow): Promise<void> {
    if (port !== undefined && port !== ofPort.inPort) throw new WalkEnd(`${described(flow)}: resubmits with another input port`);
    if (!withTracked) return this.#visit(table ?? flow.table, packet);
    // Open vSwitch does nothing for a packet without an original tuple.
    if (packet.get('ct_state') === 0n) return;
    const seen = packet.copy();
    const tuple = tupleOf(packet);
    if (tuple) writeTuple(seen, { ...tuple, ...originalOf(packet) });
    return this.#visit(table ?? flow.table, packet, seen);
  }

  /** The tracked packet continues in the next table as a copy, if there is one; the rest of the actions sees an untracked one. */
  async #track(action: CtAction, packet: PacketState, flow: InstalledFlow): Promise<void> {
    const tracked = packet.copy();
    const exec = (actions: readonly Action[], to: PacketState): boolean => actions.every((each) => writeFields(each, to));
    if (!this.#options.tracking.track(tracked, action, exec)) throw new WalkEnd(`${described(flow)}: ct() cannot be read`);
    if (action.table !== undefined) await this.#visit(action.table, tracked);
    else {
      const tuple = tupleOf(tracked);
      if (tuple) writeTuple(packet, tuple);
    }
    clearTracking(packet);
  }

  /** A bucket is a set of actions: fields are written first, and of all others the last is executed. Its changes end with it. */
  async #choose(group: number, packet: PacketState, flow: InstalledFlow): Promise<void> {
    const buckets = await this.#source.buckets(group);
    if (!buckets) throw new WalkEnd(`${described(flow)}: there is no group ${group}`);
    // A bucket that does the same as another only changes the share of what it does.
    const different = new Map(buckets.map((bucket) => [textOf(bucket), bucket]));
    const texts = [...different.keys()];
    const hop = this.hops.findLast((each) => each.flow === flow);
    if (hop) hop.buckets = new Set(texts);
    const kept = new Set(different.values());
    const ordered = [...kept, ...buckets.filter((bucket) => !kept.has(bucket))];
    const bucket = ordered[this.#options.choose?.(group, ordered.length, texts) ?? 0] ?? [];
    const others = this.#options.hasOthers ? await this.#otherGroups(flow, hop?.packet ?? packet) : [];
    this.choice = { buckets: different.size, taken: textOf(bucket), others };
    if (buckets.length === 0) return;
    const within = packet.copy();
    const rest = bucket.filter((action) => !writeFields(action, within));
    const last = rest.at(-1);
    if (last) await this.#perform(last, within, flow);
  }

  /** @param seen the packet as the flow matched it */
  async #otherGroups(flow: InstalledFlow, seen: PacketState): Promise<GroupChoice['others']> {
    const others: { sourcePort: number; buckets: number }[] = [];
    for (const { sourcePort, flow: other } of await otherSourcePorts(this.#source, flow, seen))
      for (const action of actionsOf(other).apply)
        if (action.kind === 'group') others.push({ sourcePort, buckets: differentOf(await this.#source.buckets(action.group)) });
    return others;
  }
}

/** Returns the number of buckets that differ. */
function differentOf(buckets: readonly (readonly Action[])[] | undefined): number {
  return new Set((buckets ?? []).map(textOf)).size;
}

function textOf(bucket: readonly Action[]): string {
  return JSON.stringify(bucket, (_, value: unknown) => (typeof value === 'bigint' ? `${value}n` : value));
}

function originalOf(packet: PacketState) {
  const isIpv4 = packet.get('eth_type') === 0x0800n;
  return {
    src: packet.get(isIpv4 ? 'ct_nw_src' : 'ct_ipv6_src'),
    dst: packet.get(isIpv4 ? 'ct_nw_dst' : 'ct_ipv6_dst'),
    srcPort: packet.get('ct_tp_src'),
    dstPort: packet.get('ct_tp_dst'),
  };
}

/** Performs an action that writes fields. @returns false for any other action, and for a field that the walk does not know */
function writeFields(action: Action, packet: PacketState): boolean {
  switch (action.kind) {
    case 'setField': {
      const { value, mask = -1 } = action;
      if (value instanceof Uint8Array || mask instanceof Uint8Array) return false;
      return packet.writeMasked(action.field, BigInt(value), BigInt(mask));
    }
    case 'load':
      return packet.write(action.to, BigInt(action.value));
    case 'move': {
      const value = packet.read(action.from);
      return value !== undefined && packet.write(action.to, value);
    }
    default:
      return false;
  }
}

/** Assumes that the switch has room for the learned flow. */
function assumeLearned({ result }: LearnAction, packet: PacketState): void {
  if (result) packet.write(result, 1n);
}
