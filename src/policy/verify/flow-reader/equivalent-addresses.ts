import { addressWords, isFamilyWord, type WordMatch, type Words } from './packet-words.ts';
import type { ReadFlow, TableIndex } from './table-index.ts';

/** Flows of one table that match the same bits of the peer's address. */
interface AddressShape {
  /** Words that the flows match, including the address family if they match it. */
  readonly looks: readonly WordMatch[];
  readonly flows: Map<string, PeerFlow[]>;
}

interface PeerFlow {
  readonly priority: number;
  /** Number of the flow's other conditions and actions: equal for equal ones only. */
  readonly content: number;
  /** True if the flow matches nothing but the peer's address: flows below it never see this address. */
  readonly isWhole: boolean;
}

/**
 * Classification of addresses that the flows treat alike as the other end of a connection, whatever the pod: the same flows of each table
 * may match them, in the same order.
 */
export class Likeness {
  readonly #tables: (readonly AddressShape[])[] = [];
  readonly #contents = new Map<string, number>();
  readonly #place: 'src' | 'dst';

  /** Indexes the flows. @param place field of the peer's address in the packet */
  constructor(tables: Iterable<TableIndex>, place: 'src' | 'dst') {
    this.#place = place;
    for (const table of tables) {
      const shapes = this.#shapesOf(table);
      if (shapes.length > 0) this.#tables.push(shapes);
    }
  }

  /**
   * Returns the text of an address's class.
   *
   * @param words words of a packet with the address
   * @returns equal texts for addresses of one family that are treated alike
   */
  of(words: Words): string {
    return this.#tables.map((shapes) => likenessIn(shapes, words)).join('|');
  }

  #shapesOf(table: TableIndex): readonly AddressShape[] {
    const shapes = new Map<string, AddressShape>();
    for (const flow of table.flows()) {
      const looks = flow.condition.words.filter(({ word }) => addressWords[this.#place].has(word) || isFamilyWord(word));
      if (looks.every(({ word }) => isFamilyWord(word))) continue;
      const name = looks.map(({ word, mask }) => `${word}/${mask}`).join();
      const shape = shapes.get(name) ?? { looks, flows: new Map<string, PeerFlow[]>() };
      shapes.set(name, shape);
      const key = looks.map(({ value }) => value).join();
      const known = shape.flows.get(key);
      if (known) known.push(this.#peerFlow(flow));
      else shape.flows.set(key, [this.#peerFlow(flow)]);
    }
    return [...shapes.values()];
  }

  #peerFlow({ held, condition: { words, ports } }: ReadFlow): PeerFlow {
    const others = words.filter(({ word }) => !addressWords[this.#place].has(word) && !isFamilyWord(word));
    const asked = others.map(({ word, value, mask }) => `${word}=${value}/${mask}`);
    const text = `${asked.join()} ${ports ? `${ports.protocol} ${ports.first} ${ports.last}` : ''} ${Buffer.from(held.instructions).toString('latin1')}`;
    const content = this.#contents.get(text) ?? this.#contents.size;
    this.#contents.set(text, content);
    return { priority: held.priority, content, isWhole: others.length === 0 && ports === undefined };
  }
}

function likenessIn(shapes: readonly AddressShape[], words: Words): string {
  const found = shapes.flatMap(
    ({ looks, flows }) => flows.get(looks.map(({ word, mask }) => ((words[word] ?? 0) & mask) >>> 0).join()) ?? [],
  );
  found.sort((a, b) => b.priority - a.priority || a.content - b.content);
  const last = found.find(({ isWhole }) => isWhole)?.priority ?? Number.NEGATIVE_INFINITY;
  // Flows without an address match stand between these by priority, so the priorities are part of the text.
  return found
    .filter(({ priority }) => priority >= last)
    .map(({ priority, content }) => `${priority}:${content}`)
    .join();
}
