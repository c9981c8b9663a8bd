/** Shortest interval between two comparisons in the background. */
interface TraceInterval {
  /** 0: never (ms). */
  readonly value: number;
  /** Reasons why a set value does not count, one sentence each. */
  readonly faults: readonly string[];
}

/** A period other than 0: a number with `s` or `m`. */
export const tracePeriod = /^[1-9]\d{0,3}[sm]$/;

/** Returns an interval such as `10s`, `2m` or `0` (ms); undefined for another text. Pure. */
export function parseTraceInterval(text: string): number | undefined {
  if (text === '0') return 0;
  return tracePeriod.test(text) ? Number.parseInt(text, 10) * (text.endsWith('m') ? 60_000 : 1_000) : undefined;
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
