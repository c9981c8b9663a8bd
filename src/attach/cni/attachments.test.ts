import { afterEach, beforeEach, expect, it } from 'vitest';
import { CniBench } from '../../../test/support/cni-bench.ts';
import { parseCniRequest } from '../../cni/request.ts';
import { silentLog } from '../../log/log.ts';
import { AttachmentAddresses } from './addresses.ts';
import { Attachments } from './attachments.ts';
import { RecordedDeletions } from './deletions.ts';
import { StageTimes } from './stages.ts';

const never = new AbortController().signal;
let bench: CniBench;
beforeEach(async () => {
  bench = await new CniBench().start();
});
afterEach(() => bench.remove());

function callerOf(command: 'ADD' | 'DEL') {
  const env = { CNI_COMMAND: command, CNI_CONTAINERID: 'a', CNI_NETNS: '/run/netns/a', CNI_IFNAME: 'eth0', CNI_PATH: '/opt/cni/bin' };
  const conf = bench.aim(JSON.stringify({ cniVersion: '1.1.0', name: 'seine' }));
  return { request: parseCniRequest(env, conf), wire: { env, conf, deadlineMs: 1_000, attempt: 1 }, stages: new StageTimes() };
}

function addCaller() {
  const { request, ...context } = callerOf('ADD');
  if (request.command !== 'ADD') throw new Error('no ADD');
  return { request, ...context };
}

it('taking back an ADD spares what was attached after it', async () => {
  const { ipam, network, delegatedIpam, stateDir } = bench;
  const deletions = new RecordedDeletions(stateDir, silentLog);
  const attachments = new Attachments({
    hostPortHolder: () => undefined,
    ipam,
    network,
    deletions,
    log: silentLog,
    addresses: new AttachmentAddresses(ipam, delegatedIpam),
  });
  const first = await attachments.add(addCaller(), never);
  const { request, ...context } = callerOf('DEL');
  if (request.command !== 'DEL') throw new Error('no DEL');
  await attachments.remove({ request, ...context }, never);
  const second = await attachments.add(addCaller(), never);
  await attachments.takeBack(first, { request, ...context }, never);
  expect([...network.wired.values()].map(({ addresses }) => addresses)).toEqual([second.addresses]);
  await attachments.takeBack(second, { request, ...context }, never);
  expect(network.wired.size).toBe(0);
});
