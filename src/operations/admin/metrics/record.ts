import type { SeineError } from '../../../base/errors/seine-error.ts';
import type { NodeStateEvents, TargetName } from '../../../dataplane/targets/target-options.ts';
import type { LabelSet, Sample } from './exporter.ts';
import type { HistogramName, ScrapedName } from './metric-rows.ts';

/** Error and the time at which it occurred, by `performance.now()`. */
interface Seen {
  readonly error: SeineError;
  readonly atMs: number;
}

export type Observe = (name: HistogramName, labels: LabelSet, value: number) => void;

/** Answered call of the CNI plugin. */
export interface CniCallRecord {
  readonly command: string;
  /** 0: success. */
  readonly code: number;
  readonly tookMs: number;
  readonly stages: Iterable<readonly [stage: string, ms: number]>;
  /** `namespace/name`; absent if the runtime names no pod. */
  readonly pod?: string;
}

/** Counters of the agent's events, for metrics and for `seinectl status`. */
export class AgentRecord {
  readonly #observe: Observe;
  readonly #sums = new Map<string, { readonly name: ScrapedName; readonly labels: LabelSet; value: number }>();
  readonly #last = new Map<string, Seen>();

  constructor(observe: Observe) {
    this.#observe = observe;
  }

  call({ command, code, tookMs, stages }: CniCallRecord): void {
    const known = commands.has(command) ? command : 'other';
    this.#add('cni_calls_total', { command: known, code: String(code) });
    this.#observe('cni_call_duration_seconds', { command: known }, tookMs / 1_000);
    if (known !== 'ADD' && known !== 'DEL') return;
    for (const [stage, ms] of stages) this.#observe('cni_stage_duration_seconds', { command: known, stage }, ms / 1_000);
  }

  podStage(stage: string, tookMs: number): void {
    this.#observe('cni_stage_duration_seconds', { command: 'ADD', stage }, tookMs / 1_000);
  }

  /** Adds its own handlers to those of `then`. */
  nodeStateEvents(then: NodeStateEvents): NodeStateEvents {
    return {
      round: (part, result) => {
        this.#add('reconcile_rounds_total', { part });
        this.#add('reconcile_entries_total', { part, operation: 'put' }, result.put);
        this.#add('reconcile_entries_total', { part, operation: 'removed' }, result.removed);
        this.#observe('reconcile_duration_seconds', { part }, result.tookMs / 1_000);
        then.round(part, result);
      },
      failure: (part, error) => {
        this.#add('reconcile_failures_total', { part });
        this.saw(part, error);
        then.failure(part, error);
      },
      recovered: (part) => then.recovered?.(part),
      refused: (part, owner, error) => then.refused(part, owner, error),
      accepted: (part, owner) => then.accepted?.(part, owner),
      drift: (part, keys) => {
        this.#add('drift_entries_total', { part }, keys.length);
        then.drift(part, keys);
      },
      notInPlace: (tables, refusal) => {
        for (const table of tables) this.#add('firewall_replacements_total', { table });
        then.notInPlace?.(tables, refusal);
      },
      lost: (part, keys) => then.lost?.(part, keys),
      complete: (part) => then.complete?.(part),
      repaired: (part, tookMs) => {
        this.#observe('drift_repair_duration_seconds', { part }, tookMs / 1_000);
        then.repaired(part, tookMs);
      },
    };
  }

  sourceFailed(kind: string, error: SeineError): void {
    this.#add('source_failures_total', { kind });
    this.saw(kind, error);
  }

  /** @param what one of few names */
  saw(what: string, error: SeineError): void {
    this.#last.set(what, { error, atMs: performance.now() });
  }

  lastOf(what: string): Seen | undefined {
    return this.#last.get(what);
  }

  driftOf(part: TargetName): number {
    return this.sumOf('drift_entries_total', { part });
  }

  /** Returns 0 for events that never happened, so that a rate can be computed from the first time on. */
  sumOf(name: ScrapedName, labels: LabelSet): number {
    return this.#sums.get(keyOf(name, labels))?.value ?? 0;
  }

  samples(name: ScrapedName): Sample[] {
    return [...this.#sums.values()].filter((sum) => sum.name === name).map(({ labels, value }) => [labels, value]);
  }

  #add(name: ScrapedName, labels: LabelSet, by = 1): void {
    const key = keyOf(name, labels);
    const sum = this.#sums.get(key) ?? { name, labels, value: 0 };
    sum.value += by;
    this.#sums.set(key, sum);
  }
}

function keyOf(name: ScrapedName, labels: LabelSet): string {
  return [name, ...Object.values(labels)].join(' ');
}

/** Labels from outside must not create a time series each. */
const commands = new Set(['ADD', 'DEL', 'CHECK', 'STATUS', 'GC', 'VERSION']);
