import type { RotationAnswer } from '../../api/wireguard.ts';
import type { Answers } from '../fleet/answers.ts';
import type { RelayRequest } from '../fleet/query-agent.ts';
import type { Room } from '../table.ts';
import { badFindings, checkTable, findingsOf, type NodeFindings } from './check-report.ts';
import { type NodeSummary, summaryOf } from './node-summary.ts';
import { policyDeviations, policyTable } from './policy-report.ts';
import { rotationOf, rotationTable } from './rotation-report.ts';
import { problemsOfFleet, statusTable } from './status-report.ts';
import { versionsTable } from './versions-report.ts';

/** Query of a command to each agent, and the presentation of the answers. */
export interface FleetQuestion<T> {
  /** Request with the same answer, for agents with a relay; absent if the answer needs a program on the node. */
  readonly request?: RelayRequest;
  readonly command: (seconds: number) => readonly string[];
  readonly understand: (stdout: string) => T;
  readonly table: (answers: Answers<T>, room: Room, wide: boolean) => string[];
  /** Lines about faults. */
  readonly faults: (answers: Answers<T>, room: Room) => string[];
  /** Printed if there is no fault. */
  readonly fine: string;
  /** Decides about exit code 1: for a fault, or an answer that is not fine. */
  readonly isFine: (answer: T) => boolean;
}

const statusCommand = (): readonly string[] => ['seinectl', 'status', '-o', 'json'];
/** Difference between an agent's time limit and the check's, so that its findings until then still arrive (s). */
const CHECK_MARGIN_SECONDS = 3;

export const status: FleetQuestion<NodeSummary> = {
  request: { path: '/v1/status' },
  command: statusCommand,
  understand: summaryOf,
  table: statusTable,
  faults: problemsOfFleet,
  fine: 'No problems.',
  isFine: ({ ready, problemCount }) => ready && problemCount === 0,
};

export const versions: FleetQuestion<NodeSummary> = {
  ...status,
  table: versionsTable,
  faults: () => [],
  fine: '',
  isFine: () => true,
};

export const policy: FleetQuestion<NodeSummary> = {
  ...status,
  table: policyTable,
  faults: policyDeviations,
  fine: 'Policies are enforced on all of them.',
  isFine: ({ policy: { enforcement, mode, closedPods, suspensions, openedByHand, shortages } }) =>
    enforcement === 'enforced' && mode === 'enforce' && closedPods + suspensions + openedByHand + shortages === 0,
};

export const rotation: FleetQuestion<RotationAnswer> = {
  request: { path: '/v1/wireguard/rotate', method: 'POST' },
  command: () => ['seinectl', 'wireguard', 'rotate', '-o', 'json'],
  understand: rotationOf,
  table: rotationTable,
  faults: () => [],
  fine: 'Each node changes its key at its time, after its peers.',
  isFine: () => true,
};

export const check: FleetQuestion<NodeFindings> = {
  command: (seconds) => ['seinectl', 'check', '--json', '--timeout', `${Math.max(2, seconds - CHECK_MARGIN_SECONDS)}s`],
  understand: findingsOf,
  table: checkTable,
  faults: badFindings,
  fine: 'Nothing is wrong.',
  isFine: ({ counts }) => counts.problem === 0 && counts.unknown === 0,
};
