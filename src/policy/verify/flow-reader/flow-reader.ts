import type { Ip } from '../../../base/net/ip.ts';
import { ctMark, reg } from '../../../dataplane/pipeline/fields.ts';
import { tables } from '../../../dataplane/pipeline/tables.ts';
import { ofPorts } from '../../../dataplane/pipeline/well-known.ts';
import { decodeInstructions } from '../../../openflow/flows/instructions.ts';
import { decodeMatch } from '../../../openflow/match/match.ts';
import { Likeness } from './equivalent-addresses.ts';
import { conditionOf, packetWords, type Words, writeMark } from './packet-words.ts';
import { type HeldFlow, type ReadFlow, readFlow, TableIndex } from './table-index.ts';
import { Walk, type Walked } from './walk.ts';

/** First packet of a connection at a local pod. */
export interface BridgePacket {
  readonly direction: 'ingress' | 'egress';
  /** OpenFlow port of the local pod. */
  readonly ofPort: number;
  /** Address of the pod. */
  readonly own: Ip;
  /** Address of the other end, of the same family. */
  readonly peer: Ip;
  /** Origin of an ingress packet: another local pod, another node, this node, or an external client through this node. */
  readonly from?: 'pod' | 'tunnel' | 'gateway' | 'external';
  /**
   * True if the pod connects to itself through a Service: the connection is marked, and where the pod receives it, the source is the
   * virtual address.
   */
  readonly hairpin?: true;
}

const directions = {
  egress: { from: tables.egressEntry.id, verdict: tables.egressVerdict.id, end: tables.route.id },
  ingress: { from: tables.ingressEntry.id, verdict: tables.ingressVerdict.id, end: tables.commit.id },
} as const;

/**
 * Interprets the flows on a bridge for packets that policy decides about, by their bytes and the layout of the pipeline only. It knows
 * neither policies nor the compiler.
 */
export class PolicyBytes {
  readonly #walks: Readonly<Record<BridgePacket['direction'], Walk>>;
  readonly #likeness: Readonly<Record<BridgePacket['direction'], Likeness>>;
  readonly #problems: string[] = [];

  /** Reads the flows. @param flows flows of any tables; those outside the policy tables are skipped */
  constructor(flows: Iterable<HeldFlow>) {
    const byTable = new Map<number, TableIndex>();
    for (const held of flows) if (isOfPolicy(held.table)) this.#read(held, byTable);
    const walk = (direction: BridgePacket['direction']): Walk =>
      new Walk(byTable, directions[direction], (problem) => this.#problems.push(problem));
    this.#walks = { egress: walk('egress'), ingress: walk('ingress') };
    const likeness = (direction: BridgePacket['direction']): Likeness => {
      const { from, verdict } = directions[direction];
      const own = [...byTable].filter(([table]) => table >= from && table <= verdict).map(([, index]) => index);
      return new Likeness(own, direction === 'egress' ? 'dst' : 'src');
    };
    this.#likeness = { egress: likeness('egress'), ingress: likeness('ingress') };
  }

  /** Flows that could not be read, and pairs of flows with the same priority that match one packet; grows with calls of `decide`. */
  get problems(): readonly string[] {
    return this.#problems;
  }

  /** Returns the verdicts for all ports of all protocols. Packets that are treated alike get the same `outcomes`. */
  decide(packet: BridgePacket): Walked {
    return this.#walks[packet.direction].walk(wordsOf(packet));
  }

  /**
   * Returns the class of a peer: equal for peers of one family that the flows treat alike for every pod of this node, if they have the same
   * origin.
   */
  likenessOf(direction: BridgePacket['direction'], peer: Ip): string {
    return this.#likeness[direction].of(wordsOf({ direction, ofPort: 0, own: peer, peer }));
  }

  #read(held: HeldFlow, byTable: Map<number, TableIndex>): void {
    const flow = readable(held);
    if (!flow) {
      this.#problems.push(`table ${held.table}, priority ${held.priority}, cookie 0x${held.cookie.toString(16)}: the match cannot be read`);
      return;
    }
    const index = byTable.get(held.table) ?? new TableIndex();
    byTable.set(held.table, index);
    index.add(flow);
  }
}

function readable(held: HeldFlow): ReadFlow | undefined {
  const condition = conditionOf(decodeMatch(held.match));
  return condition && readFlow(held, condition, decodeInstructions(held.instructions));
}

function isOfPolicy(table: number): boolean {
  return Object.values(directions).some(({ from, verdict }) => table >= from && table <= verdict);
}

function wordsOf({ direction, ofPort, own, peer, from = 'tunnel', hairpin }: BridgePacket): Words {
  const isEgress = direction === 'egress';
  const words = packetWords({
    inPort: isEgress || hairpin ? ofPort : from === 'tunnel' ? ofPorts.tunnel : from === 'pod' ? 0 : ofPorts.gateway,
    source: isEgress ? own : peer,
    destination: isEgress ? peer : own,
    ctMark: hairpin ? (isEgress ? ctMark.service('yes') : ctMark.hairpin('yes')).value : 0,
    ...(hairpin && { openedBy: own }),
  });
  writeMark(words, reg.source(isEgress || hairpin ? 'pod' : from));
  writeMark(words, reg.unsettled('yes'));
  if (isEgress) return words;
  writeMark(words, reg.destination('pod'));
  writeMark(words, reg.outPort(ofPort));
  return words;
}
