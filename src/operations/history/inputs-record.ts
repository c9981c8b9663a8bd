import type { Log } from '../../base/log/log.ts';
import type { DesiredState } from '../../dataplane/reconcile/desired-state.ts';
import { type BridgeKey, type BridgeValue, plainValue } from '../../dataplane/targets/bridge/bridge-entry.ts';
import { allInputs, commonInputs, type InputsPort, inputsOfOwners } from '../compiler-inputs/current-inputs.ts';
import type { History } from './history.ts';
import { digestOf, type OwnerDigest } from './owner-digest.ts';

type RecordedBridge = Pick<
  DesiredState<BridgeKey, BridgeValue>,
  'revision' | 'disputed' | 'followOwners' | 'keysOf' | 'wanted' | 'has' | 'owners' | 'conflictingOwners'
>;

export interface InputsRecordOptions {
  readonly port: Omit<InputsPort, 'nodeState'> & { readonly nodeState: { readonly bridge: RecordedBridge } };
  readonly history: Pick<History, 'writeInputs' | 'isEnabled'>;
  readonly log: Log;
  /** Milliseconds from any fixed moment; never goes back. */
  readonly now: () => number;
  /** Milliseconds since the epoch. */
  readonly wallMs: () => number;
}

/** An owner to record. */
interface DueOwner {
  /** Time of its last change (ms since the epoch). */
  readonly changedMs: number;
  readonly isQuiet: boolean;
}

/** Interval between rounds (ms), and between records of all inputs. */
const ROUND_MS = 1_000;
const WHOLE_EVERY_MS = 3_600_000;
/** Number of rounds after which an owner that changes all the time is recorded, without a digest. */
const MOVING_ROUNDS = 5;
/** Number of rounds without digests after a change of inputs that all compilers share: entries are compiled again meanwhile. */
const UNSETTLED_ROUNDS = 4;

/**
 * Records the inputs of the bridge's compilers: all of them at the start and each hour, and each second those of owners that changed.
 *
 * An owner is recorded in the first round in which it does not change: its inputs and its entries are then of one moment. The digest of its
 * entries makes a later replay notice a difference. Rows of policies have no inputs here; their entries are recorded.
 */
export class InputsRecord {
  readonly #options: InputsRecordOptions;
  /** Owners to record, with the number of rounds in which they changed, and the time of the last change. */
  readonly #pending = new Map<string, { readonly rounds: number; readonly changedMs: number; isQuiet: boolean }>();
  #take: (() => ReadonlySet<string>) | undefined;
  #common = '';
  #wholeMs: number | undefined;
  #unsettled = 0;

  constructor(options: InputsRecordOptions) {
    this.#options = options;
  }

  /** Runs one round after another until the signal is aborted. Call once the desired state is complete. Never rejects. */
  async run(pause: (ms: number) => Promise<void>, signal: AbortSignal): Promise<void> {
    const { log } = this.#options;
    while (!signal.aborted) {
      try {
        await this.round();
        log.working('inputs of history');
      } catch (thrown) {
        // A bug here must not end the agent; the next record of all inputs begins again.
        this.#wholeMs = undefined;
        log.failing('inputs of history', 'inputs are not recorded', { cause: thrown instanceof Error ? thrown.message : String(thrown) });
      }
      await pause(ROUND_MS);
    }
  }

  /** Records what changed. */
  async round(): Promise<void> {
    const { port, history, now } = this.#options;
    if (!history.isEnabled) return;
    this.#take ??= port.nodeState.bridge.followOwners();
    if (this.#wholeMs === undefined || now() - this.#wholeMs >= WHOLE_EVERY_MS) {
      await this.#recordAll();
      return;
    }
    await port.turns.next();
    this.#noteRound();
    const due = this.#dueOwners();
    // Thousands of owners are recorded in several parts: other work does not wait for all of them.
    for (let isFirst = true; isFirst || due.size > 0; isFirst = false) {
      if (!isFirst) {
        await port.turns.next();
        this.#noteChanges();
        // A quiet owner that has changed meanwhile waits for a round again.
        for (const [owner, { isQuiet }] of due) if (isQuiet && this.#pending.has(owner)) due.delete(owner);
      }
      const line = this.#part(due, isFirst);
      if (line === undefined || (await history.writeInputs([line], () => port.turns.next()))) continue;
      this.#wholeMs = undefined; // readers would lack a part
      return;
    }
  }

  /** Owners that have not changed since the last round are quiet. */
  #noteRound(): void {
    const changed = this.#noteChanges();
    for (const [owner, waiting] of this.#pending) if (!changed.has(owner)) waiting.isQuiet = true;
  }

  /** Moves owners that changed to those that wait. */
  #noteChanges(): ReadonlySet<string> {
    const changed = this.#take?.() ?? new Set<string>();
    const changedMs = this.#options.wallMs();
    for (const owner of changed)
      this.#pending.set(owner, { rounds: (this.#pending.get(owner)?.rounds ?? 0) + 1, changedMs, isQuiet: false });
    return changed;
  }

  /** Returns the owners that are to be recorded; they no longer wait. */
  #dueOwners(): Map<string, DueOwner> {
    const due = new Map([...this.#pending].filter(([, { rounds, isQuiet }]) => isQuiet || rounds >= MOVING_ROUNDS));
    for (const owner of due.keys()) this.#pending.delete(owner);
    return due;
  }

  /** Returns the record of owners, which it removes from those that are due: as many as the turn has time for, at least one. */
  #part(due: Map<string, DueOwner>, isFirst: boolean): string | undefined {
    const { port, wallMs } = this.#options;
    const sources = port.running();
    const common = commonOf(commonInputs(port, sources));
    const isOther = common !== this.#common;
    if (isOther) this.#unsettled = UNSETTLED_ROUNDS;
    else if (isFirst && this.#unsettled > 0) this.#unsettled--;
    this.#common = common;
    if (due.size === 0 && !isOther) return undefined;
    const { bridge } = port.nodeState;
    const [owners, gone, rows, digests] = [new Set<string>(), [] as string[], [] as unknown[], [] as unknown[]];
    let lastMs = 0;
    for (const [owner, { changedMs, isQuiet }] of due) {
      due.delete(owner);
      owners.add(owner);
      lastMs = Math.max(lastMs, changedMs);
      if (!bridge.has(owner)) gone.push(owner);
      else if (isPolicy(owner)) rows.push([owner, this.#entriesOf(owner)]);
      else digests.push([owner, isQuiet ? this.#digest(owner) : '']);
      if (port.turns.due) break;
    }
    const head = JSON.stringify({ t: Math.round(lastMs || wallMs()), is: 'round', gone, rows, digests });
    const lines = [...inputsOfOwners(withSubjects(owners), sources)].join(',');
    return `${head.slice(0, -1)}${isOther ? `,"common":${common}` : ''},"lines":[${lines}]}`;
  }

  async #recordAll(): Promise<void> {
    const { port, history, now } = this.#options;
    this.#take?.();
    this.#pending.clear();
    const isWritten = await history.writeInputs(this.#wholeLines(), () => port.turns.next());
    this.#wholeMs = isWritten ? now() : undefined;
  }

  *#wholeLines(): Generator<string> {
    const { port, wallMs } = this.#options;
    const { bridge } = port.nodeState;
    const sources = port.running();
    const [startMs, revision] = [wallMs(), bridge.revision];
    this.#common = commonOf(commonInputs(port, sources));
    this.#unsettled = 0;
    yield JSON.stringify({ t: Math.round(startMs), is: 'whole' });
    for (const line of allInputs(port, sources)) yield line;
    for (const owner of bridge.owners())
      yield isPolicy(owner)
        ? JSON.stringify({ is: 'row', o: owner, e: this.#entriesOf(owner) })
        : JSON.stringify({ is: 'digest', o: owner, d: this.#digest(owner) });
    yield JSON.stringify({ t: Math.round(wallMs()), is: 'complete', steady: bridge.revision === revision });
  }

  /** Empty if another owner's value applies to one of its entries: that is not computed from its inputs alone. */
  #digest(owner: string): OwnerDigest | '' {
    const { bridge } = this.#options.port.nodeState;
    if (this.#unsettled > 0 || bridge.conflictingOwners(owner).length > 0) return '';
    return digestOf(bridge.keysOf(owner).map((key) => [key, bridge.wanted(key) ?? ''] as const));
  }

  #entriesOf(owner: string): readonly (readonly [key: string, value: string])[] {
    const { bridge } = this.#options.port.nodeState;
    return bridge.keysOf(owner).flatMap((key) => {
      const value = bridge.wanted(key);
      return value === undefined
        ? []
        : [[Buffer.from(key, 'latin1').toString('base64'), Buffer.from(plainValue(key, value)).toString('base64')] as const];
    });
  }
}

function isPolicy(owner: string): boolean {
  return owner.startsWith('policy/');
}

/** The first line of the document without the revision, which changes all the time. */
function commonOf(line: string): string {
  return line.replace(/"revision":\d+,/, '"revision":0,');
}

/** Limits of openings are an owner of their own, with the input of the pod's subject. */
function withSubjects(owners: ReadonlySet<string>): ReadonlySet<string> {
  return new Set([...owners].map((owner) => owner.replace(/#openings$/, '')));
}
