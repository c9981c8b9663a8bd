/** Result of one test of the conformance suite of ClusterNetworkPolicy. */
export interface SuiteResult {
  readonly name: string;
  readonly state: 'passed' | 'failed' | 'skipped';
  readonly seconds: number;
  /** Attempts by SCTP that were left out. */
  readonly leftOut: number;
}
export declare function suiteResults(text: string): readonly SuiteResult[];
