import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { nodePaths } from '../../lab/plan/names.ts';
import { until } from '../support/converge-lab.ts';
import { type Fault, type FaultContext, nothingLost } from './fault.ts';
import { type SocketFault, SocketProxy } from './socket-proxy.ts';

const faultMs = 5_000;

/** A faulty proxy between the agent and OVS, or its database; then none. */
async function between({ lab }: FaultContext, socket: 'br-int.mgmt' | 'db.sock', fault: SocketFault) {
  const before = JSON.stringify((await lab.flows(1)).map(({ text }) => text));
  const proxy = await SocketProxy.before(join(nodePaths(lab.plan.dir, lab.node(1).name).dir, socket));
  let readyMs: number;
  try {
    await lab.agent(1, 'kill');
    await lab.agent(1, 'start');
    await lab.untilReady(1);
    proxy.turn(fault);
    await sleep(faultMs);
    const startedMs = performance.now();
    proxy.turn('pass');
    await lab.untilReady(1);
    await until(
      async () => JSON.stringify((await lab.flows(1)).map(({ text }) => text)) === before,
      10_000,
      () => 'the flows are not as before',
    );
    readyMs = Math.round(performance.now() - startedMs);
  } finally {
    await proxy.remove();
  }
  await lab.untilReady(1);
  return { notes: [`for ${faultMs / 1_000} s; ready ${readyMs} ms after it ended`] };
}

const sockets = { 'br-int.mgmt': 'OpenFlow', 'db.sock': 'OVSDB' } as const;
const says = {
  stall: 'connections are accepted and no data is sent on them',
  dribble: 'answers come byte by byte',
  garbage: 'answers are mixed with garbage',
} as const;

export const socketFaults: readonly Fault[] = (['br-int.mgmt', 'db.sock'] as const).flatMap((socket) =>
  (['stall', 'dribble', 'garbage'] as const).map(
    (fault): Fault => ({
      name: `${sockets[socket].toLowerCase()}-${fault}`,
      what: `${sockets[socket]} socket: ${says[fault]}`,
      limits: nothingLost,
      act: (context) => between(context, socket, fault),
    }),
  ),
);
