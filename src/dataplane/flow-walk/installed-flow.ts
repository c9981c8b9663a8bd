import type { Action } from '../../openflow/actions/action.ts';
import { decodeInstructions } from '../../openflow/flows/instructions.ts';
import { type FieldName, fields } from '../../openflow/match/fields.ts';
import { decodeMatch } from '../../openflow/match/match.ts';
import { type KnownField, maskOf, type PacketState, testsOf, type WordTest } from './packet-state.ts';

/** Flow of a bridge, in the bytes of OpenFlow 1.5. */
export interface InstalledFlow {
  readonly table: number;
  readonly priority: number;
  readonly cookie: bigint;
  readonly match: Uint8Array;
  readonly instructions: Uint8Array;
  /** Packets that the flow has counted, if known. */
  readonly packets?: bigint;
}

/** Flows and groups of a bridge. */
export interface FlowSource {
  /**
   * Visits the flows of a table in any order. The visitor copies what it keeps: bytes may be views into a message.
   *
   * @param packet packet for which a flow is selected: flows that do not match it may be left out; absent: all are visited
   */
  visit(table: number, visitor: (flow: InstalledFlow) => void, packet?: PacketState): Promise<void>;
  /** Buckets of a group, each with its actions; undefined if there is no such group. */
  buckets(group: number): Promise<readonly (readonly Action[])[] | undefined>;
}

/** Conditions of a flow's match; undefined if a field is unknown. */
type FlowTests = readonly WordTest[] | undefined;

const conditions = new WeakMap<InstalledFlow, { readonly tests: FlowTests }>();

/** Flow that applies to a packet in one table. */
interface SelectedFlow {
  /** Flow of the highest priority that matches; absent if none does. */
  readonly flow?: InstalledFlow;
  /** Reason for which it is unknown what the switch does with the packet. */
  readonly unreadable?: string;
}

/** Selects the flow of a table that applies to a packet; memory is constant, whatever the size of the table. */
export async function selectFlow(source: FlowSource, table: number, packet: PacketState): Promise<SelectedFlow> {
  let best: InstalledFlow | undefined;
  let other: InstalledFlow | undefined;
  let unknown: InstalledFlow | undefined;
  const consider = (flow: InstalledFlow): void => {
    if (best && flow.priority < best.priority) return;
    const tests = conditionOf(flow);
    if (!tests) {
      if (!unknown || flow.priority > unknown.priority) unknown = kept(flow);
      return;
    }
    if (!packet.meets(tests)) return;
    if (best?.priority === flow.priority) other = kept(flow);
    else [best, other] = [kept(flow), undefined];
  };
  await source.visit(table, consider, packet);
  if (unknown && (!best || unknown.priority >= best.priority)) return { unreadable: `${described(unknown)}: the match cannot be read` };
  if (!best) return {};
  if (other && !sameBytes(best.instructions, other.instructions))
    return { flow: best, unreadable: `${described(other)}: another flow of this priority matches the same packet` };
  return { flow: best };
}

/** Fields with the port of the sender. */
const sourcePortFields: readonly KnownField[] = ['tcp_src', 'udp_src', 'sctp_src'];
const sourcePortWords: ReadonlySet<number> = new Set(
  sourcePortFields.flatMap((field) => (testsOf(field, 0n, 0xffffn) ?? []).map(({ word }) => word)),
);

/** Flow that would apply to the packet if it had another source port. */
interface OtherSourcePort {
  readonly sourcePort: number;
  readonly flow: InstalledFlow;
}

/**
 * Returns the flows of the same table and priority that would apply instead of one if the packet had another source port, each with such a port.
 * Empty, without a visit to the table, if the source port makes no difference to the flow.
 */
export async function otherSourcePorts(
  source: FlowSource,
  applied: InstalledFlow,
  packet: PacketState,
): Promise<readonly OtherSourcePort[]> {
  const field = sourcePortFields.find((each) => conditionOf(applied)?.some(({ word }) => testsOf(each, 0n, 0xffffn)?.[0]?.word === word));
  const own = sourcePortTest(applied);
  if (field === undefined || !own) return [];
  const others: OtherSourcePort[] = [];
  await source.visit(applied.table, (flow) => {
    if (flow.priority !== applied.priority) return;
    const test = sourcePortTest(flow);
    const isOther = test?.word === own.word && ((test.value ^ own.value) & test.mask & own.mask) !== 0;
    if (!test || !isOther || !conditionOf(flow)?.every((each) => each === test || packet.meets([each]))) return;
    others.push({ sourcePort: ((Number(packet.get(field)) & ~test.mask) | test.value) >>> 0, flow: kept(flow) });
  });
  return others;
}

function sourcePortTest(flow: InstalledFlow): WordTest | undefined {
  return conditionOf(flow)?.find(({ word }) => sourcePortWords.has(word));
}

function kept(flow: InstalledFlow): InstalledFlow {
  // The flow of a source in memory stays the same object, so that its condition is read once.
  return conditions.has(flow) ? flow : { ...flow, match: flow.match.slice(), instructions: flow.instructions.slice() };
}

/** Keeps the condition of a flow that will be tested again. */
export function readOnce(flow: InstalledFlow): void {
  conditions.set(flow, { tests: readCondition(flow) });
}

function conditionOf(flow: InstalledFlow): FlowTests {
  const known = conditions.get(flow);
  return known ? known.tests : readCondition(flow);
}

function readCondition({ match }: InstalledFlow): FlowTests {
  const tests: WordTest[] = [];
  for (const [name, given] of Object.entries(decodeMatch(match))) {
    if (given === undefined) continue;
    if (given instanceof Uint8Array || !(name in fields)) return undefined;
    const field = name as FieldName;
    const exact = typeof given === 'number' || typeof given === 'bigint';
    if (!exact && (given.value instanceof Uint8Array || given.mask instanceof Uint8Array)) return undefined;
    const [value, mask] = exact ? [BigInt(given), maskOf(fields[field].bits)] : [bigint(given.value), bigint(given.mask)];
    const read = testsOf(field, value, mask);
    if (!read) return undefined;
    tests.push(...read);
  }
  return tests;
}

function bigint(value: number | bigint | Uint8Array): bigint {
  return value instanceof Uint8Array ? 0n : BigInt(value);
}

/** Actions of a flow in the order in which the switch executes them. */
interface FlowActions {
  readonly apply: readonly Action[];
  readonly gotoTable?: number;
  /** True if the flow has instructions other than these two. */
  readonly hasMore: boolean;
}

export function actionsOf({ instructions }: Pick<InstalledFlow, 'instructions'>): FlowActions {
  const { apply = [], gotoTable, ...more } = decodeInstructions(instructions);
  return { apply, hasMore: Object.keys(more).length > 0, ...(gotoTable !== undefined && { gotoTable }) };
}

export function described({ table, priority, cookie }: Pick<InstalledFlow, 'table' | 'priority' | 'cookie'>): string {
  return `table ${table}, priority ${priority}, cookie 0x${cookie.toString(16)}`;
}

function sameBytes(a: Uint8Array, b: Uint8Array): boolean {
  return a.length === b.length && a.every((byte, at) => byte === b[at]);
}
