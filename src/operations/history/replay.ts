import { SeineError } from '../../base/errors/seine-error.ts';
import type { Cidr } from '../../base/net/ip.ts';
import type { PeerIntent } from '../../dataplane/compile/compile-peer.ts';
import type { Owner } from '../../dataplane/pipeline/cookie.ts';
import { type BridgeKey, type BridgeValue, valueOfPlain } from '../../dataplane/targets/bridge/bridge-entry.ts';
import { endpointOwners } from '../../services/compile/endpoint-owner.ts';
import { compileInputs } from '../compiler-inputs/compile-inputs.ts';
import { type InputLine, readInputLine } from '../compiler-inputs/inputs-document.ts';
import type { CommonInputs, Dispute, NodeInputs, PodInput, ServiceInput, SubjectInput } from '../compiler-inputs/node-inputs.ts';
import { digestOf, type OwnerDigest } from './owner-digest.ts';
import type { HistoryLine } from './read-segments.ts';

/** Owner whose entries are not those that its recorded inputs compile to. */
interface ReplayDifference {
  readonly atMs: number;
  readonly owner: string;
  /** Digest that the agent recorded. */
  readonly recorded: OwnerDigest;
  /** Digest of the compiled entries, or the reason why there are none. */
  readonly compiled: string;
}

/** Inputs of a node at a moment, from its history. */
export class RecordedInputs {
  node = '';
  /** Version of the agent that recorded them. */
  seine = '';
  /** Time of the last record (ms since the epoch). */
  atMs = 0;
  readonly #peers = new Map<string, PeerIntent>();
  readonly #pods = new Map<string, PodInput>();
  readonly #subjects = new Map<string, SubjectInput>();
  readonly #services = new Map<string, ServiceInput>();
  readonly #ranges = new Map<string, readonly Cidr[]>();
  readonly #rows = new Map<string, readonly (readonly [BridgeKey, BridgeValue])[]>();
  #disputes: Dispute[] = [];
  #common: CommonInputs | undefined;
  /** Digests of a complete record, while it is read. */
  readonly #digests = new Map<string, OwnerDigest>();
  #isComplete = false;

  /** True once a complete record was read: without one, later changes are useless. */
  get isKnown(): boolean {
    return this.#isComplete;
  }

  /** @throws SeineError `UNAVAILABLE` before a complete record */
  get inputs(): NodeInputs {
    if (this.#common === undefined) throw new SeineError('UNAVAILABLE', 'there is no complete record of inputs before this time');
    const lists = { peers: [...this.#peers.values()], pods: [...this.#pods.values()], subjects: [...this.#subjects.values()] };
    return { ...this.#common, ...lists, services: [...this.#services.values()], disputes: this.#disputes };
  }

  /** Entries of policies, which have no inputs here. */
  *policyEntries(): Generator<readonly [BridgeKey, BridgeValue]> {
    for (const entries of this.#rows.values()) yield* entries;
  }

  /** Owners of these entries; their names contain the rule that decides, where it is one. */
  policyOwners(): Iterable<string> {
    return this.#rows.keys();
  }

  /** Applies a line of the stream of inputs. @returns digests to compare with, if it ends a record. @throws SeineError `INVALID_INPUT` */
  apply(line: HistoryLine): ReadonlyMap<string, OwnerDigest> | undefined {
    if (typeof line['t'] === 'number') this.atMs = line['t'];
    switch (line['is']) {
      case undefined:
        return undefined; // first line of a segment
      case 'whole':
        this.#clear();
        return undefined;
      case 'digest':
        this.#digests.set(textOf(line['o']), textOf(line['d']));
        return undefined;
      case 'row':
        this.#rows.set(textOf(line['o']), entriesOf(line['e']));
        return undefined;
      case 'complete':
        this.#isComplete = this.#common !== undefined;
        return line['steady'] === true ? this.#digests : new Map();
      case 'round':
        return this.#isComplete ? this.#applyRound(line) : undefined;
      default:
        this.#applyInput(line);
        return undefined;
    }
  }

  #clear(): void {
    for (const each of [this.#peers, this.#pods, this.#subjects, this.#services, this.#ranges, this.#rows, this.#digests]) each.clear();
    this.#disputes = [];
    this.#common = undefined;
    this.#isComplete = false;
  }

  #applyRound({ common, lines, gone, rows, digests }: HistoryLine): ReadonlyMap<string, OwnerDigest> {
    if (common !== undefined) this.#applyInput(common);
    for (const each of listOf(lines)) this.#applyInput(each);
    for (const each of listOf(gone).map(textOf)) this.#forget(each);
    for (const each of listOf(rows)) this.#rows.set(textOf(listOf(each)[0]), entriesOf(listOf(each)[1]));
    return new Map(listOf(digests).map((each) => [textOf(listOf(each)[0]), textOf(listOf(each)[1])]));
  }

  #applyInput(value: unknown): void {
    const line: InputLine = readInputLine(JSON.stringify(value), 0);
    switch (line.is) {
      case 'start':
        this.#common = { environment: line.environment, proxy: line.proxy };
        this.node = line.node;
        this.seine = line.seine;
        break;
      case 'peer':
        this.#peers.set(`peer/${line.of.name}`, line.of);
        break;
      case 'pod':
        this.#pods.set(line.of.owner, line.of);
        break;
      case 'subject':
        this.#subjects.set(line.of.owner, line.of);
        break;
      case 'source-ranges':
        this.#ranges.set(line.of.name, line.of.ranges);
        break;
      case 'service':
        this.#services.set(line.of.owner, this.#serviceOf(line.of));
        break;
      case 'dispute':
        this.#disputes.push(line.of);
        break;
      case 'end':
        break;
    }
  }

  #serviceOf({ sourceRanges: name, ...input }: ServiceInput & { readonly sourceRanges?: string }): ServiceInput {
    if (name === undefined) return input;
    const ranges = this.#ranges.get(name);
    if (ranges === undefined) throw new SeineError('INVALID_INPUT', `${input.owner}: the inputs have no source ranges ${name}`);
    return { ...input, intent: { ...input.intent, sourceRanges: ranges } };
  }

  #forget(owner: string): void {
    for (const each of [this.#peers, this.#pods, this.#subjects, this.#services, this.#rows]) each.delete(owner);
  }

  /** Compiles these owners, and returns the first whose entries have another digest. */
  firstDifference(digests: ReadonlyMap<string, OwnerDigest>): { readonly difference?: ReplayDifference; readonly compared: number } {
    const wanted = new Map([...digests].filter(([, digest]) => digest !== ''));
    const compiled = new Map<string, string>();
    const options = {
      only: new Set(wanted.keys()),
      compiled: (owner: Owner, entries: ReadonlyMap<BridgeKey, BridgeValue>) => void compiled.set(owner, digestOf(entries)),
    };
    for (const { owner, error } of compileInputs(this.#inputsOf(wanted), options).failures)
      compiled.set(owner, `does not compile: ${error.rawMessage}`);
    let compared = 0;
    for (const [owner, recorded] of wanted) {
      const result = compiled.get(owner) ?? (hasInputs.test(owner) ? 'has no inputs' : undefined);
      if (result === undefined) continue;
      compared++;
      if (result !== recorded) return { difference: { atMs: this.atMs, owner, recorded, compiled: result }, compared };
    }
    return { compared };
  }

  /** Inputs of these owners alone: a round concerns few of many. */
  #inputsOf(owners: ReadonlyMap<string, unknown>): NodeInputs {
    if (this.#common === undefined) throw new SeineError('UNAVAILABLE', 'there is no complete record of inputs before this time');
    if (owners.size > FEW) return { ...this.inputs, disputes: [] };
    const among = <T>(from: ReadonlyMap<string, T>): T[] =>
      [...owners.keys()].flatMap((owner) => from.get(owner.replace(/#openings$/, '')) ?? []);
    const services = new Set(among(this.#services));
    const endpoints = [...owners.keys()].filter((owner) => owner.startsWith('endpoint/') || owner.startsWith('service/source-ranges:'));
    if (endpoints.length > 0) for (const each of this.#services.values()) if (isUsing(each, owners)) services.add(each);
    return {
      ...this.#common,
      peers: among(this.#peers),
      pods: among(this.#pods),
      subjects: [...new Set(among(this.#subjects))],
      services: [...services],
      disputes: [],
    };
  }
}

/** Number of owners above which all inputs are compiled. */
const FEW = 5_000;

/** Owners that have inputs of their own. */
const hasInputs = /^(?:peer|pod|subject)\/|^service\/(?!source-ranges:)/;

function isUsing({ intent }: ServiceInput, owners: ReadonlyMap<string, unknown>): boolean {
  return intent.sourceRanges.length > 0 || endpointOwners(intent).some((owner) => owners.has(owner));
}

/** Result of a replay. */
export interface Replayed {
  readonly node: string;
  readonly seine: string;
  readonly rounds: number;
  /** Number of owners whose digests were compared. */
  readonly compared: number;
  readonly firstMs: number | undefined;
  readonly lastMs: number | undefined;
  readonly difference?: ReplayDifference;
}

/**
 * Compiles each recorded round of a period, and compares the digests of the owners that changed. Ends at the first difference.
 *
 * @throws SeineError `INVALID_INPUT` for a line that cannot be read, `UNAVAILABLE` if no record is complete
 */
export async function replay(
  lines: AsyncIterable<HistoryLine> | Iterable<HistoryLine>,
  { fromMs, untilMs }: { readonly fromMs: number; readonly untilMs: number },
): Promise<Replayed> {
  const recorded = new RecordedInputs();
  const counts = { rounds: 0, compared: 0 };
  let [firstMs, lastMs]: (number | undefined)[] = [];
  for await (const line of lines) {
    if (typeof line['t'] === 'number' && line['t'] > untilMs) break;
    const digests = recorded.apply(line);
    if (digests === undefined || recorded.atMs < fromMs) continue;
    counts.rounds++;
    firstMs ??= recorded.atMs;
    lastMs = recorded.atMs;
    const { difference, compared } = recorded.firstDifference(digests);
    counts.compared += compared;
    if (difference) return { node: recorded.node, seine: recorded.seine, ...counts, firstMs, lastMs, difference };
  }
  if (!recorded.isKnown) throw new SeineError('UNAVAILABLE', 'the history has no complete record of inputs in this time');
  return { node: recorded.node, seine: recorded.seine, ...counts, firstMs, lastMs };
}

function textOf(value: unknown): string {
  if (typeof value !== 'string') throw new SeineError('INVALID_INPUT', 'a line of the recorded inputs cannot be read');
  return value;
}

function listOf(value: unknown): readonly unknown[] {
  if (!Array.isArray(value)) throw new SeineError('INVALID_INPUT', 'a line of the recorded inputs cannot be read');
  return value;
}

function entriesOf(value: unknown): readonly (readonly [BridgeKey, BridgeValue])[] {
  return listOf(value).map((each) => {
    const [key, plain] = listOf(each).map(textOf);
    const name = Buffer.from(key ?? '', 'base64').toString('latin1') as BridgeKey;
    return [name, valueOfPlain(name, Buffer.from(plain ?? '', 'base64'))] as const;
  });
}
