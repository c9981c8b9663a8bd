import { rmSync } from 'node:fs';
import { basename, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { askControl } from '../../lab/daemon/control.ts';
import { labPaths, nodePaths } from '../../lab/plan/names.ts';
import { askStatus } from '../../lab/up.ts';
import { ConvergeLab, until } from '../support/converge-lab.ts';

const signal = () => AbortSignal.timeout(30_000);
/** Interval of the checks for addresses of deleted pods. */
const reclaimEveryMs = 15_000;

/** The addresses of a node change while its pods run: the agent follows. */
describe('a node that changes under running pods', () => {
  let lab: ConvergeLab;

  beforeAll(async () => {
    lab = await ConvergeLab.start(2);
    await lab.startPods();
    await everybody();
  });
  afterAll(async () => {
    await lab?.remove();
  });

  const ip = (...args: readonly string[]) => lab.exec(1, 'ip', ...args);
  const gateway = async () =>
    (await ip('-br', 'address', 'show', 'dev', 'antrea-gw0')).match(/\S+\/\d+/g)?.filter((text) => !text.startsWith('fe80')) ?? [];
  const patch = (path: string, body: object) =>
    lab.api.send({ method: 'PATCH', path, body, contentType: 'application/merge-patch+json' }, signal());
  const node = (number: number) => `/api/v1/nodes/${lab.node(number).name}`;

  /** Every pod of the changed node is reached from both nodes, and reaches the other one and the node itself. */
  async function everybody(): Promise<void> {
    for (const [from, to] of [
      ['client-1', 'web-1'],
      // First out, then in: a userspace switch caches the Ethernet address that the lab's new underlay bridge does not have.
      ['client-1', 'web-2'],
      ['client-2', 'web-1'],
    ] as const)
      await lab.untilReached(lab.pod(from), lab.pod(to));
  }

  const mtuInPod = async (name: string): Promise<number> => {
    const { netns, node: name1 } = lab.pod(name);
    expect(name1).toBe(lab.node(1).name);
    return Number(/mtu (\d+)/.exec(await ip('-n', basename(netns), 'link', 'show', 'eth0'))?.[1]);
  };

  it('gives every pod the MTU that the transport allows, and back', async () => {
    const before = await mtuInPod('web-1');
    await ip('link', 'set', 'br-phy', 'mtu', '1400');
    await until(
      async () => (await mtuInPod('web-1')) === 1330,
      10_000,
      () => 'the pod keeps its MTU',
    );
    await until(
      async () => (await ip('link', 'show', 'antrea-gw0')).includes('mtu 1330'),
      10_000,
      () => 'the gateway keeps its MTU',
    );
    await everybody();
    await ip('link', 'set', 'br-phy', 'mtu', '1500');
    await until(
      async () => (await mtuInPod('web-1')) === before && (await mtuInPod('client-1')) === before,
      10_000,
      () => 'a pod keeps its smaller MTU',
    );
  });

  it('loses no packet of the largest size to a node that peers know by IPv6 alone from now on, and keeps its MTU', async () => {
    const { status } = (await lab.api.send({ method: 'GET', path: node(2) }, signal())) as { status: { addresses: { address: string }[] } };
    const [before, [ipv4 = '']] = [await mtuInPod('client-1'), lab.pod('web-2').ips];
    const overIpv6 = async () => (await lab.flows(1)).some(({ text }) => text.includes('->tun_ipv6_dst'));
    expect(await overIpv6()).toBe(false);
    await patch(`${node(2)}/status`, { status: { addresses: status.addresses.filter(({ address }) => !address.includes('.')) } });
    await until(overIpv6, 10_000, () => 'no tunnel goes over IPv6');
    await everybody();
    const largest = ['-M', 'do', '-s', String(before - 28), '-c', '1', '-W', '1', ipv4];
    const pinged = ip('netns', 'exec', basename(lab.pod('client-1').netns), 'ping', ...largest);
    expect(await pinged).toContain(' 0% packet loss');
    expect(await mtuInPod('client-1')).toBe(before);
    await patch(`${node(2)}/status`, { status });
    await until(
      async () => !(await overIpv6()),
      10_000,
      () => 'tunnels go over IPv6',
    );
    await everybody();
  });

  it.each([
    ['the gateway’s MAC is changed', () => ip('link', 'set', 'antrea-gw0', 'address', '0e:12:34:56:78:9a')],
    ['the gateway is deleted', () => ip('link', 'del', 'antrea-gw0')],
    ['a pod’s interface is deleted', async () => ip('link', 'del', await hostEnd('web-1'))],
  ])('is restored after %s', async (_, happen) => {
    const [mac, addresses] = [await macOf('antrea-gw0'), await gateway()];
    await happen();
    await until(
      async () => (await macOf('antrea-gw0').catch(() => '')) === mac,
      5_000,
      () => 'another MAC',
    );
    await until(
      async () => String(await gateway().catch(() => '')) === String(addresses),
      5_000,
      () => 'other addresses',
    );
    await everybody();
  });

  it('restores a pod’s interface though OVS was busy while it was deleted', async () => {
    const [pids, name] = [await lab.switchPids(), await hostEnd('web-1')];
    const isThere = () =>
      ip('link', 'show', name).then(
        () => true,
        () => false,
      );
    for (const pid of pids) process.kill(pid, 'SIGSTOP');
    try {
      await ip('link', 'del', name);
      // It must return after OVS has seen its deletion, and not before.
      await expect(until(isThere, 700, () => 'not yet')).rejects.toThrow('not yet');
    } finally {
      for (const pid of pids) process.kill(pid, 'SIGCONT');
    }
    await everybody();
  });

  it('restores its gateway as quickly the eighth time that it is deleted', { timeout: 60_000 }, async () => {
    const mac = await macOf('antrea-gw0');
    for (let time = 1; time <= 8; time++) {
      await ip('link', 'del', 'antrea-gw0');
      await until(
        async () => (await macOf('antrea-gw0').catch(() => '')) === mac,
        3_000,
        () => `no gateway after ${time} deletions`,
      );
    }
    await everybody();
  });

  const macOf = async (name: string) => /ether (\S+)/.exec(await ip('link', 'show', name))?.[1];
  const hostEnd = (pod: string) => lab.nodeEnd(1, pod);

  it("keeps an operator's changes while repair is paused, and serves pods meanwhile", async () => {
    const { apiSocket } = nodePaths(lab.plan.dir, lab.node(1).name);
    const seinectl = (...args: readonly string[]) => lab.exec(1, process.execPath, 'src/seinectl/main.ts', '--socket', apiSocket, ...args);
    const ofctl = (...args: readonly string[]) => lab.exec(1, 'ovs-ofctl', '-O', 'OpenFlow15', ...args);
    const byHand = async () => (await ofctl('dump-flows', 'br-int', 'table=0')).includes('priority=64999');
    await seinectl('pause', '--for', '10m');
    expect(await seinectl('status')).toContain('repair is paused');
    await ofctl('add-flow', 'br-int', 'table=0,priority=64999,udp,tp_dst=9,actions=drop');
    await replace('client-1');
    await everybody();
    // The agent has checked its flows since, to add those of the new pod.
    expect(await byHand()).toBe(true);
    expect((await lab.metrics(1)).get('repair_paused_seconds')).toBeGreaterThan(500);
    await seinectl('resume');
    await until(
      async () => !(await byHand()),
      5_000,
      () => 'the flow stays',
    );
    expect(await seinectl('status')).not.toContain('repair is paused');
  });

  it('serves its pods from another transport address', async () => {
    const { status } = (await lab.api.send({ method: 'GET', path: node(1) }, signal())) as { status: { addresses: readonly object[] } };
    const moved = (address: { type?: string; address?: string }) =>
      address.address === '192.168.77.1' ? { ...address, address: '192.168.77.101' } : address;
    const move = async (from: string, to: string) => {
      await ip('address', 'del', `${from}/24`, 'dev', 'br-phy');
      await ip('address', 'add', `${to}/24`, 'dev', 'br-phy');
      await ip('route', 'replace', 'default', 'via', '192.168.77.254', 'dev', 'br-phy');
    };
    // The flow that OVS learned of an unknown peer expires by itself.
    const known = async (address: string) =>
      (await lab.flows(2)).some(({ text }) => text.includes(address) && !text.includes('cookie=0x1ff'));
    await move('192.168.77.1', '192.168.77.101');
    await patch(`${node(1)}/status`, { status: { addresses: status.addresses.map(moved) } });
    await until(
      () => known('192.168.77.101'),
      10_000,
      () => 'the peer keeps the old address',
    );
    await everybody();
    await move('192.168.77.101', '192.168.77.1');
    await patch(`${node(1)}/status`, { status });
    await until(
      async () => !(await known('192.168.77.101')),
      10_000,
      () => 'the peer keeps the new address',
    );
    await everybody();
  });

  it("finds its pods again by the kernel's state, with journal and OVSDB both lost", async () => {
    const before = (await askStatus(lab.plan.dir)).pods.map(({ name, containerID, ips }) => [name, containerID, ips]);
    const { ovs, stateDir } = nodePaths(lab.plan.dir, lab.node(1).name);
    await lab.agent(1, 'stop');
    await lab.killOvs(1, 'all');
    for (const path of [join(ovs, 'conf.db'), join(stateDir, 'ipam.journal')]) rmSync(path);
    await lab.startOvs(1);
    await lab.agent(1, 'start');
    await lab.untilReady(1);
    await everybody();
    expect((await askStatus(lab.plan.dir)).pods.map(({ name, containerID, ips }) => [name, containerID, ips])).toEqual(before);
    await check('client-1');
  });

  it('recreates the interface of a pod that was deleted while no agent ran', async () => {
    const name = await hostEnd('web-1');
    await lab.agent(1, 'stop');
    await ip('link', 'del', name);
    await lab.agent(1, 'start');
    await lab.untilReady(1);
    await everybody();
    await check('web-1');
  });

  it('stays unchanged while the API server has no Node of its name', async () => {
    const old = (await lab.api.send({ method: 'GET', path: node(2) }, signal())) as Readonly<Record<string, unknown>>;
    await lab.api.send({ method: 'DELETE', path: node(2) }, signal());
    await until(
      () => lab.log(2).some(({ msg }) => msg === 'the node does not match its Node object; the previous environment stays in use'),
      10_000,
      () => 'node 2 does not notice',
    );
    // Other nodes do not reach it now; its own pods and external clients still do.
    expect((await lab.reach(lab.pod('client-2'), lab.pod('web-2').ips[0] ?? '')).is).toBe('OK');
    expect((await lab.readiness(2)).ready).toBe(true);
    const { metadata, spec, status } = old as { metadata: { labels: object }; spec: object; status: object };
    const body = { apiVersion: 'v1', kind: 'Node', metadata: { name: lab.node(2).name, labels: metadata.labels }, spec };
    await lab.api.send({ method: 'POST', path: '/api/v1/nodes', body }, signal());
    await patch(`${node(2)}/status`, { status });
    await everybody();
  });

  /** Runs the plugins' CHECK. @throws their errors */
  const check = async (pod: string) => askControl(labPaths(lab.plan.dir).control, 'POST', `/pods/demo/${pod}/check`);

  it('keeps pods of a previous network reachable, and gives new pods addresses of the new one', { timeout: 120_000 }, async () => {
    const [before, after] = [await gateway(), ['10.199.0.1/22', 'fd00:199::1/64']];
    const old = (await lab.api.send({ method: 'GET', path: node(1) }, signal())) as {
      metadata: { labels: object };
      spec: { podCIDRs: readonly string[] };
      status: object;
    };
    await lab.api.send({ method: 'DELETE', path: node(1) }, signal());
    const body = {
      apiVersion: 'v1',
      kind: 'Node',
      metadata: { name: lab.node(1).name, labels: old.metadata.labels },
      spec: { podCIDR: '10.199.0.0/22', podCIDRs: ['10.199.0.0/22', 'fd00:199::/64'] },
    };
    await lab.api.send({ method: 'POST', path: '/api/v1/nodes', body }, signal());
    await patch(`${node(1)}/status`, { status: old.status });
    await until(
      async () => String((await gateway()).toSorted()) === String([...before, ...after].toSorted()),
      10_000,
      () => 'the gateway lacks an address',
    );
    await everybody();
    await replace('client-1');
    expect(lab.pod('client-1').ips[0]).toMatch(/^10\.199\./);
    await everybody();
    await replace('web-1');
    await everybody();
    await until(
      async () => String((await gateway()).toSorted()) === String(after.toSorted()),
      3 * reclaimEveryMs,
      () => 'the gateway keeps addresses',
    );
    await everybody();
    const rules = await lab.exec(1, 'nft', 'list', 'table', 'inet', 'seine');
    expect(old.spec.podCIDRs.filter((network) => rules.includes(network))).toEqual([]);
  });

  /** Deletes a pod and recreates it. */
  async function replace(name: string): Promise<void> {
    const path = '/api/v1/namespaces/demo/pods';
    const old = (await lab.api.send({ method: 'GET', path: `${path}/${name}` }, signal())) as {
      metadata: { uid: string; labels: object };
      spec: { containers: readonly object[]; nodeSelector: object };
    };
    await lab.api.send({ method: 'DELETE', path: `${path}/${name}` }, signal());
    await until(
      async () => !(await askStatus(lab.plan.dir)).pods.some((pod) => pod.name === name),
      20_000,
      () => `${name} does not go`,
    );
    const { containers, nodeSelector } = old.spec;
    const object = { apiVersion: 'v1', kind: 'Pod', metadata: { name, labels: old.metadata.labels }, spec: { containers, nodeSelector } };
    await lab.api.send({ method: 'POST', path, body: object }, signal());
    await until(
      async () => {
        lab.pods = (await askStatus(lab.plan.dir)).pods;
        return (lab.pods.find((pod) => pod.name === name)?.ips.length ?? 0) > 1;
      },
      20_000,
      () => `${name} does not come`,
    );
  }
});
