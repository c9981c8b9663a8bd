import { setTimeout as sleep } from 'node:timers/promises';
import type { ConvergeLab } from '../support/converge-lab.ts';

const outageMs = 3_000;

/** What a node meets in its life without losing what a process has in memory. */
export const gentle: Readonly<Record<string, (lab: ConvergeLab) => Promise<void>>> = {
  'database compacted': async (lab) => void (await lab.exec(1, 'ovs-appctl', '-t', 'ovsdb-server', 'ovsdb-server/compact')),
  'flows deleted': async (lab) => void (await lab.exec(1, 'ovs-ofctl', '-O', 'OpenFlow15', 'del-flows', 'br-int')),
  'groups deleted': async (lab) => void (await lab.exec(1, 'ovs-ofctl', '-O', 'OpenFlow15', 'del-groups', 'br-int')),
  'packet filter flushed': async (lab) => void (await lab.exec(1, 'nft', 'flush', 'ruleset')),
  'API server away': async (lab) => {
    await lab.apiServer('stop');
    await sleep(outageMs);
    await lab.apiServer('start');
  },
};

/** The agent is killed while calls are under way; see soak.ts. */
export const violent: typeof gentle = {
  'ovs-vswitchd killed': async (lab) => await killed(lab, 'ovs-vswitchd'),
  'ovsdb-server killed': async (lab) => await killed(lab, 'ovsdb-server'),
  'both killed': async (lab) => await killed(lab, 'all'),
};

async function killed(lab: ConvergeLab, which: Parameters<ConvergeLab['killOvs']>[1]): Promise<void> {
  await lab.killOvs(1, which);
  await lab.startOvs(1);
}
