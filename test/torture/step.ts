import type { Random } from './random.ts';
import type { Scene } from './scene.ts';

/**
 * Until when the node must be as it ought to be: of what is announced to the agent, of what its sweep finds, and of a daemon's
 * death; the times are the table's in docs/reliability.md.
 */
export type Deadline = 'announced' | 'swept' | 'restarted';

/** What one step does, drawn and not yet done. */
export interface Deed {
  /** For people; names what it changes. */
  readonly what: string;
  readonly act: () => Promise<unknown>;
  /** Waits for what others than the agent do about it, once an agent lives. */
  readonly settled?: () => Promise<unknown>;
}

/** A kind of step: an entry of the driver's list. */
export interface StepKind {
  readonly name: string;
  /** Whether it changes what ought to be (objects, pods), or harms what is. */
  readonly changes: 'objects' | 'node';
  readonly deadline: Deadline;
  /** It needs an agent that lives, and is not done beside one that starts; otherwise any. */
  readonly agent?: 'alive';
  /** It keeps a daemon busy by itself, and is done alone. */
  readonly alone?: true;
  /** Undefined where it cannot be done now. */
  readonly draw: (scene: Scene, random: Random) => Deed | undefined;
}
