/** Reason why a question has no answer. */
export interface UiFailure {
  /** `forbidden`: the user lacks a right. `invalid`: the question. `unavailable`: API server or agents do not answer. `absent`: a support bundle does not have it. */
  readonly kind: 'forbidden' | 'invalid' | 'unavailable' | 'absent';
  readonly message: string;
}

/** Answer with its age. */
export interface Aged<T> {
  readonly answer: T;
  /** Time of the answer (ms since 1970). */
  readonly atMs: number;
  /** Reason why there is no newer answer: this one is old. */
  readonly stale?: string;
}
