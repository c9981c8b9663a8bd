import type { Random } from './random.ts';
import type { Scene } from './scene.ts';

/**
 * Deadline for the correct state: of changes announced to the agent, of those that its sweep finds, of a daemon's death, and of those that
 * the check of its own files finds; the times are the table's in docs/reliability.md.
 */
export type Deadline = 'announced' | 'swept' | 'restarted' | 'looked';

/** A target in the agent's status that counts detected faults. */
export type Part = 'bridge' | 'firewall' | 'host' | 'links' | 'settings' | 'switch' | 'wireguard';

/**
 * Alerts that every start of an agent makes true, without their `for`: it is absent, it is not ready, and it has no news of the API server.
 */
export const ofStart: readonly string[] = ['SeineAgentDown', 'SeineAgentNotReady', 'SeineApiNotConfirmed'];

/** Result of `act` without a target for the fault. */
export const nothingThere = 'there is none';

/** A drawn step. */
export interface Deed {
  /** Description for the output; names its target. */
  readonly what: string;
  readonly act: () => Promise<unknown>;
  /** Waits for reactions of other processes than the agent, once an agent runs. */
  readonly settled?: () => Promise<unknown>;
}

/** A kind of step: an entry of the driver's list. */
export interface StepKind {
  readonly name: string;
  /** `objects` if it changes the desired state (objects, pods), `node` if it injects a fault into the actual one. */
  readonly changes: 'objects' | 'node';
  readonly deadline: Deadline;
  /** Set if it requires a running agent, and is not executed while one starts; otherwise any state. */
  readonly agent?: 'alive';
  /** Alerts, without their `for`, that become true meanwhile: `SeineDrift` for a target, if absent. */
  readonly alerts?: readonly string[];
  /** Target that must count it, if it affects what an agent manages. */
  readonly part?: Part;
  /**
   * True if OVS forgets its connections, or forwards packets untranslated: those to a Service may get another endpoint, or wrong answers,
   * and end (docs/reliability.md).
   */
  readonly forgets?: true;
  /** True if the kernel translates packets to pods of other nodes meanwhile: connections with these may end. */
  readonly translates?: true;
  /** True if packets do not depend on it. */
  readonly harmless?: true;
  /** True if it keeps a daemon busy, and runs alone. */
  readonly alone?: true;
  /** Undefined if it is not possible now. */
  readonly draw: (scene: Scene, random: Random) => Deed | undefined;
}
