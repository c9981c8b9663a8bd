import type { ReachMatrix } from './policy-matrix.ts';
import type { TraceView } from './trace-view.ts';

/** Manifests with their name, for messages. A `Blob` is a file that the user opened. */
export interface SimulatorFile {
  readonly name: string;
  readonly content: string | Blob;
}

/** Packet of a trace, as `seinectl trace` names it. */
export interface PacketQuestion {
  readonly from: string;
  readonly to: string;
  readonly port?: string;
  readonly family?: 'ipv4' | 'ipv6';
  readonly established?: 'true';
}

/** Connection that a lesson requires to be allowed or denied. */
export interface LessonCheck extends PacketQuestion {
  /** The requirement in words. */
  readonly text: string;
  readonly expect: 'allowed' | 'denied';
}

/** Objects of a simulated cluster. */
export interface SimulatedSummary {
  readonly nodes: number;
  readonly pods: number;
  readonly services: number;
  readonly policies: number;
  readonly namespaces: readonly string[];
  /** Names for the forms, at most `NAMES_MAX` of each kind. */
  readonly podNames: readonly string[];
  readonly serviceNames: readonly string[];
  /** Kinds that no packet depends on, with their number: `3 ConfigMap`. */
  readonly ignored: readonly string[];
  /** Time to read and load them (ms). */
  readonly milliseconds: number;
}

/** Effect of a proposal. */
export interface WhatIfView {
  readonly changed: readonly string[];
  readonly rows: readonly WhatIfRow[];
  /** Rows that are left out. */
  readonly more: number;
  readonly conflicts: readonly string[];
  readonly notConsidered: readonly string[];
  readonly confirmed: number;
  readonly contradicted: number;
}

export interface WhatIfRow {
  readonly effect: 'breaks' | 'opens' | 'moves';
  readonly from: string;
  readonly to: string;
  readonly ports: string;
  readonly before: string;
  readonly after: string;
  /** Use of these connections today, as far as agents know it. */
  readonly used?: string;
}

/** Results of test cases. */
export interface TestView {
  readonly cases: readonly { readonly text: string; readonly passed: boolean; readonly lines: readonly string[] }[];
  /** Share of rules that a case uses (percent). */
  readonly coverage: number;
  readonly rules: number;
}

/** Result of the checks of a lesson. */
export interface LessonResult {
  readonly passed: boolean;
  readonly checks: readonly {
    readonly text: string;
    readonly passed: boolean;
    /** Verdicts of the compiled flows and of the objects, as found. */
    readonly found: string;
    readonly question: PacketQuestion;
  }[];
}

/** Answers of the simulator by question. */
export interface SimulatorAnswers {
  readonly load: SimulatedSummary;
  readonly trace: TraceView;
  readonly matrix: ReachMatrix;
  readonly whatIf: WhatIfView;
  readonly test: TestView;
  readonly check: LessonResult;
}

/** Questions of the page to the worker. */
export interface SimulatorQuestions {
  readonly load: { readonly files: readonly SimulatorFile[] };
  readonly trace: PacketQuestion;
  readonly matrix: { readonly namespace: string };
  /** @see `seinectl whatif`: documents of a proposal, and objects to delete */
  readonly whatIf: { readonly text: string; readonly removed: readonly string[] };
  readonly test: { readonly text: string };
  /** Checks of a lesson, about the loaded objects: its own and the answer. */
  readonly check: { readonly checks: readonly LessonCheck[] };
}

export type SimulatorTopic = keyof SimulatorQuestions;

/** Message to the worker. */
export interface SimulatorMessage<T extends SimulatorTopic = SimulatorTopic> {
  readonly id: number;
  readonly topic: T;
  readonly question: SimulatorQuestions[T];
}

/** Message from the worker: the answer, or the reason why there is none. `defect`: a bug of the simulator. */
export type SimulatorReply<T extends SimulatorTopic = SimulatorTopic> = { readonly id: number } & (
  | { readonly answer: SimulatorAnswers[T] }
  | { readonly failure: string; readonly kind: 'invalid' | 'defect' }
);
