import type { UpstreamTest } from './upstream-report.mjs';

/** Record of a run of `npm run test:kubernetes -- --only e2e --record`. */
export interface RecordedRun {
  /** Families such as `ipv4,ipv6`: the first is that of Services and pods with one address. */
  readonly families: string;
  readonly date: string;
  readonly command: string;
  /** Programs by name, with their versions. */
  readonly versions: Readonly<Record<string, string>>;
  readonly minutes: number;
  readonly tests: readonly UpstreamTest[];
}

export declare function recordedRuns(folder: string): readonly RecordedRun[];
export declare function recordRun(folder: string, summary: RecordedRun): void;
export declare function recordPart(folder: string, summary: RecordedRun): void;
