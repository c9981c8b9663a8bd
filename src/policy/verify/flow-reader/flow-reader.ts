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

/** The first packet of a connection at one of its ends: a local pod's. */
export interface BridgePacket {
  readonly direction: 'ingress' | 'egress';
  /** OpenFlow port of the local pod. */
  readonly ofPort: number;
  /** The pod's own address. */
  readonly own: Ip;
  /** The other end's address, of the same family. */
  readonly peer: Ip;
  /** By which way an ingress packet comes: another local pod, another node, this node, or the world through it. */
  readonly from?: 'pod' | 'tunnel' | 'gateway' | 'world';
  /** To itself by a Service: the source is the virtual address, and the connection is marked. */
  readonly hairpin?: true;
}

const directions = {
  egress: { from: tables.egressEntry.id, verdict: tables.egressVerdict.id, end: tables.route.id },
  ingress: { from: tables.ingressEntry.id, verdict: tables.ingressVerdict.id, end: tables.commit.id },
} as const;

/**
 * What the flows on a bridge do with the packets that policy decides about: an interpretation of their bytes, by the layout of the
 * pipeline and nothing else. It knows no policy and no compiler.
 */
export class PolicyBytes {
  readonly #walks: Readonly<Record<BridgePacket['direction'], Walk>>;
  readonly #likeness: Readonly<Record<BridgePacket['direction'], Likeness>>;
  readonly #problems: string[] = [];

  /** @param flows of any tables; those that policy has nothing to do with are left out */
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

  /** What could not be read, and where two flows of one priority match one packet; grows as packets are asked about. */
  get problems(): readonly string[] {
    return this.#problems;
  }

  /** All ports of all protocols. Packets that fare alike get the same `outcomes`. */
  decide(packet: BridgePacket): Walked {
    return this.#walks[packet.direction].walk(wordsOf(packet));
  }

  /** Equal for peers of one family that fare alike with every pod of this node, come by the same way. */
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
    ctMark: hairpin ? ctMark.hairpin('yes').value : 0,
  });
  writeMark(words, reg.source(isEgress || hairpin ? 'pod' : from));
  writeMark(words, reg.unsettled('yes'));
  if (isEgress) return words;
  writeMark(words, reg.destination('pod'));
  writeMark(words, reg.outPort(ofPort));
  return words;
}
