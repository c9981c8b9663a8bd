import { reg } from '../../../dataplane/pipeline/fields.ts';
import type { Action } from '../../../openflow/actions/action.ts';
import { hasMark, maskOf, registerWord, type Words, wordCount, write } from './packet-words.ts';
import { allLanes, divide, type Lane } from './protocol-port-ranges.ts';
import { type HeldFlow, keyOf, looksOf, type ReadFlow, type TableIndex } from './table-index.ts';

/** What becomes of ports of one protocol. */
interface PortVerdict extends Lane {
  /** `closed`: nobody has decided about the pod. `unreadable`: a flow on the way does what this room does not know. */
  readonly verdict: 'allow' | 'deny' | 'closed' | 'unreadable';
  /** What policy's rows said, where they were asked: in audit a packet passes that is denied. */
  readonly decided: 'allow' | 'deny' | 'none';
  /** Flows behind those that all ports have in common, the last one decided. */
  readonly way: readonly HeldFlow[];
}

export interface Walked {
  /** Flows that every port passes. */
  readonly way: readonly HeldFlow[];
  readonly outcomes: readonly PortVerdict[];
}

interface WalkLimits {
  /** The entry table: what it drops for want of a flow is closed. */
  readonly from: number;
  readonly verdict: number;
  /** A packet that comes here was let through. */
  readonly end: number;
}

const closedClass = reg.networkPolicyClass('closed');
const noWay: readonly HeldFlow[] = [];
/** Actions after which the packet is as before, for who asks for its verdict. */
const harmless: ReadonlySet<Action['kind']> = new Set(['controller', 'meter', 'note']);

/** Takes all ports of all protocols through one direction's tables at once, and remembers how packets fared that are alike for them. */
export class Walk {
  readonly #tables: ReadonlyMap<number, TableIndex>;
  readonly #limits: WalkLimits;
  readonly #report: (problem: string) => void;
  readonly #known = new Map<number, Map<string, Walked>>();
  /** Of each table and all behind it: what some flow looks at. */
  readonly #looks: ReadonlyMap<number, ReturnType<typeof looksOf>>;
  readonly #told = new Set<string>();

  constructor(tables: ReadonlyMap<number, TableIndex>, limits: WalkLimits, report: (problem: string) => void) {
    this.#tables = tables;
    this.#limits = limits;
    this.#report = report;
    this.#looks = looksFrom(tables, limits);
  }

  /** Each packet is asked about once, so nothing is remembered of the entry table. */
  walk(words: Words): Walked {
    return this.#lookUp(this.#limits.from, words, allLanes);
  }

  #goOn(table: number, words: Words, lanes: readonly Lane[]): Walked {
    if (lanes !== allLanes) return this.#lookUp(table, words, lanes);
    const ofTable = this.#known.get(table) ?? new Map<string, Walked>();
    this.#known.set(table, ofTable);
    const key = keyOf(words, this.#looks.get(table) ?? []);
    const known = ofTable.get(key);
    if (known) return known;
    const walked = this.#lookUp(table, words, lanes);
    ofTable.set(key, walked);
    return walked;
  }

  #lookUp(table: number, words: Words, lanes: readonly Lane[]): Walked {
    const found = this.#matches(table, words, lanes);
    const [only] = found;
    if (found.length === 1 && only?.flow && only.lanes === lanes) return this.#follow(only.flow, words, lanes);
    const outcomes = found.flatMap(({ flow, lanes: part }): readonly PortVerdict[] => {
      if (!flow) return this.#ended(table === this.#limits.from ? 'closed' : 'deny', words, part);
      const { way, outcomes: behind } = this.#follow(flow, words, part);
      return behind.map((each) => ({ ...each, way: [...way, ...each.way] }));
    });
    return { way: noWay, outcomes };
  }

  /** The flows that win, each with its ports; without a flow what none matches. */
  #matches(table: number, words: Words, lanes: readonly Lane[]): readonly { readonly flow?: ReadFlow; readonly lanes: readonly Lane[] }[] {
    const won: { flow?: ReadFlow; lanes: readonly Lane[] }[] = [];
    let rest = lanes;
    for (const flow of this.#tables.get(table)?.candidates(words) ?? []) {
      for (const { flow: other, lanes: taken } of won)
        if (other?.held.priority === flow.held.priority && divide(taken, flow.condition.lane).inside.length > 0)
          this.#tell(flow, 'another flow of this priority matches the same packet');
      const { inside, outside } = divide(rest, flow.condition.lane);
      if (inside.length > 0) won.push({ flow, lanes: inside });
      rest = outside;
    }
    return rest.length > 0 ? [...won, { lanes: rest }] : won;
  }

  #follow(flow: ReadFlow, before: Words, lanes: readonly Lane[]): Walked {
    const { apply, gotoTable, hasMore } = flow;
    const words = apply.length > 0 ? before.slice() : before;
    const way = [flow.held];
    if (hasMore || !this.#apply(apply, words, lanes, way)) {
      this.#tell(flow, 'what it does cannot be read');
      return { way, outcomes: this.#ended('unreadable', before, lanes) };
    }
    if (gotoTable === undefined) return { way, outcomes: this.#ended('deny', before, lanes) };
    if (gotoTable === this.#limits.end) return { way, outcomes: this.#ended('allow', before, lanes) };
    if (!this.#tables.has(gotoTable) && (gotoTable < this.#limits.from || gotoTable > this.#limits.verdict)) {
      this.#tell(flow, `it leads to table ${gotoTable}`);
      return { way, outcomes: this.#ended('unreadable', before, lanes) };
    }
    const behind = this.#goOn(gotoTable, words, lanes);
    return { way: [...way, ...behind.way], outcomes: behind.outcomes };
  }

  /** @returns false for an action that this room does not know */
  #apply(actions: readonly Action[], words: Words, lanes: readonly Lane[], way: HeldFlow[]): boolean {
    return actions.every((action) => {
      if (harmless.has(action.kind)) return true;
      switch (action.kind) {
        case 'ct':
          return action.table === undefined;
        case 'setField':
          return typeof action.value === 'number' && set(words, registerWord(action.field), action.value, action.mask);
        case 'load':
          return (
            typeof action.value === 'number' &&
            set(words, registerWord(action.to.field), (action.value << action.to.offset) >>> 0, maskOf(action.to))
          );
        case 'resubmit':
          return action.table !== undefined && action.withTracked === undefined && this.#visit(action.table, words, lanes, way);
        default:
          return false;
      }
    });
  }

  /** Another table is asked and comes back. */
  #visit(table: number, words: Words, lanes: readonly Lane[], way: HeldFlow[]): boolean {
    const won = this.#matches(table, words, lanes);
    const [only] = won;
    if (won.length !== 1 || !only) return false;
    if (!only.flow) return true;
    const { apply, gotoTable, hasMore } = only.flow;
    way.push(only.flow.held);
    return !hasMore && gotoTable === undefined && apply.every(({ kind }) => kind !== 'resubmit') && this.#apply(apply, words, lanes, way);
  }

  /** @param words as the last flow found them: it may clear what was decided */
  #ended(verdict: PortVerdict['verdict'], words: Words, lanes: readonly Lane[]): readonly PortVerdict[] {
    const isClosed = verdict === 'deny' && hasMark(words, closedClass);
    const decided = decidedIn(words);
    return lanes.map((lane) => ({ ...lane, verdict: isClosed ? 'closed' : verdict, decided, way: noWay }));
  }

  #tell({ held }: ReadFlow, what: string): void {
    const problem = `table ${held.table}, priority ${held.priority}, cookie 0x${held.cookie.toString(16)}: ${what}`;
    if (this.#told.has(problem)) return;
    this.#told.add(problem);
    this.#report(problem);
  }
}

function set(words: Words, word: number | undefined, value: number, mask: unknown): boolean {
  if (word === undefined || (mask !== undefined && typeof mask !== 'number')) return false;
  write(words, word, value, mask ?? 0xffff_ffff);
  return true;
}

function decidedIn(words: Words): PortVerdict['decided'] {
  if (hasMark(words, reg.verdict('allow'))) return 'allow';
  return hasMark(words, reg.verdict('deny')) ? 'deny' : 'none';
}

/** The verdict and the class are looked at by `Walk` itself. */
function looksFrom(
  tables: ReadonlyMap<number, TableIndex>,
  { from, verdict }: WalkLimits,
): ReadonlyMap<number, ReturnType<typeof looksOf>> {
  const looks = new Map<number, ReturnType<typeof looksOf>>();
  let behind: Words = new Uint32Array(wordCount);
  for (const mark of [reg.verdict('none'), closedClass]) write(behind, registerWord(`reg${mark.reg}` as 'reg0') ?? 0, mark.mask, mark.mask);
  for (let table = verdict; table >= from; table--) {
    const own = tables.get(table)?.looksAt;
    behind = behind.map((mask, at) => (mask | (own?.[at] ?? 0)) >>> 0);
    looks.set(table, looksOf(behind));
  }
  return looks;
}
