import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { backUp, forgetHistory, restore } from '../support/api-backup.ts';
import { type ConvergeLab, until } from '../support/converge-lab.ts';
import { CrashRuntime } from '../support/crash-runtime.ts';
import { holdingsOf } from '../support/node-holdings.ts';
import { type Fault, type FaultContext, nothingLost, nothingLostOnTheNode } from './fault.ts';

const execute = promisify(execFile);
const services = '/api/v1/namespaces/default/services';
const manyServices = 12;
const withinMs = 60_000;

/** @returns its address */
async function startService({ lab, signal }: FaultContext, name: string): Promise<string> {
  const spec = { selector: { app: 'web' }, ports: [{ port: 80, targetPort: 80, protocol: 'TCP' }] };
  const body = { apiVersion: 'v1', kind: 'Service', metadata: { name }, spec };
  const made = (await lab.api.send({ method: 'POST', path: services, body }, signal)) as { spec: { clusterIP: string } };
  return made.spec.clusterIP;
}

async function untilFlows(lab: ConvergeLab, address: string, are: 'there' | 'gone'): Promise<void> {
  await until(
    async () => (await lab.flows(1)).some(({ text }) => text.includes(`nw_dst=${address},`)) === (are === 'there'),
    withinMs,
    () => `the flows of ${address} are not ${are}`,
  );
}

const reported = (lab: ConvergeLab, text: string): number => lab.log(1).filter(({ msg }) => msg.startsWith(text)).length;
const held = 'a list lacks too many objects';
const released = 'a second list agrees';

/** Objects created after the backup are lost, and versions are reused. */
async function restored(context: FaultContext) {
  const { lab } = context;
  backUp(lab.plan);
  const late = await startService(context, 'late');
  await untilFlows(lab, late, 'there');
  await lab.apiServer('stop');
  restore(lab.plan);
  await lab.apiServer('start');
  await untilFlows(lab, late, 'gone');
  const recreated = await startService(context, 'recreated');
  await untilFlows(lab, recreated, 'there');
  return { notes: ['what came after the backup is gone, what came after the restore is there'] };
}

/** Lists lack all nodes and Services until a quorum read shows them. */
async function emptyLists(context: FaultContext) {
  const { lab } = context;
  const addresses: string[] = [];
  for (let each = 0; each < manyServices; each++) addresses.push(await startService(context, `many-${each}`));
  for (const address of addresses) await untilFlows(lab, address, 'there');
  const [before, agreed] = [reported(lab, held), reported(lab, released)];
  await lab.apiServer('stop');
  forgetHistory(lab.plan);
  await lab.apiServer('start-empty');
  await until(
    () => reported(lab, held) > before,
    withinMs,
    () => 'no list was doubted',
  );
  for (const address of addresses) await untilFlows(lab, address, 'there');
  await lab.apiServer('stop');
  forgetHistory(lab.plan);
  await lab.apiServer('start');
  await lab.untilReady(1);
  if (reported(lab, released) !== agreed) throw new Error('an empty list was believed');
  return { notes: [`held ${reported(lab, held) - before} times; nothing was removed`] };
}

/** Containers of every kind are created, deleted and lost; in the end the node has exactly the live ones. */
async function comesAndGoes({ lab, random, rounds, signal }: FaultContext) {
  const runtime = await CrashRuntime.start(lab, 8, signal);
  try {
    for (let step = 0; step < 40 * rounds; step++) {
      const [id = ''] = [...runtime.live.keys()].toSorted(() => random() - 0.5);
      if (random() < 0.6) await runtime.add();
      else if (random() < 0.7) await runtime.remove(id);
      else await runtime.lose(id);
    }
    await runtime.collectGarbage();
    const live = runtime.live.size;
    await until(
      async () => (await holdingsOf(lab)).leases.filter((lease) => runtime.live.has(lease)).length === live,
      withinMs,
      () => 'the node holds other pods than live',
    );
  } finally {
    await runtime.close();
  }
  if (runtime.faults.length > 0) throw new Error(runtime.faults.join('; '));
  return { notes: [`${runtime.counts.added} ADDs, ${runtime.counts.lost} lost without a DEL`] };
}

/** Interfaces without an owner, and no agent: OVS's own reaction. */
async function foreignInterfaces({ lab, rounds }: FaultContext) {
  const node = lab.node(1);
  await lab.agent(1, 'kill');
  const ip = async (...args: readonly string[]): Promise<void> => void (await execute('ip', ['-netns', node.netns, 'link', ...args]));
  const pairs = 20 * rounds;
  try {
    for (let pair = 0; pair < pairs; pair++) {
      await ip('add', `foreign-${pair}`, 'type', 'veth', 'peer', 'name', `peer-${pair}`);
      await ip('set', `foreign-${pair}`, 'up');
      await ip('delete', `foreign-${pair}`);
    }
  } finally {
    await lab.agent(1, 'start');
  }
  await lab.untilReady(1);
  return { notes: [`${pairs} pairs, while the agent is dead`] };
}

/** Events of the cluster around a node, and of pods other than those under traffic. */
export const clusterFaults: readonly Fault[] = [
  { name: 'api-restored', what: 'API server restored from a backup', limits: nothingLost, act: restored },
  { name: 'api-empty', what: 'API server lists nothing of what there is', limits: nothingLost, act: emptyLists },
  { name: 'pods-churn', what: 'Other pods come, go, and are lost without a DEL', limits: nothingLostOnTheNode, act: comesAndGoes },
  {
    name: 'links-churn',
    what: 'Foreign interfaces come and go on the node, without an agent',
    limits: nothingLostOnTheNode,
    act: foreignInterfaces,
  },
];
