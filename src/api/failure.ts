/** Failure that may have been resolved since; other members show whether it has. */
export interface Failure {
  readonly message: string;
  /** Seconds since the failure; absent if the time is not known. */
  readonly ageSeconds?: number;
}
