import { SeineError } from '../../base/errors/seine-error.ts';
import type { Ip } from '../../base/net/ip.ts';
import type { Mac } from '../../base/net/mac.ts';
import { probeNumberBits, reg, registerFields } from '../pipeline/fields.ts';
import {
  type Bits,
  type CtExec,
  type CtStep,
  type Flow,
  type Group,
  type LearnAssociation,
  type LearnChoice,
  load,
  priority,
  type Step,
} from '../pipeline/flow.ts';
import { formatFlow } from '../pipeline/format.ts';
import type { Mark } from '../pipeline/registers.ts';
import type { PipelineTableName } from '../pipeline/tables.ts';
import { type PipelinePacketInReason, probeTunnelKey } from '../pipeline/well-known.ts';
import type { Tracker } from './connection-tracker.ts';
import { describePacket, type Packet, reversed, type Tuple, tupleOf } from './packet.ts';
import { matches, type Travel } from './packet-match.ts';

/** Output of a packet: a port, all except its input port (flood), or the agent, with the reason for that one. */
export interface Output {
  readonly to: number | 'flood' | `agent: ${PipelinePacketInReason}`;
  readonly packet: Packet;
}

/** Fate of one packet. Empty `outputs` means that it was dropped. */
export interface PacketWalk {
  readonly tables: readonly PipelineTableName[];
  /** The matched flows, except the tables' misses. */
  readonly flows: readonly Flow[];
  readonly outputs: readonly Output[];
  /** Translations of its destination at commits. */
  readonly translations: readonly Tuple[];
  /** Remembered outer source. */
  readonly unknownTunnelPeers: readonly Ip[];
}

interface SwitchModelOptions {
  readonly flows: readonly Flow[];
  readonly groups: readonly Group[];
  readonly tracker: Tracker;
  /** Bucket of a group for this packet, by its index. */
  readonly choose: (group: Group) => number;
  /** At other ports a packet leaves without its outer addresses. */
  readonly tunnelPort: number;
  /** Learned flows, to which it adds. Absent: none. */
  readonly learned?: Map<string, Flow>;
}

const probeNumberMask = 2 ** probeNumberBits.width - 1;

/** State of a packet that begins after connection tracking. */
export interface TrackedBefore extends Partial<Pick<Travel, 'ctMark' | 'ctState' | 'original'>> {}

/** Maximum number of resubmits and recirculations of one packet; a pipeline that needs more has a loop. */
const stepsMax = 500;

/**
 * The processing of packets by a switch, by ovs-actions(7) and ovs-fields(7) for our vocabulary.
 *
 * Stricter than a switch in one point: if two flows of one priority match and differ in their actions, it is undefined which of them
 * applies. That is an error here.
 */
export class SwitchModel {
  readonly #options: SwitchModelOptions;
  readonly #byTable: ReadonlyMap<PipelineTableName, readonly Flow[]>;
  readonly #groups: ReadonlyMap<number, Group>;
  /** Learned flows by match; entries never expire. */
  readonly #learned: Map<string, Flow>;

  constructor(options: SwitchModelOptions) {
    this.#options = options;
    this.#learned = options.learned ?? new Map();
    const sorted = options.flows.toSorted((a, b) => b.priority - a.priority);
    this.#byTable = Map.groupBy(sorted, ({ table }) => table);
    this.#groups = new Map(options.groups.map((group) => [group.id, group]));
  }

  /** @param tracked what connection tracking has found before; absent: nothing */
  receive(inPort: number, packet: Packet, { ctMark = 0, ctState = new Set(), original }: TrackedBefore = {}): PacketWalk {
    const walk = {
      tables: [] as PipelineTableName[],
      flows: [] as Flow[],
      outputs: [] as Output[],
      translations: [] as Tuple[],
      unknownTunnelPeers: [] as Ip[],
    };
    const travel: Travel = { packet, inPort, regs: Array<number>(16).fill(0), ctState, ctMark, original };
    this.#visit('classify', travel, walk);
    return walk;
  }

  /** @returns 'ended' if the packet is dropped for good (its TTL ended) */
  #visit(table: PipelineTableName, travel: Travel, walk: MutableWalk, seen = travel): 'goes on' | 'ended' {
    walk.tables.push(table);
    if (walk.tables.length > stepsMax) throw new SeineError('INVARIANT', `${describePacket(travel.packet)} never ends`);
    const flow = this.#lookUp(table, seen);
    if (flow && flow.priority > priority.miss) walk.flows.push(flow);
    return this.#perform(flow?.steps ?? [], travel, walk);
  }

  #lookUp(table: PipelineTableName, travel: Travel): Flow | undefined {
    const matching = [...this.#learnedIn(table), ...(this.#byTable.get(table) ?? [])].filter((flow) => matches(flow.match, travel));
    const [best, ...rest] = matching.filter((flow) => flow.priority === matching[0]?.priority);
    for (const other of rest) {
      if (best && JSON.stringify(other.steps, bigints) !== JSON.stringify(best.steps, bigints))
        throw new SeineError('INVARIANT', `undefined which is taken:\n${formatFlow(best)}\n${formatFlow(other)}`);
    }
    return best;
  }

  #perform(steps: readonly Step[], travel: Travel, walk: MutableWalk): 'goes on' | 'ended' {
    for (const step of steps) if (this.#step(step, travel, walk) === 'ended') return 'ended';
    return 'goes on';
  }

  #step(step: Step, travel: Travel, walk: MutableWalk): 'goes on' | 'ended' {
    const { packet } = travel;
    const change = (fields: Partial<Packet>): void => void (travel.packet = { ...packet, ...fields });
    switch (step.do) {
      case 'load':
        travel.regs[step.mark.reg] = withMark(travel.regs[step.mark.reg] ?? 0, step.mark);
        break;
      case 'setEthSrc':
        change({ ethSrc: step.mac });
        break;
      case 'setEthDst':
        change({ ethDst: step.mac });
        break;
      case 'setIpSrc':
        change({ ipSrc: step.ip });
        break;
      case 'setIpSrcToOpened':
        if (!travel.original) throw new SeineError('INVARIANT', `${describePacket(packet)} is of no connection`);
        change({ ipSrc: travel.original.dst });
        break;
      case 'saveIpSrc':
        travel.savedSource = packet.ipSrc;
        break;
      case 'restoreIpSrc':
        if (!travel.savedSource) throw new SeineError('INVARIANT', `${describePacket(packet)} has no saved source`);
        change({ ipSrc: travel.savedSource });
        break;
      case 'setTunSrc':
        change({ tunSrc: step.ip });
        break;
      case 'setTunDst':
        change({ tunDst: step.ip });
        break;
      case 'probeToTunnel':
        change({ tunKey: probeTunnelKey.value + ((travel.regs[probeNumberBits.reg] ?? 0) & probeNumberMask) });
        break;
      case 'probeFromTunnel':
        travel.regs[probeNumberBits.reg] = withMark((packet.tunKey ?? 0) & probeNumberMask, reg.probe('yes'));
        change({ tunKey: 0 });
        break;
      case 'decTtl':
        if ((packet.ttl ?? 0) <= 1) return 'ended';
        change({ ttl: (packet.ttl ?? 0) - 1 });
        break;
      case 'answerArp':
        walk.outputs.push({ to: travel.inPort, packet: arpAnswer(packet, step.ip, step.mac) });
        break;
      case 'ct':
        this.#recirculate(step, travel, walk);
        break;
      case 'group':
        this.#choose(step.group, travel, walk);
        break;
      case 'resubmit':
        // Open vSwitch does nothing then.
        if (step.by === 'originalTuple' && travel.hidesTuple) return 'goes on';
        return this.#visit(step.table, travel, walk, step.by === 'originalTuple' ? asOpened(travel) : travel);
      case 'goto':
        return this.#visit(step.table, travel, walk);
      case 'output':
        this.#emit(step.port, travel, walk);
        break;
      case 'outputToRegister':
        this.#emit(travel.regs[registerFields.outPort.reg] ?? 0, travel, walk);
        break;
      case 'outputInPort':
        walk.outputs.push({ to: travel.inPort, packet });
        break;
      case 'normal':
        walk.outputs.push({ to: 'flood', packet });
        break;
      case 'toAgent':
        walk.outputs.push({ to: `agent: ${step.reason}`, packet: withoutOuter(packet) });
        break;
      case 'learnUnknownTunnelPeer':
        if (packet.tunSrc) walk.unknownTunnelPeers.push(packet.tunSrc);
        break;
      case 'learnChoice':
        this.#learn(step, travel);
        break;
      case 'learnAssociation':
        this.#learned.set(...associationOf(step, packet));
        break;
      case 'meter':
        break; // the model's packets come one by one, below every meter's rate
      case 'learnFragments':
        break; // packets of the model are whole
    }
    return 'goes on';
  }

  /** Above the tables' misses. */
  #learnedIn(table: PipelineTableName): readonly Flow[] {
    return [...this.#learned.values()].filter((flow) => flow.table === table);
  }

  /** The learned flow loads the values of the teaching packet's registers. */
  #learn({ family, transport }: LearnChoice, { packet: { ipSrc, ipDst, portDst }, regs }: Travel): void {
    const whole = (number: number): Step => load({ field: `reg${number}`, reg: number, value: regs[number] ?? 0, mask: 0xffff_ffff });
    const endpoint = family === 'ipv4' ? [3] : [12, 13, 14, 15];
    const flow: Flow = {
      table: 'affinity',
      priority: priority.normal,
      match: {
        payload: family,
        protocol: transport,
        ...(ipSrc && { ipSrc }),
        ...(ipDst && { ipDst }),
        ...(portDst !== undefined && { portDst }),
        regs: [reg.source((regs[0] ?? 0) & 0xf)],
      },
      steps: [
        ...endpoint.map(whole),
        load(reg.endpointPort((regs[4] ?? 0) & 0xffff)),
        load(reg.serviceState('chosen')),
        load(reg.routed('yes')),
        whole(7),
      ],
    };
    this.#learned.set(`${family} ${transport} ${ipSrc?.text} ${ipDst?.text} ${portDst} ${(regs[0] ?? 0) & 0xf}`, flow);
  }

  /** A switch never sends a packet to its input port, unless named explicitly (ovs-actions(7) "output"). */
  #emit(port: number, { inPort, packet }: Travel, walk: MutableWalk): void {
    if (port !== inPort) walk.outputs.push({ to: port, packet: port === this.#options.tunnelPort ? packet : withoutOuter(packet) });
  }

  /** The tracked packet continues in the next table as a copy, if there is one; the rest of the actions sees an untracked one. */
  #recirculate({ zone, commit, nat, exec, next }: CtStep, travel: Travel, walk: MutableWalk): void {
    const remark = (mark: number) => exec.reduce((sum, each) => remarked(sum, each, travel.regs), mark);
    const tracked = this.#options.tracker.track(travel.packet, travel.ctMark, {
      ...{ zone, commit, nat, remark, before: travel.remembered },
      recirculates: next !== undefined,
    });
    const { packet, state: ctState, mark: ctMark, remembered, hidesTuple = false } = tracked;
    const to = tupleOf(packet);
    if (commit && nat?.kind === 'dst' && to) walk.translations.push(to);
    const original = remembered?.connection.original ?? tupleOf(travel.packet);
    if (next) this.#visit(next, { ...travel, regs: [...travel.regs], packet, ctState, ctMark, remembered, original, hidesTuple }, walk);
    else travel.packet = packet;
    travel.ctState = new Set();
    travel.ctMark = 0;
  }

  /** Changes of a bucket are undone after the group. */
  #choose(id: number, travel: Travel, walk: MutableWalk): void {
    const group = this.#groups.get(id);
    if (!group) throw new SeineError('INVARIANT', `there is no group ${id}`);
    const bucket = group.buckets[this.#options.choose(group)];
    // OpenFlow 1.5.1 section 5.6: a set contains one action of a kind, the last.
    if (bucket && bucket.steps.filter((step) => step.do !== 'load').length > 1)
      throw new SeineError('INVARIANT', `of what a bucket of group ${id} does, only the last would be done`);
    this.#perform(bucket?.steps ?? [], { ...travel, regs: [...travel.regs] }, walk);
  }
}

type MutableWalk = {
  readonly tables: PipelineTableName[];
  readonly flows: Flow[];
  readonly outputs: Output[];
  readonly translations: Tuple[];
  readonly unknownTunnelPeers: Ip[];
};

/** View of a table of a packet that is looked up by the original tuple of its connection. */
function asOpened(travel: Travel): Travel {
  const { original, packet } = travel;
  if (!original) throw new SeineError('INVARIANT', `${describePacket(packet)} is of no connection`);
  const ports = packet.portDst === undefined ? {} : { portSrc: original.srcPort, portDst: original.dstPort };
  return { ...travel, packet: { ...packet, ipSrc: original.src, ipDst: original.dst, ...ports } };
}

/** The learned flow of one side, by its match. */
function associationOf({ family, side, as }: LearnAssociation, packet: Packet): readonly [key: string, flow: Flow] {
  const sent = tupleOf(packet);
  if (!sent) throw new SeineError('INVARIANT', `${describePacket(packet)} is of no association`);
  const { src, dst, srcPort, dstPort } = side === 'answer' ? reversed(sent) : sent;
  const verdict = side === 'opener' ? (as === 'kept' ? 'standing' : 'none') : as === 'barred' ? 'deny' : 'standing';
  const whole = (value: number): Bits => ({ value, mask: 0xffff });
  const flow: Flow = {
    table: 'associations',
    priority: priority.normal,
    match: { payload: family, protocol: 'sctp', ipSrc: src, ipDst: dst, portSrc: whole(srcPort), portDst: dstPort },
    steps: [load(reg.sctpSide(side)), load(reg.verdict(verdict))],
  };
  return [`association ${src.text} ${srcPort} ${dst.text} ${dstPort}`, flow];
}

function withoutOuter({ tunSrc: _src, tunDst: _dst, tunKey: _key, ...inner }: Packet): Packet {
  return inner;
}

/** RFC 826. */
function arpAnswer(asked: Packet, ip: Ip, mac: Mac): Packet {
  const { ethSrc, arpSha, arpSpa } = asked;
  return {
    ...asked,
    ethSrc: mac,
    ethDst: ethSrc,
    arpOp: 'reply',
    arpSha: mac,
    arpSpa: ip,
    ...(arpSha && { arpTha: arpSha }),
    ...(arpSpa && { arpTpa: arpSpa }),
  };
}

function withMark(value: number, mark: Mark): number {
  return ((value & ~mark.mask) | mark.value) >>> 0;
}

function remarked(mark: number, exec: CtExec, regs: readonly number[]): number {
  if (exec.do === 'mark') return withMark(mark, exec.mark);
  const bits = 2 ** exec.from.width - 1;
  const moved = ((regs[exec.from.reg] ?? 0) >>> exec.from.first) & bits;
  return ((mark & ~(bits << exec.to.first)) | (moved << exec.to.first)) >>> 0;
}

function bigints(_key: string, value: unknown): unknown {
  return typeof value === 'bigint' ? value.toString() : value;
}
