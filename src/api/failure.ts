/** Something that went wrong and may have come right since; what is shown beside it says whether it has. */
export interface Failure {
  readonly message: string;
  /** Seconds since; absent if the time is not known. */
  readonly ageSeconds?: number;
}
