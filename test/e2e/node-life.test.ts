import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parse, stringify } from 'yaml';
import { createAll } from '../../lab/demo/workload.ts';
import { nodePaths } from '../../lab/plan/names.ts';
import { ask } from '../../lab/probe/probe.ts';
import { askStatus } from '../../lab/up.ts';
import { backUp, forgetHistory, restore } from '../support/api-backup.ts';
import { ConvergeLab, until } from '../support/converge-lab.ts';
import { CrashRuntime, type LiveContainer } from '../support/crash-runtime.ts';
import { holdingsOf } from '../support/node-holdings.ts';
import { powerOff, startAgentAfterReboot } from '../support/reboot.ts';

const signal = () => AbortSignal.timeout(60_000);
const services = '/api/v1/namespaces/default/services';
const pods = '/api/v1/namespaces/default/pods';
const never = new AbortController().signal;

/** Rare events in the life of a node and its cluster. Node 1 is observed; node 2 has a pod that answers. */
describe('events in the life of a node', () => {
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
  const reported = (msg: string, resource: string) =>
    lab.log(1).filter((line) => line.msg.startsWith(msg) && line['resource'] === resource).length;
  const untilReported = (msg: string, resource: string, times: number) =>
    until(
      () => reported(msg, resource) >= times,
      20_000,
      () => `the agent does not say “${msg}” of ${resource}`,
    );
  const held = 'a list lacks too many objects';
  const released = 'a second list agrees';

  /** A container of node 1 reaches an address, in each of the two families. */
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

  it('recovers from a reboot: recreated pods, none of their addresses twice, nothing left', { timeout: 120_000 }, async () => {
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
      () => 'the switch is never released',
    );
    // A kubelet removes and recreates every dead pod, in no reliable order.
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

  it('follows the deletion of objects created after a backup, and new ones with the same versions', { timeout: 120_000 }, async () => {
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
    const recreated = await startService('recreated');
    await untilHas(recreated);
    await untilReaches(oneOf(), [before, recreated]);
    expect((await lab.readiness(1)).ready).toBe(true);
  });

  it('rejects an empty list while a second one is complete', { timeout: 180_000 }, async () => {
    const many: string[] = [];
    for (let each = 0; each < 12; each++) many.push(await startService(`many-${each}`));
    // A Service has flows before its endpoints are known.
    await untilReaches(oneOf(), many);
    const before = await flows();
    await lab.apiServer('stop');
    forgetHistory(lab.plan);
    await lab.apiServer('start-empty');
    for (const resource of ['Service', 'EndpointSlice']) await untilReported(held, resource, 1);
    const sees = (await lab.metrics(1)).get('source_objects{kind="Service"}') ?? 0;
    expect(sees).toBeGreaterThan(12);
    expect((await flows()).filter((flow) => !before.includes(flow))).toEqual([]);
    expect(before.filter((flow) => flow.includes('10.96.')).length).toBeGreaterThan(0);
    await untilReaches(oneOf(), [many[3] ?? '', ...lab.pod('web').ips]);
    expect([reported(released, 'Service'), reported(released, 'EndpointSlice')]).toEqual([0, 0]);
    await lab.apiServer('stop');
    await lab.apiServer('start');
    await untilReaches(oneOf(), lab.pod('web').ips);
  });

  it('accepts a node name that belongs to another host now', { timeout: 180_000 }, async () => {
    const { name } = lab.node(2);
    const [path, paths] = [`/api/v1/nodes/${name}`, nodePaths(lab.plan.dir, name)];
    const old = (await lab.api.send({ method: 'GET', path }, signal())) as {
      metadata: { labels: object };
      status: { addresses: readonly { type: string; address: string }[] };
    };
    await lab.api.send({ method: 'DELETE', path: `${pods}/web` }, signal());
    await until(
      async () => !(await askStatus(lab.plan.dir)).pods.some((pod) => pod.name === 'web'),
      20_000,
      () => 'the pod stays',
    );
    await lab.agent(2, 'stop');
    await lab.killOvs(2, 'all');
    await lab.api.send({ method: 'DELETE', path }, signal());
    await untilHasNot('192.168.77.2');
    for (const gone of [join(paths.ovs, 'conf.db'), paths.stateDir]) rmSync(gone, { recursive: true });
    await lab.startOvs(2);
    // The other host has two addresses, and a range selects the interface, and the address, for tunnels.
    await lab.exec(2, 'ip', 'address', 'add', '192.168.77.202/24', 'dev', 'br-phy');
    const { transportInterface: _, ...config } = parse(readFileSync(paths.agentConfig, 'utf8')) as Readonly<Record<string, unknown>>;
    writeFileSync(paths.agentConfig, stringify({ ...config, transportInterfaceCIDRs: ['192.168.77.192/26', 'fd00:77::/64'] }));
    const spec = { podCIDR: '10.198.0.0/22', podCIDRs: ['10.198.0.0/22', 'fd00:198::/64'] };
    const body = { apiVersion: 'v1', kind: 'Node', metadata: { name, labels: old.metadata.labels }, spec };
    await lab.api.send({ method: 'POST', path: '/api/v1/nodes', body }, signal());
    const addresses = old.status.addresses.map((each) => (each.address === '192.168.77.2' ? { ...each, address: '192.168.77.202' } : each));
    const status = { status: { ...old.status, addresses } };
    await lab.api.send({ method: 'PATCH', path: `${path}/status`, body: status, contentType: 'application/merge-patch+json' }, signal());
    // It does not forward yet, and has a default route from router advertisements.
    await lab.exec(2, 'sysctl', '-qw', 'net.ipv6.conf.all.forwarding=0', 'net.ipv6.conf.br-phy.accept_ra=1');
    await lab.agent(2, 'start');
    await lab.untilReady(2);
    expect(await lab.exec(2, 'sysctl', '-n', 'net.ipv6.conf.all.forwarding', 'net.ipv6.conf.br-phy.accept_ra')).toBe('1\n2\n');
    await untilHas('192.168.77.202');
    await startPod('fresh');
    expect(lab.pod('fresh').ips).toEqual([expect.stringMatching(/^10\.198\./), expect.stringMatching(/^fd00:198:/)]);
    await untilReaches(oneOf(), lab.pod('fresh').ips);
    expect(await has('192.168.77.2')).toBe(false);
    expect((await lab.flows(2)).some(({ text }) => text.includes('192.168.77.202->tun_src'))).toBe(true);
    expect(await lab.exec(1, 'ip', 'route', 'get', lab.pod('fresh').ips[0] ?? '')).toContain('dev antrea-gw0');
  });

  it('continues with its known state and its previous configuration, and stops a roll-out', { timeout: 180_000 }, async () => {
    const { agentConfig } = nodePaths(lab.plan.dir, lab.node(1).name);
    const former = readFileSync(agentConfig, 'utf8');
    const waitsFor = async (what: string) => {
      let now = { ready: false, says: '' };
      const waits = async () => {
        now = await lab.readiness(1, '/readyz/rollout');
        return now.says.includes(what);
      };
      await until(waits, 60_000, () => `the roll-out probe reports: ${now.says}`);
      expect([(await lab.readiness(1)).ready, now.ready]).toEqual([true, false]);
    };
    await lab.apiServer('stop');
    await lab.agent(1, 'kill');
    writeFileSync(agentConfig, stringify({ ...Object(parse(former)), logLevel: 'loud' }));
    await lab.agent(1, 'start');
    await lab.untilReady(1, 60_000);
    await waitsFor('not all sources have been synced');
    await lab.apiServer('start');
    await waitsFor(`"reason":"${agentConfig} is not in force, the last configuration that could be used is: `);
    await lab.agent(1, 'kill');
    writeFileSync(agentConfig, former);
    await lab.agent(1, 'start');
    await until(
      async () => (await lab.readiness(1, '/readyz/rollout')).ready,
      60_000,
      () => 'a roll-out would stop',
    );
  });
});
