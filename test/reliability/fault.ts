import type { ConvergeLab } from '../support/converge-lab.ts';
import type { Traffic } from './traffic.ts';

/** What a fault has at hand. Node 1 is the one that suffers. */
export interface FaultContext {
  readonly lab: ConvergeLab;
  readonly traffic: Traffic;
  /** A number from 0 up to 1, from the seed that was printed. */
  readonly random: () => number;
  /** How often to repeat what is worth repeating. */
  readonly rounds: number;
  readonly say: (line: string) => void;
  readonly signal: AbortSignal;
}

export interface FaultOutcome {
  /** The moment (ms) from which the node could work again: what is measured from there is Seine's. The end of `act` if left out. */
  readonly healedMs?: number;
  /** Datagrams and messages of flows that were there before, sent while something was gone and never answered. */
  readonly cachedLost?: number;
  /** What else was seen, for the table. */
  readonly notes?: readonly string[];
}

/** What a fault may cost, at most. What is left out is only measured. */
export interface FaultLimits {
  /** Datagrams that are lost, on all lanes together. */
  readonly udpLost?: number;
  /** Those of them between pods of one node. */
  readonly udpLostOnTheNode?: number;
  /** New connections that are not made within 5 s. */
  readonly connectsFailed?: number;
  /** Connections that end. */
  readonly broken?: number;
  /** Datagrams and messages of flows that were there before, while something was gone. */
  readonly cachedLost?: number;
  /** From the moment it could work again to the first answer on any lane, and on all lanes (ms). */
  readonly firstBackMs?: number;
  readonly allBackMs?: number;
}

export const nothingLost: FaultLimits = { udpLost: 0, connectsFailed: 0, broken: 0 };

/**
 * Where interfaces come and go. With every change of a link `ovs-vswitchd` forgets its routes and reads them again; what the
 * userspace data path looks at in between has no way to other nodes, nor a tunnel to come from (docs/records/faults.md).
 */
export const nothingLostOnTheNode: FaultLimits = { udpLostOnTheNode: 0, connectsFailed: 0, broken: 0 };

/** Something that happens to a node under traffic. */
export interface Fault {
  readonly name: string;
  readonly what: string;
  readonly limits: FaultLimits;
  /** Instead of `limits` on the kernel's data path, which is looked at in an emulated machine: times say nothing there. Nothing if left out. */
  readonly kernelLimits?: FaultLimits;
  /** Whether it is short enough, and tells enough, to be run by `npm test`. */
  readonly everyTime?: true;
  /** Does it, and what is needed to heal what Seine does not heal. @throws whatever shows that Seine did not hold */
  readonly act: (context: FaultContext) => Promise<FaultOutcome>;
}
