/** Shortest interval between two comparisons in the background. */
interface TraceInterval {
  /** 0: never (ms). */
  readonly value: number;
  /** Reasons why a set value does not count, one sentence each. */
  readonly faults: readonly string[];
}

/** Returns an interval such as `10s`, `2m` or `0` (ms); undefined for another text. Pure. */
export function parseTraceInterval(text: string): number | undefined {
  if (text === '0') return 0;
  const [, digits, unit] = /^([1-9]\d{0,3})([sm])$/.exec(text) ?? [];
  return digits === undefined ? undefined : Number(digits) * (unit === 'm' ? 60_000 : 1_000);
}

/** Returns the interval in force: that of the ConfigMap, if it is valid, else that of the configuration. Pure. */
export function traceInterval(live: string | undefined, configuredMs: number): TraceInterval {
  const parsed = live === undefined ? configuredMs : parseTraceInterval(live);
  if (parsed !== undefined) return { value: parsed, faults: [] };
  const where = 'trace.background in ConfigMap seine-system/seine-live';
  const inForce = configuredMs === 0 ? '0' : `${configuredMs / 1_000}s`;
  return {
    value: configuredMs,
    faults: [`${where} is ${JSON.stringify(live)}, which is neither 0 nor a time such as 10s: ${inForce} is in force`],
  };
}
