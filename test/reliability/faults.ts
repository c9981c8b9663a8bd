import type { Fault } from './fault.ts';
import { agentFaults } from './faults-agent.ts';
import { clusterFaults } from './faults-cluster.ts';
import { driftFaults } from './faults-drift.ts';
import { socketFaults } from './faults-socket.ts';
import { switchFaults } from './faults-switch.ts';

/** Faults in the order of the table in docs/records/faults.md. */
export const faults: readonly Fault[] = [...agentFaults, ...clusterFaults, ...switchFaults, ...socketFaults, ...driftFaults];
