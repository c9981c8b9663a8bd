import type { LessonCheck } from '../answers/simulator.ts';

/** Exercise with a small cluster. */
export interface Lesson {
  readonly id: string;
  readonly title: string;
  /** Paragraphs; commands and names are between backticks. */
  readonly text: readonly string[];
  readonly task: string;
  /** Objects of the cluster, as YAML. */
  readonly objects: string;
  /** Text of the answer to begin with. */
  readonly start: string;
  /** An answer that passes. */
  readonly solution: string;
  readonly checks: readonly LessonCheck[];
}
