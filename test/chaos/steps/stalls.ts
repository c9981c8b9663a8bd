import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { type SocketFault, SocketProxy } from '../../reliability/socket-proxy.ts';
import type { ApiWay, Scene } from '../scene.ts';
import { ofStart, type StepKind } from '../step.ts';
import { killed, startAgent } from './life.ts';

const stalledMs = 2_000;

/** Fault between a starting agent and OVS or its database. No packet needs either. */
function socketFault(socket: 'br-int.mgmt' | 'db.sock', fault: SocketFault): StepKind {
  const name = `${socket === 'db.sock' ? 'database' : 'openflow'} socket ${fault}`;
  const act = async ({ lab }: Scene): Promise<void> => {
    const proxy = await SocketProxy.before(join(lab.tried.rundir, socket));
    try {
      await killed(lab, 'agentPid');
      await startAgent(lab);
      await lab.untilReady();
      proxy.turn(fault);
      await sleep(stalledMs);
      proxy.turn('pass');
      await lab.untilReady();
    } finally {
      await proxy.remove();
    }
  };
  return {
    name,
    changes: 'node',
    deadline: 'restarted',
    alone: true,
    harmless: true,
    // A stall of two seconds is tolerated; a peer that sends garbage is disconnected.
    alerts: socket === 'br-int.mgmt' && fault === 'garbage' ? [...ofStart, 'SeineSwitchNotConnected'] : ofStart,
    draw: (scene) => ({ what: '', act: () => act(scene) }),
  };
}

function apiFault(name: string, act: (way: ApiWay) => Promise<void> | void): StepKind {
  return {
    name: `api ${name}`,
    changes: 'node',
    deadline: 'restarted',
    harmless: true,
    draw: ({ way }) => way && { what: '', act: async () => await act(way) },
  };
}

export const stallSteps: readonly StepKind[] = [
  ...(['br-int.mgmt', 'db.sock'] as const).flatMap((socket) =>
    (['stall', 'dribble', 'garbage'] as const).map((fault) => socketFault(socket, fault)),
  ),
  apiFault('stalled', (way) => way.stall(stalledMs)),
  apiFault('cut', (way) => way.cut()),
  apiFault('cut', (way) => way.cut()),
];
