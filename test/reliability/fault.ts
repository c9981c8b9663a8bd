import type { ConvergeLab } from '../support/converge-lab.ts';
import type { Traffic } from './traffic.ts';

/** Context of a fault. Node 1 is affected. */
export interface FaultContext {
  readonly lab: ConvergeLab;
  readonly traffic: Traffic;
  /** Returns a number from 0 up to 1, from the printed seed. */
  readonly random: () => number;
  /** Number of repetitions of repeatable steps. */
  readonly rounds: number;
  readonly print: (line: string) => void;
  readonly signal: AbortSignal;
}

export interface FaultOutcome {
  /** Time (ms) from which the node could work again: later delays are Seine's. The end of `act` if absent. */
  readonly healedMs?: number;
  /** Datagrams and messages of earlier flows, sent while something was stopped and never answered. */
  readonly cachedLost?: number;
  /** Further observations, for the table. */
  readonly notes?: readonly string[];
}

/** Maximum cost of a fault. Absent values are only measured. */
export interface FaultLimits {
  /** Lost datagrams, on all streams together. */
  readonly udpLost?: number;
  /** Those of them between pods of one node. */
  readonly udpLostOnTheNode?: number;
  /** New connections that are not established within 5 s. */
  readonly connectsFailed?: number;
  /** Connections that end. */
  readonly broken?: number;
  /** Datagrams and messages of earlier flows, while something was stopped. */
  readonly cachedLost?: number;
  /** Time from the moment it could work again to the first answer on any stream, and on all streams (ms). */
  readonly firstBackMs?: number;
  readonly allBackMs?: number;
}

export const nothingLost: FaultLimits = { udpLost: 0, connectsFailed: 0, broken: 0 };

/**
 * Limits while interfaces are created and deleted. With every change of a link `ovs-vswitchd` drops its routes and reads them again;
 * packets that the userspace data path processes in between have no route to other nodes, nor a tunnel to arrive from
 * (docs/records/faults.md).
 */
export const nothingLostOnTheNode: FaultLimits = { udpLostOnTheNode: 0, connectsFailed: 0, broken: 0 };

/** A fault of a node under traffic. */
export interface Fault {
  readonly name: string;
  readonly what: string;
  readonly limits: FaultLimits;
  /** Replaces `limits` on the kernel's data path, which is tested in an emulated host, where times mean nothing. No limits if absent. */
  readonly kernelLimits?: FaultLimits;
  /** True if it is short and important enough for `npm test`. */
  readonly everyTime?: true;
  /** Injects it, and repairs what Seine does not repair. @throws any error if Seine's state is wrong */
  readonly act: (context: FaultContext) => Promise<FaultOutcome>;
}
