import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createAll } from '../../src/lab/demo/workload.ts';
import { ask } from '../../src/lab/probe/probe.ts';
import { askStatus } from '../../src/lab/up.ts';
import { backUp, restore } from '../support/api-backup.ts';
import { ConvergeLab, until } from '../support/converge-lab.ts';
import { CrashRuntime, type LiveContainer } from '../support/crash-runtime.ts';
import { holdingsOf } from '../support/node-holdings.ts';
import { powerOff, startAgentAfterReboot } from '../support/reboot.ts';

const signal = () => AbortSignal.timeout(60_000);
const services = '/api/v1/namespaces/default/services';
const pods = '/api/v1/namespaces/default/pods';
const never = new AbortController().signal;

/** What happens to a node and its cluster once in a while. Node 1 is looked at; node 2 has a pod that answers. */
describe('in the life of a node', () => {
  let lab: ConvergeLab;
  let runtime: CrashRuntime;

  beforeAll(async () => {
    lab = await ConvergeLab.start(2);
    runtime = await CrashRuntime.start(lab, 6, never);
    await startPod('web');
  });
  afterAll(async () => {
    await runtime?.close();
    await lab?.remove();
  });

  async function startPod(name: string): Promise<void> {
    const container = { name: 'responder', image: 'responder', ports: [{ containerPort: 80, protocol: 'TCP' }] };
    const spec = {
      nodeSelector: { 'kubernetes.io/hostname': lab.node(2).name },
      terminationGracePeriodSeconds: 1,
      containers: [container],
    };
    await createAll(
      lab.api,
      [{ collection: pods, object: { apiVersion: 'v1', kind: 'Pod', metadata: { name, labels: { app: name } }, spec } }],
      signal(),
    );
    await until(
      async () => {
        lab.pods = (await askStatus(lab.plan.dir)).pods;
        return (lab.pods.find((pod) => pod.name === name)?.ips.length ?? 0) > 1;
      },
      20_000,
      () => `${name} does not start`,
    );
  }

  async function startService(name: string): Promise<string> {
    const spec = { selector: { app: 'web' }, ports: [{ port: 80, targetPort: 80, protocol: 'TCP' }] };
    const made = await lab.api.send(
      { method: 'POST', path: services, body: { apiVersion: 'v1', kind: 'Service', metadata: { name }, spec } },
      signal(),
    );
    return (made as { spec: { clusterIP: string } }).spec.clusterIP;
  }

  const flows = async () => (await lab.flows(1)).map(({ text }) => text);
  const has = async (text: string) => (await flows()).some((flow) => new RegExp(`[=,]${text.replaceAll('.', '\\.')}(?![0-9.])`).test(flow));
  const untilHas = (text: string) =>
    until(
      () => has(text),
      20_000,
      () => `no flow has ${text}`,
    );
  const untilHasNot = (text: string) =>
    until(
      async () => !(await has(text)),
      20_000,
      () => `a flow still has ${text}`,
    );
  /** A container of node 1 reaches an address, by every one of the two families that it names. */
  const untilReaches = async ({ netns }: LiveContainer, addresses: readonly string[]): Promise<void> => {
    for (const address of addresses)
      await until(
        async () => (await ask({ from: netns, protocol: 'tcp', address, port: 80, timeoutMs: 1_000 })).is === 'OK',
        20_000,
        () => `${address} is not reached`,
      );
  };
  const oneOf = (): LiveContainer => {
    const [container] = runtime.live.values();
    if (!container) throw new Error('no container lives');
    return container;
  };

  it('comes back from a reboot: new pods of the old ones, none of their addresses twice, nothing left', { timeout: 120_000 }, async () => {
    for (let each = 0; each < 4; each++) await runtime.add();
    await untilReaches(oneOf(), lab.pod('web').ips);
    await powerOff(lab, runtime);
    await lab.startOvs(1);
    const waits = () => lab.exec(1, 'ovs-vsctl', '--if-exists', 'get', 'Open_vSwitch', '.', 'other_config:flow-restore-wait');
    expect(await waits()).toContain('true');
    startAgentAfterReboot(lab);
    await lab.untilReady(1);
    await until(
      async () => !(await waits()).includes('true'),
      10_000,
      () => 'the switch is never told to go on',
    );
    // A kubelet has every pod that it finds dead taken down and made anew, in no order that one could rely on.
    const [first, second, ...others] = [...runtime.live.keys()];
    if (first !== undefined) await runtime.remove(first);
    for (let each = 0; each < 3; each++) await runtime.add();
    if (second !== undefined) await runtime.remove(second);
    for (const id of others) await runtime.lose(id);
    await runtime.collectGarbage();
    await runtime.checkAll();
    await untilReaches(oneOf(), lab.pod('web').ips);
    const live = [...runtime.live.keys()].toSorted();
    await expect
      .poll(async () => ({ ...(await holdingsOf(lab)), quarantined: 'any' }), { timeout: 20_000, interval: 100 })
      .toEqual({ interfaces: live.length, ports: live, flows: live.length, leases: live, quarantined: 'any' });
    expect(runtime.faults).toEqual([]);
    expect(live).toHaveLength(3);
  });

  it('sees what came after the backup go, and what comes under the same versions again', { timeout: 120_000 }, async () => {
    const before = await startService('before');
    await untilHas(before);
    backUp(lab.plan);
    const late = await startService('late');
    await untilHas(late);
    await lab.apiServer('stop');
    restore(lab.plan);
    await lab.apiServer('start');
    await untilHasNot(late);
    expect(await has(before)).toBe(true);
    const anew = await startService('anew');
    await untilHas(anew);
    await untilReaches(oneOf(), [before, anew]);
    expect((await lab.readiness(1)).ready).toBe(true);
  });
});
