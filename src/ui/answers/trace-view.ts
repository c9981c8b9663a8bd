import type { FamilyTrace, TraceDifference, TraceDrop, TraceHop } from '../../api/trace.ts';

type PathVerdict = 'allowed' | 'denied' | 'unknown';

/** Answer of `seinectl trace`. */
export interface TraceView {
  /** Exit code of the command: 4 if verdicts differ. */
  readonly exitCode: number;
  readonly traces: readonly TracedFamily[];
}

export interface TracedFamily extends Pick<FamilyTrace, 'family' | 'from' | 'to' | 'packet' | 'way' | 'connection' | 'moreEndpoints'> {
  readonly node: string;
  /** Sentence about the node that a packet from outside enters, where it matters. */
  readonly entry?: string;
  readonly paths: readonly TracedWay[];
  /** Result of a probe, if one was sent. */
  readonly probe?: TracedProbe;
  /** Time in the past that was asked for, and nodes with the time of the record that was used (RFC 3339). */
  readonly at?: { readonly asked: string; readonly records: readonly { readonly node: string; readonly recorded: string }[] };
}

export interface TracedProbe {
  /** `lost`: it did not end at a place that the agents know. */
  readonly verdict: PathVerdict | 'lost';
  /** Ends on each node, and the reason of a loss. */
  readonly text: string;
  readonly notes: readonly string[];
}

/** Path of the packet over all nodes. */
export interface TracedWay {
  readonly verdict: PathVerdict;
  readonly endpoints: readonly string[];
  readonly stages: readonly TracedNode[];
  readonly verdicts: readonly {
    readonly of: 'meaning' | 'desired' | 'bridge' | 'packet';
    readonly verdict: PathVerdict | 'lost' | null;
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
