export interface CaptureOptions {
  /** File that must not exist, or `-` for standard output; lines if left out. */
  readonly write?: string;
  /** Interface of a pod that has several, by its name in the pod. */
  readonly interface?: string;
  /** Seconds. */
  readonly for: number;
  readonly count: number;
  /** Maximum total length of the captured frames (bytes). */
  readonly bytes: number;
}
