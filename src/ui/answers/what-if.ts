import type { WhatIfView } from './simulator.ts';

/** Answer of `seinectl whatif` about a cluster. */
export interface ClusterWhatIf extends WhatIfView {
  /** Pairs of a namespace's workloads whose connections change, by their names in the matrix. */
  readonly marks: readonly WhatIfMark[];
  /** Marks that are left out. */
  readonly moreMarks: number;
  /** Sentences about objects that could not be read: the effect may be incomplete. */
  readonly missing: readonly string[];
  /** Sentences about objects that the API server did not try. */
  readonly remarks: readonly string[];
  /** Sentences about the source of the numbers of use, and what it lacks. */
  readonly evidence: readonly string[];
}

export interface WhatIfMark {
  readonly from: string;
  readonly to: string;
  /** `both`: some ports open, and others close. */
  readonly effect: 'breaks' | 'opens' | 'both';
}
