/** Shortest interval between two comparisons in the background. */
interface TraceInterval {
  /** 0: never (ms). */
  readonly everyMs: number;
  /** Reasons why a set value does not count, one sentence each. */
  readonly faults: readonly string[];
}

/**
 * Returns the interval in force: that of the ConfigMap, if it is valid, else that of the configuration. Pure.
 *
 * @param live value of `trace.background` in the ConfigMap: `0`, or a number with `s` or `m`
 */
export function traceInterval(live: string | undefined, configuredMs: number): TraceInterval {
  if (live === undefined) return { everyMs: configuredMs, faults: [] };
  if (live === '0') return { everyMs: 0, faults: [] };
  const [, digits, unit] = /^([1-9]\d{0,3})([sm])$/.exec(live) ?? [];
  if (digits !== undefined) return { everyMs: Number(digits) * (unit === 'm' ? 60_000 : 1_000), faults: [] };
  const where = 'trace.background in ConfigMap seine-system/seine-live';
  const inForce = configuredMs === 0 ? '0' : `${configuredMs / 1_000}s`;
  return {
    everyMs: configuredMs,
    faults: [`${where} is ${JSON.stringify(live)}, which is neither 0 nor a time such as 10s: ${inForce} is in force`],
  };
}
