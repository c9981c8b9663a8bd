import type { Random } from './random.ts';
import type { Scene } from './scene.ts';

/**
 * Until when the node must be as it ought to be: of what is announced to the agent, of what its sweep finds, of a daemon's
 * death, and of what its look at its own files finds; the times are the table's in docs/reliability.md.
 */
export type Deadline = 'announced' | 'swept' | 'restarted' | 'looked';

/** A part of the agent's status that counts what it found harmed. */
export type Part = 'bridge' | 'firewall' | 'host' | 'links' | 'settings' | 'switch';

/** Alerts that every start of an agent makes true, without their `for`: there is none, it is not ready, and it has not heard of the API server. */
export const ofStart: readonly string[] = ['SeineAgentDown', 'SeineAgentNotReady', 'SeineApiNotConfirmed'];

/** What `act` comes to where there was nothing to harm. */
export const nothingThere = 'there is none';

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
  /** Which alerts, without their `for`, become true meanwhile: `SeineDrift` for a part, if left out. */
  readonly alerts?: readonly string[];
  /** Who has to count it, if it harms what an agent looks after. */
  readonly part?: Part;
  /**
   * The switch forgets its connections, or passes packets on untranslated: those to a Service may be given another endpoint, or answers
   * that are not theirs, and end (docs/reliability.md).
   */
  readonly forgets?: true;
  /** No packet needs what it harms. */
  readonly harmless?: true;
  /** It keeps a daemon busy by itself, and is done alone. */
  readonly alone?: true;
  /** Undefined where it cannot be done now. */
  readonly draw: (scene: Scene, random: Random) => Deed | undefined;
}
