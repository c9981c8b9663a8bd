import { reg } from '../../../dataplane/pipeline/fields.ts';
import { tables } from '../../../dataplane/pipeline/tables.ts';
import type { Action } from '../../../openflow/actions/action.ts';
import { asOpened, hasMark, maskOf, registerWord, type Words, wordCount, write } from './packet-words.ts';
import { allPortRanges, divide, type ProtocolPorts } from './protocol-port-ranges.ts';
import { type HeldFlow, isByOriginalTuple, keyOf, matchFieldsOf, type ReadFlow, type TableIndex } from './table-index.ts';

/** Result for a range of ports of one protocol. */
interface PortVerdict extends ProtocolPorts {
  /**
   * Verdict of the tables. `closed`: the pod is blocked pending policy. `unreadable`: a flow on the way has an action that the reader does
   * not know.
   */
  readonly verdict: 'allow' | 'deny' | 'closed' | 'unreadable';
  /** True if the flows show the denied packet to the agent, which may answer its sender. */
  readonly isRefused?: true;
  /** Verdict of policy's own rows, if they were visited: in audit mode a denied packet passes. */
  readonly decided: 'allow' | 'deny' | 'none';
  /** Flows after those that all ports have in common; the last one decided. */
  readonly way: readonly HeldFlow[];
}

export interface Walked {
  /** Flows that all ports pass. */
  readonly way: readonly HeldFlow[];
  readonly outcomes: readonly PortVerdict[];
}

interface WalkLimits {
  /** Entry table: a packet that matches no flow of it is closed. */
  readonly from: number;
  readonly verdict: number;
  /** Table that a packet reaches if it is allowed. */
  readonly end: number;
}

/** Table that a denied packet reaches if its sender may get an answer; none of its flows outputs the packet. */
const refusals = tables.refusals.id;

const closedClass = reg.networkPolicyClass('closed');
const noPath: readonly HeldFlow[] = [];
/** Actions that do not change the packet or its verdict. */
const harmless: ReadonlySet<Action['kind']> = new Set(['controller', 'meter', 'note']);

/** Walks all ports of all protocols through one direction's tables at once, and caches results for packets that are alike there. */
export class Walk {
  readonly #tables: ReadonlyMap<number, TableIndex>;
  readonly #limits: WalkLimits;
  readonly #report: (problem: string) => void;
  readonly #known = new Map<number, Map<string, Walked>>();
  /** Words that any flow of a table or of a later table matches. */
  readonly #looks: ReadonlyMap<number, ReturnType<typeof matchFieldsOf>>;
  readonly #reported = new Set<string>();

  constructor(tables: ReadonlyMap<number, TableIndex>, limits: WalkLimits, report: (problem: string) => void) {
    this.#tables = tables;
    this.#limits = limits;
    this.#report = report;
    this.#looks = matchFieldsFrom(tables, limits);
  }

  /** Walks a packet. Each packet is walked once, so results of the entry table are not cached. */
  walk(words: Words): Walked {
    return this.#lookUp(this.#limits.from, words, allPortRanges);
  }

  #continueIn(table: number, words: Words, portRanges: readonly ProtocolPorts[]): Walked {
    if (portRanges !== allPortRanges) return this.#lookUp(table, words, portRanges);
    const ofTable = this.#known.get(table) ?? new Map<string, Walked>();
    this.#known.set(table, ofTable);
    const key = keyOf(words, this.#looks.get(table) ?? []);
    const known = ofTable.get(key);
    if (known) return known;
    const walked = this.#lookUp(table, words, portRanges);
    ofTable.set(key, walked);
    return walked;
  }

  #lookUp(table: number, words: Words, portRanges: readonly ProtocolPorts[]): Walked {
    const found = this.#matches(table, words, portRanges);
    const [only] = found;
    if (found.length === 1 && only?.flow && only.portRanges === portRanges) return this.#follow(only.flow, words, portRanges);
    const outcomes = found.flatMap(({ flow, portRanges: part }): readonly PortVerdict[] => {
      if (!flow) return this.#ended(table === this.#limits.from ? 'closed' : 'deny', words, part);
      const { way, outcomes: behind } = this.#follow(flow, words, part);
      return behind.map((each) => ({ ...each, way: [...way, ...each.way] }));
    });
    return { way: noPath, outcomes };
  }

  /** Returns the matching flows, each with its ports; an entry without a flow for ports that none matches. */
  #matches(
    table: number,
    words: Words,
    portRanges: readonly ProtocolPorts[],
  ): readonly { readonly flow?: ReadFlow; readonly portRanges: readonly ProtocolPorts[] }[] {
    const won: { flow?: ReadFlow; portRanges: readonly ProtocolPorts[] }[] = [];
    let rest = portRanges;
    for (const flow of this.#tables.get(table)?.candidates(words) ?? []) {
      for (const { flow: other, portRanges: taken } of won)
        if (other?.held.priority === flow.held.priority && divide(taken, flow.condition.ports).inside.length > 0)
          this.#tell(flow, 'another flow of this priority matches the same packet');
      const { inside, outside } = divide(rest, flow.condition.ports);
      if (inside.length > 0) won.push({ flow, portRanges: inside });
      rest = outside;
    }
    return rest.length > 0 ? [...won, { portRanges: rest }] : won;
  }

  #follow(flow: ReadFlow, before: Words, portRanges: readonly ProtocolPorts[]): Walked {
    const { apply, gotoTable, hasMore } = flow;
    const words = apply.length > 0 ? before.slice() : before;
    const way = [flow.held];
    if (hasMore || !this.#apply(apply, words, portRanges, way)) {
      this.#tell(flow, 'its actions cannot be read');
      return { way, outcomes: this.#ended('unreadable', before, portRanges) };
    }
    if (gotoTable === undefined) return { way, outcomes: this.#ended('deny', before, portRanges) };
    if (gotoTable === refusals) {
      const outcomes = this.#ended('deny', before, portRanges);
      return { way, outcomes: outcomes.map((each) => ({ ...each, isRefused: true })) };
    }
    if (gotoTable === this.#limits.end) return { way, outcomes: this.#ended('allow', before, portRanges) };
    if (!this.#tables.has(gotoTable) && (gotoTable < this.#limits.from || gotoTable > this.#limits.verdict)) {
      this.#tell(flow, `it continues at table ${gotoTable}`);
      return { way, outcomes: this.#ended('unreadable', before, portRanges) };
    }
    const behind = this.#continueIn(gotoTable, words, portRanges);
    return { way: [...way, ...behind.way], outcomes: behind.outcomes };
  }

  /** Applies actions to the words. @returns false for an unknown action */
  #apply(actions: readonly Action[], words: Words, portRanges: readonly ProtocolPorts[], way: HeldFlow[]): boolean {
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
          return action.table !== undefined && this.#visit(action.table, words, portRanges, way, isByOriginalTuple(action));
        default:
          return false;
      }
    });
  }

  /** Processes another table and returns to the current one. @param asOpenedOnly true to look it up by the original tuple */
  #visit(table: number, words: Words, portRanges: readonly ProtocolPorts[], way: HeldFlow[], asOpenedOnly: boolean): boolean {
    const won = this.#matches(table, asOpenedOnly ? asOpened(words) : words, portRanges);
    const [only] = won;
    if (won.length !== 1 || !only) return false;
    if (!only.flow) return true;
    const { apply, gotoTable, hasMore } = only.flow;
    way.push(only.flow.held);
    return (
      !hasMore && gotoTable === undefined && apply.every(({ kind }) => kind !== 'resubmit') && this.#apply(apply, words, portRanges, way)
    );
  }

  /** Ends a walk. @param words words before the last flow, which may clear the verdict */
  #ended(verdict: PortVerdict['verdict'], words: Words, portRanges: readonly ProtocolPorts[]): readonly PortVerdict[] {
    const isClosed = verdict === 'deny' && hasMark(words, closedClass);
    const decided = decidedIn(words);
    return portRanges.map((ports) => ({ ...ports, verdict: isClosed ? 'closed' : verdict, decided, way: noPath }));
  }

  #tell({ held }: ReadFlow, what: string): void {
    const problem = `table ${held.table}, priority ${held.priority}, cookie 0x${held.cookie.toString(16)}: ${what}`;
    if (this.#reported.has(problem)) return;
    this.#reported.add(problem);
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

/** Returns the words to compare from each table on. Verdict and class are included, because `Walk` itself reads them. */
function matchFieldsFrom(
  tables: ReadonlyMap<number, TableIndex>,
  { from, verdict }: WalkLimits,
): ReadonlyMap<number, ReturnType<typeof matchFieldsOf>> {
  const looks = new Map<number, ReturnType<typeof matchFieldsOf>>();
  let behind: Words = new Uint32Array(wordCount);
  for (const mark of [reg.verdict('none'), closedClass]) write(behind, registerWord(`reg${mark.reg}` as 'reg0') ?? 0, mark.mask, mark.mask);
  for (let table = verdict; table >= from; table--) {
    const own = tables.get(table)?.matchesOn;
    behind = behind.map((mask, at) => (mask | (own?.[at] ?? 0)) >>> 0);
    looks.set(table, matchFieldsOf(behind));
  }
  return looks;
}
