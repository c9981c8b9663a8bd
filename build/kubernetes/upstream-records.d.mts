import type { UpstreamTest } from './upstream-report.mjs';

/** What `npm run test:kubernetes -- --only e2e --record` keeps of a run. */
export interface RecordedRun {
  /** Such as `ipv4,ipv6`: the first is that of Services and pods with one address. */
  readonly families: string;
  readonly date: string;
  readonly command: string;
  /** What ran, by its name, with its version. */
  readonly versions: Readonly<Record<string, string>>;
  readonly minutes: number;
  readonly tests: readonly UpstreamTest[];
}

export declare function recordedRuns(folder: string): readonly RecordedRun[];
export declare function recordRun(folder: string, summary: RecordedRun): void;
export declare function recordPart(folder: string, summary: RecordedRun): void;
