import { setTimeout as sleep } from 'node:timers/promises';
import type { ConvergeLab } from '../support/converge-lab.ts';

const outageMs = 3_000;

type Faults = Readonly<Record<string, (lab: ConvergeLab) => Promise<void>>>;

/** Faults in the life of a node during calls; no call may fail because of them. */
export const gentle: Faults = {
  'database compacted': async (lab) => void (await lab.exec(1, 'ovs-appctl', '-t', 'ovsdb-server', 'ovsdb-server/compact')),
  'API server away': async (lab) => {
    await lab.apiServer('stop');
    await sleep(outageMs);
    await lab.apiServer('start');
  },
};

/** Foreign deletions between calls: a CHECK would rightly fail before the repair. */
export const foreign: Faults = {
  'flows deleted': async (lab) => void (await lab.exec(1, 'ovs-ofctl', '-O', 'OpenFlow15', 'del-flows', 'br-int')),
  'groups deleted': async (lab) => void (await lab.exec(1, 'ovs-ofctl', '-O', 'OpenFlow15', 'del-groups', 'br-int')),
  'packet filter gone': async (lab) => {
    const tables = (await lab.exec(1, 'nft', 'list', 'tables')).split('\n').filter((line) => / seine(?!-lab)\S*$/.test(line));
    for (const line of tables) await lab.exec(1, 'nft', ...`delete ${line}`.split(' '));
  },
};

/** Faults that kill the agent during calls; see soak.ts. */
export const violent: Faults = {
  'ovs-vswitchd killed': async (lab) => await killed(lab, 'ovs-vswitchd'),
  'ovsdb-server killed': async (lab) => await killed(lab, 'ovsdb-server'),
  'both killed': async (lab) => await killed(lab, 'all'),
};

async function killed(lab: ConvergeLab, which: Parameters<ConvergeLab['killOvs']>[1]): Promise<void> {
  await lab.killOvs(1, which);
  await lab.startOvs(1);
}
