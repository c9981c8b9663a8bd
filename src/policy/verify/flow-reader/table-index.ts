import type { Action } from '../../../openflow/actions/action.ts';
import type { Instructions } from '../../../openflow/flows/instructions.ts';
import { type FlowCondition, openedByWords, type WordMatch, type Words, wordCount } from './packet-words.ts';

/** Flow in OVS, as in a flow dump. */
export interface HeldFlow {
  readonly table: number;
  readonly priority: number;
  readonly cookie: bigint;
  readonly match: Uint8Array;
  readonly instructions: Uint8Array;
}

export interface ReadFlow {
  readonly held: HeldFlow;
  readonly condition: FlowCondition;
  readonly apply: readonly Action[];
  readonly gotoTable?: number;
  /** True if the flow has instructions other than these two. */
  readonly hasMore: boolean;
}

export function readFlow(held: HeldFlow, condition: FlowCondition, { apply = [], gotoTable, ...more }: Instructions): ReadFlow {
  const hasMore = Object.keys(more).length > 0;
  return gotoTable === undefined ? { held, condition, apply, hasMore } : { held, condition, apply, gotoTable, hasMore };
}

/** Flows that match the same bits of the same words, by the values that they require. */
interface LookupShape {
  readonly looks: readonly WordMatch[];
  readonly flows: Map<string, ReadFlow[]>;
}

/** Index of one table's flows by the words of a packet; conditions on protocol and port are not checked. */
export class TableIndex {
  readonly #shapes = new Map<string, LookupShape>();
  /** Bits that any flow matches. */
  readonly matchesOn: Words = new Uint32Array(wordCount);

  add(flow: ReadFlow): void {
    const { words } = flow.condition;
    const name = words.map(({ word, mask }) => `${word}/${mask}`).join();
    const shape = this.#shapes.get(name) ?? { looks: words, flows: new Map<string, ReadFlow[]>() };
    this.#shapes.set(name, shape);
    for (const { word, mask } of words) this.matchesOn[word] = ((this.matchesOn[word] ?? 0) | mask) >>> 0;
    if (flow.apply.some(isByOriginalTuple)) for (const word of openedByWords) this.matchesOn[word] = 0xffff_ffff;
    const asked = new Uint32Array(wordCount);
    for (const { word, value } of words) asked[word] = value;
    const key = keyOf(asked, words);
    const known = shape.flows.get(key);
    if (known) known.push(flow);
    else shape.flows.set(key, [flow]);
  }

  *flows(): Generator<ReadFlow> {
    for (const { flows } of this.#shapes.values()) for (const sameKey of flows.values()) yield* sameKey;
  }

  /** Returns the flows that match the words, highest priority first. */
  candidates(words: Words): readonly ReadFlow[] {
    let found: ReadFlow[] | undefined;
    for (const { looks, flows } of this.#shapes.values()) {
      const hits = flows.get(keyOf(words, looks));
      if (hits) found = found ? [...found, ...hits] : hits;
    }
    if (!found) return none;
    return found.length > 1 ? found.toSorted((a, b) => b.held.priority - a.held.priority) : found;
  }
}

/** Reports whether an action looks another table up by the original tuple of the connection. */
export function isByOriginalTuple(action: Action): boolean {
  return action.kind === 'resubmit' && action.withTracked === true;
}

const none: readonly ReadFlow[] = [];

/**
 * Key of the given bits of a packet: packets with equal keys are treated alike. It has two characters a word, because there are many
 * packets.
 */
export function keyOf(words: Words, looks: readonly Pick<WordMatch, 'word' | 'mask'>[]): string {
  let key = '';
  for (const { word, mask } of looks) {
    const value = (words[word] ?? 0) & mask;
    key += String.fromCharCode(value >>> 16, value & 0xffff);
  }
  return key;
}

/** Returns the words in which a mask has bits. */
export function matchFieldsOf(masks: Words): readonly Pick<WordMatch, 'word' | 'mask'>[] {
  return [...masks].map((mask, word) => ({ word, mask })).filter(({ mask }) => mask !== 0);
}
