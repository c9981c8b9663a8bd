import { type FlowLosses, lossCauses } from '../../../api/flow-log.ts';
import { seineVersion } from '../../../api/version.ts';
import type { Log } from '../../../base/log/log.ts';
import { fnv1aOf } from '../../../dataplane/pipeline/fnv-1a.ts';
import type { FlowRecord } from '../records/flow-record.ts';
import type { FlowSummaryMinutes } from '../records/flow-summaries.ts';
import { exportFilter } from './export-filter.ts';
import type { FlowReceiver } from './exported-item.ts';
import { FlowExport } from './flow-export.ts';
import { type IpfixCollector, IpfixReceiver } from './ipfix-receiver.ts';
import { OtlpReceiver } from './otlp-receiver.ts';

const MINUTE_MS = 60_000;
/** Interval at which a finished minute is looked for (ms). */
const MINUTES_EVERY_MS = 5_000;

/** Settings of the exports. `filter`: `summary`, `all`, or a query of filters such as `verdict=denied&namespace=shop`. */
export interface ExportSettings {
  readonly otlp: {
    readonly endpoint: string;
    readonly headersFile?: string | undefined;
    readonly caFile?: string | undefined;
    readonly filter: string;
  };
  readonly ipfix: { readonly collector?: IpfixCollector | undefined; readonly caFile?: string | undefined; readonly filter: string };
}

interface FlowExportsOptions {
  readonly settings: ExportSettings;
  readonly node: string;
  readonly log: Log;
  readonly clock: { readonly wallMs: () => number; readonly steadyMs: () => number };
  /** Summaries of finished minutes, and connections without a record until now. */
  readonly summaries: Pick<FlowSummaryMinutes, 'minutesBetween'>;
  readonly losses: () => FlowLosses;
  /** Creates the receivers; the real ones unless a test has others. */
  readonly receivers?: { readonly otlp?: FlowReceiver; readonly ipfix?: FlowReceiver };
}

/** Export and its condition; absent: it gets summaries instead of records. */
interface FilteredExport {
  readonly target: FlowExport;
  readonly matches: ((flow: FlowRecord) => boolean) | undefined;
}

/** Exports of a flow log that is on. Without any configured, it does nothing and has no timer. */
export class FlowExports {
  readonly #options: FlowExportsOptions;
  readonly #exports: readonly FilteredExport[];
  readonly #timer: NodeJS.Timeout | undefined;
  /** Number of the first minute that has not been exported, and the losses until it. */
  #nextMinute: number;
  #losses: FlowLosses;

  constructor(options: FlowExportsOptions) {
    this.#options = options;
    this.#exports = [...exportTo('otlp', options), ...exportTo('ipfix', options)];
    this.#nextMinute = Math.floor(options.clock.wallMs() / MINUTE_MS);
    this.#losses = options.losses();
    if (this.#exports.some(({ matches }) => matches === undefined))
      this.#timer = setInterval(() => this.exportMinutes(), MINUTES_EVERY_MS).unref();
  }

  /** Exports that are configured, with their counts. */
  get all(): readonly FlowExport[] {
    return this.#exports.map(({ target }) => target);
  }

  add(flow: FlowRecord): void {
    for (const { target, matches } of this.#exports) if (matches?.(flow)) target.add({ kind: 'flow', flow });
  }

  /** Exports the minutes that have ended since the last call. */
  exportMinutes(): void {
    const { clock, summaries, losses } = this.#options;
    const current = Math.floor(clock.wallMs() / MINUTE_MS);
    if (current <= this.#nextMinute) return;
    const finished = summaries.minutesBetween(this.#nextMinute, current);
    const [before, now] = [this.#losses, losses()];
    const lost = Object.fromEntries(lossCauses.map((cause) => [cause, now[cause] - before[cause]])) as Record<keyof FlowLosses, number>;
    const others = finished.reduce((sum, minute) => sum + minute.others, 0);
    const hasLosses = others > 0 || lossCauses.some((cause) => lost[cause] > 0);
    for (const { target, matches } of this.#exports) {
      if (matches) continue;
      for (const { minute, items } of finished)
        for (const summary of items) target.add({ kind: 'summary', minuteMs: minute * MINUTE_MS, summary });
      if (hasLosses) target.add({ kind: 'losses', minuteMs: (current - 1) * MINUTE_MS, losses: lost, others });
    }
    [this.#nextMinute, this.#losses] = [current, now];
  }

  async close(): Promise<void> {
    clearInterval(this.#timer);
    await Promise.all(this.all.map((each) => each.close()));
  }
}

function exportTo(name: 'otlp' | 'ipfix', options: FlowExportsOptions): readonly FilteredExport[] {
  const { settings, log, clock, receivers } = options;
  const receiver = receivers ? receivers[name] : name === 'otlp' ? otlpReceiver(options) : ipfixReceiver(options);
  if (!receiver) return [];
  return [{ target: new FlowExport({ name, receiver, log, now: clock.steadyMs }), matches: exportFilter(settings[name].filter) }];
}

function otlpReceiver({ settings: { otlp }, node }: FlowExportsOptions): FlowReceiver | undefined {
  return otlp.endpoint === '' ? undefined : new OtlpReceiver({ ...otlp, node, version: seineVersion });
}

function ipfixReceiver({ settings: { ipfix }, node, clock }: FlowExportsOptions): FlowReceiver | undefined {
  const { collector, caFile } = ipfix;
  // Collectors behind one address tell nodes apart by it; 0 would mean that it is not known.
  return collector && new IpfixReceiver({ collector, caFile, domain: fnv1aOf(node) || 1, clock });
}
