import { afterEach, beforeEach, expect, it } from 'vitest';
import { CniBench, poolOf } from '../../../test/support/cni-bench.ts';
import { silentLog } from '../../base/log/log.ts';
import { cniCodes } from '../../cni/errors.ts';
import { parseCniRequest } from '../../cni/request.ts';
import { openHostPort } from '../../dataplane/compile/host-port.ts';
import { Ipam } from '../ipam/ipam.ts';
import { MemoryJournalStore } from '../ipam/testing/memory-journal-store.ts';
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

function attachmentsWith(ipam: Ipam): Attachments {
  const { network, delegatedIpam, stateDir } = bench;
  const deletions = new RecordedDeletions(stateDir, silentLog);
  const addresses = new AttachmentAddresses(ipam, delegatedIpam);
  return new Attachments({ hostPortCheck: () => openHostPort, ipam, network, deletions, log: silentLog, addresses });
}

/** Journal store whose syncs wait for `end`, after the first file was written. */
async function slowDisk(): Promise<{ readonly ipam: Ipam; readonly end: (outcome: 'synced' | Error) => void }> {
  const store = new MemoryJournalStore();
  const pools = ['10.1.0.0/24'].map(poolOf);
  const ipam = await Ipam.open({ store, pools, bootId: 'b', isAbsent: async () => false, log: silentLog });
  let end: (outcome: 'synced' | Error) => void = () => undefined;
  const word = new Promise<void>((resolve, reject) => (end = (outcome) => (outcome === 'synced' ? resolve() : reject(outcome))));
  store.sync = () => word;
  return { ipam, end };
}

it('attaches while the lease is being written to disk, and answers once it is there', async () => {
  const { ipam, end } = await slowDisk();
  const adding = attachmentsWith(ipam).add(addCaller(), never);
  await expect.poll(() => bench.network.wired.size).toBe(1);
  expect(ipam.leases()).toMatchObject([{ state: 'allocated' }]);
  expect(ipam.leases()[0]?.attached).toBeUndefined();
  end('synced');
  expect((await adding).attached.hostIfName).toBe('veth1');
  expect(ipam.leases()[0]?.attached).toBeDefined();
});

it.each([['before'], ['after']])('undoes everything if the disk rejects the lease %s the interface exists', async (when) => {
  const { ipam, end } = await slowDisk();
  let open = (): void => {};
  if (when === 'before') bench.network.gate = new Promise((resolve) => (open = resolve));
  const adding = attachmentsWith(ipam).add(addCaller(), never);
  const failed = expect(adding).rejects.toMatchObject({ code: cniCodes.addressUnavailable });
  if (when === 'after') await expect.poll(() => bench.network.wired.size).toBe(1);
  await expect.poll(() => ipam.leases().length).toBe(1);
  end(new Error('EIO'));
  open();
  await failed;
  expect(bench.network.wired.size).toBe(0);
  expect(ipam.leases()).toMatchObject([{ state: 'quarantined' }]);
});

it('undoes everything if the plugin disconnects while the lease is being written to disk', async () => {
  const { ipam } = await slowDisk();
  const gone = new AbortController();
  const adding = attachmentsWith(ipam).add(addCaller(), gone.signal);
  await expect.poll(() => bench.network.wired.size).toBe(1);
  gone.abort();
  await expect(adding).rejects.toMatchObject({ code: cniCodes.tryAgainLater });
  expect(bench.network.wired.size).toBe(0);
  expect(ipam.leases()).toMatchObject([{ state: 'quarantined' }]);
});

it('undoing an ADD keeps a later attachment', async () => {
  const { ipam, network } = bench;
  const attachments = attachmentsWith(ipam);
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
