import { abortable } from '../../base/async/abortable.ts';
import { within } from '../../base/async/time-limit.ts';
import { readAllowedCounts, readDeniedCounts } from '../../policy/denied-log/denied-counts.ts';
import { readDrops } from '../trace/drop-counters.ts';
import type { Sample } from './metrics/exporter.ts';
import type { PolicyPacketsSamples } from './metrics/scrape.ts';
import { type PolicyCountersPort, readRuleCounters } from './policy-counters.ts';

/** Minimum interval of reads from OVS (ms), with any number of scrapers. */
const EVERY_MS = 15_000;
/** Maximum time that a scrape waits (ms); then it uses earlier data. */
const SCRAPE_PATIENCE_MS = 1_000;
const READ_TIMEOUT_MS = 10_000;
/** Maximum number of rules: each is a time series of every node. */
const RULES_MAX = 1_000;
/** Maximum number of names: a verdict may be that of a thousand policies. */
const NAMES_MAX = 3;

export interface PolicyPacketsPort extends PolicyCountersPort {
  readonly config: { readonly policy: { readonly ruleMetrics: boolean } };
  readonly openflow: PolicyCountersPort['openflow'] & Parameters<typeof readDeniedCounts>[0];
}

const nothing: PolicyPacketsSamples = { verdicts: [], rules: [], rulesLeftOut: 0, drops: [] };

/** Verdicts of policies and drops, in packets, for metrics: read from OVS only while scrapes occur. */
export class PolicyPackets {
  readonly #port: PolicyPacketsPort;
  readonly #signal: AbortSignal;
  readonly #now: () => number;
  readonly #verdicts = new GrowingSums();
  readonly #rules = new GrowingSums();
  readonly #drops = new GrowingSums();
  /** Rules that have a series: they keep it while they exist; otherwise counts would break off. */
  #listed: ReadonlySet<string> = new Set();
  #last: PolicyPacketsSamples = nothing;
  #readAtMs = Number.NEGATIVE_INFINITY;
  #isReading = false;
  #reading = Promise.resolve();

  /** @param signal the agent's @param now in ms, of a monotonic clock */
  constructor(port: PolicyPacketsPort, signal: AbortSignal, now: () => number = () => performance.now()) {
    this.#port = port;
    this.#signal = signal;
    this.#now = now;
  }

  /** Never rejects: values that OVS does not report have no samples. */
  async read(signal: AbortSignal): Promise<PolicyPacketsSamples> {
    if (!this.#isReading && this.#now() - this.#readAtMs >= EVERY_MS) {
      this.#readAtMs = this.#now();
      this.#isReading = true;
      this.#reading = this.#readAll();
    }
    // Too late: the result is used at the next scrape.
    await abortable(this.#reading, within(signal, SCRAPE_PATIENCE_MS)).catch(() => undefined);
    return this.#last;
  }

  async #readAll(): Promise<void> {
    try {
      const signal = within(this.#signal, READ_TIMEOUT_MS);
      const verdicts = await this.#readVerdicts(signal);
      const drops = [...(await readDrops(this.#port.openflow, { services: false }, signal))];
      const samples = drops.map(([reason, packets]): Sample => [{ reason }, this.#drops.next(reason, packets)]);
      this.#last = {
        verdicts,
        drops: samples,
        ...(this.#port.config.policy.ruleMetrics ? await this.#readRules(signal) : { rules: [], rulesLeftOut: 0 }),
      };
    } catch {
      this.#last = nothing; // other metrics report that OVS is not connected, or that the node is not known yet
    } finally {
      this.#isReading = false;
    }
  }

  async #readVerdicts(signal: AbortSignal): Promise<PolicyPacketsSamples['verdicts']> {
    const { openflow } = this.#port;
    const [allow, deny] = [await readAllowedCounts(openflow, signal), await readDeniedCounts(openflow, signal)];
    const read = (['ingress', 'egress'] as const).flatMap((direction) => [
      { labels: { direction, verdict: 'allow' }, packets: allow[direction] },
      { labels: { direction, verdict: 'deny' }, packets: deny[direction] },
    ]);
    return read.map(({ labels, packets }) => [labels, this.#verdicts.next(`${labels.direction} ${labels.verdict}`, packets)]);
  }

  async #readRules(signal: AbortSignal): Promise<Pick<PolicyPacketsSamples, 'rules' | 'rulesLeftOut'>> {
    const sums = new Map<string, { readonly labels: Readonly<Record<string, string>>; packets: bigint }>();
    for (const { direction, verdict, by, packets } of await readRuleCounters(this.#port, signal)) {
      const labels = { direction, verdict, by: namesText(by) };
      const key = JSON.stringify(labels);
      const sum = sums.get(key) ?? { labels, packets: 0n };
      sum.packets += BigInt(packets);
      sums.set(key, sum);
    }
    const busiest = [...sums].sort(([a, { packets }], [b, other]) => {
      const isListed = Number(this.#listed.has(b)) - Number(this.#listed.has(a));
      return isListed || Number(other.packets - packets) || (a < b ? -1 : 1);
    });
    const shown = busiest.slice(0, RULES_MAX);
    this.#listed = new Set(shown.map(([key]) => key));
    this.#rules.forgetBut(this.#listed);
    return {
      rules: shown.map(([key, { labels, packets }]) => [labels, this.#rules.next(key, packets)]),
      rulesLeftOut: busiest.length - shown.length,
    };
  }
}

function namesText(names: readonly string[]): string {
  const more = names.length - NAMES_MAX;
  return more > 0 ? `${names.slice(0, NAMES_MAX).join(', ')} and ${more} more` : names.join(', ');
}

/**
 * Rows of the bridge are created and deleted, and their counters with them: the sum never decreases, because a rate would take a decrease
 * for a restart.
 */
class GrowingSums {
  readonly #sums = new Map<string, { seen: bigint; total: bigint }>();

  /** @param seen current value in OVS */
  next(key: string, seen: bigint): number {
    const sum = this.#sums.get(key) ?? { seen: 0n, total: 0n };
    if (seen > sum.seen) sum.total += seen - sum.seen;
    sum.seen = seen;
    this.#sums.set(key, sum);
    return Number(sum.total);
  }

  forgetBut(keys: ReadonlySet<string>): void {
    for (const key of this.#sums.keys()) if (!keys.has(key)) this.#sums.delete(key);
  }
}
