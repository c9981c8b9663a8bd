/** Aborts with `signal`, or after so many milliseconds if that is sooner. */
export function within(signal: AbortSignal, ms: number): AbortSignal {
  return AbortSignal.any([signal, AbortSignal.timeout(ms)]);
}
