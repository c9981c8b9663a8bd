/** Returns a signal that aborts with `signal`, or after the given time (ms). */
export function within(signal: AbortSignal, ms: number): AbortSignal {
  return AbortSignal.any([signal, AbortSignal.timeout(ms)]);
}
