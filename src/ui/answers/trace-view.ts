import type { FamilyTrace, TraceDifference, TraceDrop, TraceHop } from '../../api/trace.ts';

type PathVerdict = 'allowed' | 'denied' | 'unknown';

/** Answer of `seinectl trace`. */
export interface TraceView {
  /** Exit code of the command: 4 if verdicts differ. */
  readonly exitCode: number;
  readonly traces: readonly TracedFamily[];
}

export interface TracedFamily extends Pick<FamilyTrace, 'family' | 'from' | 'to' | 'packet' | 'connection' | 'moreEndpoints'> {
  readonly node: string;
  readonly paths: readonly TracedWay[];
}

/** Path of the packet over all nodes. */
export interface TracedWay {
  readonly verdict: PathVerdict;
  readonly endpoints: readonly string[];
  readonly stages: readonly TracedNode[];
  readonly verdicts: readonly {
    readonly of: 'meaning' | 'desired' | 'bridge';
    readonly verdict: PathVerdict | null;
    readonly why: string;
  }[];
  /** Node whose part is missing, and the reason. */
  readonly missing?: { readonly node: string; readonly reason: string };
}

export interface TracedNode {
  readonly node: string;
  readonly hops: readonly TraceHop[];
  /** Sentences about the result and the policies that decide. */
  readonly result: readonly string[];
  readonly drop?: TraceDrop;
  readonly difference?: TraceDifference;
}
