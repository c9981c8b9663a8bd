import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, readFileSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { PodStatusLine } from '../../lab/daemon/status.ts';
import { inNetns } from '../../lab/machine/netns.ts';
import { nodePaths } from '../../lab/plan/names.ts';
import type { Entry, FlowEntry, Items, PortEntry } from '../../src/api/entry.ts';
import type { NodeView, PodView, ServiceView } from '../../src/api/object.ts';
import type { AgentStatus } from '../../src/api/status.ts';
import { ConvergeLab, until } from '../support/converge-lab.ts';
import { type Ran, runProgram } from '../support/run-program.ts';

/** Output of seinectl about a real node, compared with the tools that show the same: ovs-ofctl, ovs-vsctl, ip. */
const root = join(import.meta.dirname, '..', '..');
const networkPolicy = {
  collection: '/apis/networking.k8s.io/v1/namespaces/default/networkpolicies',
  object: {
    apiVersion: 'networking.k8s.io/v1',
    kind: 'NetworkPolicy',
    metadata: { name: 'deny-all' },
    spec: { podSelector: {}, policyTypes: ['Ingress'] },
  },
};
let lab: ConvergeLab;

const socketOf = (node: number): string => nodePaths(lab.plan.dir, lab.node(node).name).apiSocket;

function seinectl(args: readonly string[], stdin = ''): Promise<Ran> {
  return runProgram(process.execPath, [join(root, 'bin', 'seinectl.mjs'), '--socket', socketOf(1), ...args], { stdin });
}

async function json<T>(...args: string[]): Promise<T> {
  const { stdout, stderr } = await seinectl([...args, '-o', 'json']);
  if (stdout === '') throw new Error(stderr);
  return JSON.parse(stdout) as T;
}

async function items<T>(...args: string[]): Promise<readonly T[]> {
  return (await json<Items<T>>(...args)).items;
}

async function linesOf(command: string, ...args: string[]): Promise<string[]> {
  return (await lab.exec(1, command, ...args)).split('\n').flatMap((line) => line.trim() || []);
}

const dumpFlows = (...options: string[]) => linesOf('ovs-ofctl', '-O', 'OpenFlow15', ...options, 'dump-flows', 'br-int');

beforeAll(async () => {
  lab = await ConvergeLab.start(2);
  await lab.startPods([networkPolicy]);
});
afterAll(async () => {
  await lab?.remove();
});

it('answers an operator’s first questions, as plain `seinectl` on a node of the lab', async () => {
  const args = ['bin/seine-lab.mjs', 'node', 'exec', '--dir', lab.plan.dir, lab.node(1).name, '--', 'seinectl', 'status'];
  const { code, stdout } = await runProgram(process.execPath, args);
  expect(stdout).toMatch(new RegExp(`^${lab.node(1).name} {2}READY {2}up `));
  expect(stdout).toContain('No problems.');
  // The first setting is not a foreign change.
  expect(stdout).not.toContain('repaired after foreign changes');
  expect(stdout).toMatch(/Policies: {2}enforced, 0 of 1 NetworkPolicies select 0 pods here/);
  expect(stdout).toMatch(/Open vSwitch \d+\.\d+\.\d+/);
  expect(stdout.split('\n').filter((line) => line.includes('in sync'))).toHaveLength(7);
  expect(code).toBe(0);
});

describe('a pod’s packets', () => {
  const captured = (...args: readonly string[]): Promise<Ran> => {
    const program = [process.execPath, join(root, 'bin', 'seinectl.mjs'), '--socket', socketOf(1), 'capture', ...args];
    return runProgram(process.execPath, [
      join(root, 'bin', 'seine-lab.mjs'),
      'node',
      'exec',
      '--dir',
      lab.plan.dir,
      lab.node(1).name,
      '--',
      ...program,
    ]);
  };
  /** Sends echoes from the node to an address until `work` has ended. */
  const whilePinged = async <T>(address: string, work: () => Promise<T>): Promise<T> => {
    const { command, args } = inNetns(lab.node(1).netns, 'ping', ['-i', '0.1', '-q', address]);
    const pinging = spawn(command, args, { stdio: 'ignore' });
    const ended = once(pinging, 'exit');
    try {
      return await work();
    } finally {
      pinging.kill('SIGKILL');
      await ended;
    }
  };
  const pod = async (): Promise<{ readonly name: string; readonly address: string }> => {
    const [first] = await items<PodView>('get', 'pods');
    return { name: first?.name ?? '', address: first?.addresses[0] ?? '' };
  };

  it('are shown as lines, both ways, until the requested number was seen', async () => {
    const { name, address } = await pod();
    // More than a pod's kernel sends by itself when its interface is new.
    const { stdout, stderr, code } = await whilePinged(address, () => captured(name, '--count', '40', '--for', '60s'));
    expect([code, stderr]).toEqual([0, expect.stringContaining('40 frames')]);
    const lines = stdout.trimEnd().split('\n');
    expect(lines).toHaveLength(40);
    expect(stdout).toMatch(new RegExp(`^[0-9:.]{15} in  .* > ${address} icmp type 8 code 0 98$`, 'm'));
    expect(stdout).toMatch(new RegExp(`^[0-9:.]{15} out ${address} > .* icmp type 0 code 0 98$`, 'm'));
  });

  it('are written to a new file, as tcpdump reads it', async () => {
    const { name, address } = await pod();
    const file = join(lab.plan.dir, 'pod.pcap');
    const { stderr } = await whilePinged(address, () => captured(name, '--count', '2', '--for', '60s', '-w', file));
    expect(stderr).toContain('2 frames');
    const written = readFileSync(file);
    expect(statSync(file).mode & 0o777).toBe(0o600);
    const first = 16 + written.readUInt32LE(24 + 8);
    const second = 16 + written.readUInt32LE(24 + first + 8);
    expect([written.readUInt32LE(0), written.length]).toEqual([0xa1b2_3c4d, 24 + first + second]);
    expect(await captured(name, '-w', file)).toMatchObject({ code: 2, stderr: expect.stringContaining('EEXIST') });
    expect(readFileSync(file)).toEqual(written);
  });

  it('are not captured without such a pod, whatever its name contains', async () => {
    for (const name of ['missing', '../../etc', 'default/$(id)', '-w', 'a b'])
      expect((await captured('--for', '1s', '--', name)).code, name).not.toBe(0);
  });
});

describe('the present state', () => {
  it('has the very flows that ovs-ofctl shows, in its form', async () => {
    const dumped = (await dumpFlows('--names', '--no-stats')).filter((line) => line.startsWith('cookie='));
    const flows = await items<FlowEntry>('get', 'flows');
    expect(flows.map(({ actual }) => actual).toSorted()).toEqual(dumped.toSorted());
    expect(new Set(flows.map(({ state }) => state))).toEqual(new Set(['ok']));
    expect(flows.every(({ wanted, actual, owners }) => wanted === actual && owners.length > 0)).toBe(true);
  });

  it('filters flows by pod, and by table', async () => {
    const { namespace, name } = aPodHere();
    const flows = await items<FlowEntry>('get', 'flows', '--owner', `pod/${namespace}/${name}`, '--table', 'spoofGuard');
    const dumped = (await dumpFlows('--names', '--no-stats')).filter(
      (line) => line.includes('table=spoofGuard') && line.includes(`cookie=${cookieOf(flows[0])}`),
    );
    expect(flows.map(({ actual }) => actual).toSorted()).toEqual(dumped.toSorted());
    expect(flows.length).toBeGreaterThan(5);
  });

  it('has the groups, ports and routes of the tools', async () => {
    const groups = await items<Entry>('get', 'groups');
    const dumped = (await linesOf('ovs-ofctl', '-O', 'OpenFlow15', '--names', 'dump-groups', 'br-int')).filter((line) =>
      line.startsWith('group_id='),
    );
    expect(groups.map(({ actual }) => actual).toSorted()).toEqual(dumped.toSorted());

    const ports = (await items<PortEntry>('get', 'ports')).filter(({ kind }) => kind === 'port');
    const numbers = await lab.ofPorts(1);
    expect(ports.map(({ name, ofPort, state }) => [name, ofPort, state])).toEqual(ports.map(({ name }) => [name, numbers[name], 'ok']));
    expect(ports.map(({ name }) => name).toSorted()).toEqual((await linesOf('ovs-vsctl', 'list-ports', 'br-int')).toSorted());

    const routes = (await items<Entry>('get', 'routes')).filter(({ kind }) => kind === 'route');
    const known = [
      ...(await linesOf('ip', '-4', 'route', 'show', 'proto', '94')),
      ...(await linesOf('ip', '-6', 'route', 'show', 'proto', '94')),
    ];
    expect(routes).toHaveLength(known.length);
  });

  it('has the pods, nodes and Services of the cluster', async () => {
    const pods = await items<PodView>('get', 'pods');
    expect(pods.map(({ name, addresses, state }) => [name, addresses, state])).toEqual(
      podsHere()
        .map(({ namespace, name, ips }) => [`${namespace}/${name}`, ips, 'ok'])
        .toSorted(),
    );
    const nodes = await items<NodeView>('get', 'nodes');
    expect(nodes.map(({ name, role, state }) => [name, role, state])).toEqual(
      lab.plan.nodes.map(({ name }, at) => [name, at === 0 ? 'self' : 'peer', 'ok']),
    );
    const services = await items<ServiceView>('get', 'services');
    expect(services.length).toBeGreaterThan(1);
    expect(services.every(({ state, flows }) => state === 'ok' && flows.held === flows.wanted)).toBe(true);
  });
});

describe('annotate', () => {
  it.each([['--names'], ['--no-names'], ['--no-stats']])('names the owner of every flow of a dump with %s', async (option) => {
    const dump = await dumpFlows(option);
    const { code, stdout, stderr } = await seinectl(['annotate'], `${dump.join('\n')}\n`);
    expect([code, stderr]).toEqual([0, '']);
    const flows = stdout.split('\n').filter((line) => line.includes('cookie='));
    expect(flows).toHaveLength(dump.filter((line) => line.includes('cookie=')).length);
    expect(flows.filter((line) => !/ # (node|probe|peer\/|pod\/|subject\/|service\/|endpoint\/)/.test(line))).toEqual([]);
  });
});

describe('problems', () => {
  it('are none at first', async () => {
    expect(await seinectl(['diff'])).toMatchObject({ code: 0, stdout: '' });
  });

  it('include a flow that is deleted repeatedly: in ovs-ofctl’s notation, with owner and reason', async () => {
    const [lost] = (await dumpFlows('--names', '--no-stats')).filter((line) => line.includes('table=output, priority=0'));
    let diff: Ran = { code: 0, stdout: '', stderr: '' };
    await until(
      async () => {
        await lab.exec(1, 'ovs-ofctl', '-O', 'OpenFlow15', '--strict', 'del-flows', 'br-int', 'table=110,priority=0');
        diff = await seinectl(['diff']);
        // From the eighth time on the agent waits four seconds or more: long enough to check.
        return Number(/keeps changing it; repaired (\d+) times/.exec(diff.stdout)?.[1]) >= 8;
      },
      60_000,
      () => 'the agent does not slow down',
    );
    expect(diff.code).toBe(1);
    expect(diff.stdout.split('\n')[0]).toBe(`+ ${lost} # node`);
    const [status, bad] = await Promise.all([seinectl(['status']), seinectl(['get', 'flows', '--bad'])]);
    expect(status.stdout).toContain('! bridge: another program keeps changing 1 entry');
    expect(bad.stdout).toMatch(/^output +missing/m);
    await until(
      async () => (await seinectl(['diff'])).code === 0,
      70_000,
      () => 'the flow is not repaired',
    );
  });

  it('include a pod whose interface was set down, and one whose namespace was changed', async () => {
    const pod = aPodHere();
    const [{ hostInterface }] = (await items<PodView>('get', 'pods')).filter(({ name }) => name === `${pod.namespace}/${pod.name}`) as [
      PodView,
    ];
    await seinectl(['pause', '--for', '10m']);
    await lab.exec(1, 'ip', 'link', 'set', hostInterface, 'down');
    expect(await seinectl(['get', 'pods'])).toMatchObject({
      code: 0,
      stdout: expect.stringContaining(`host interface ${hostInterface} is down`),
    });
    await lab.exec(1, 'ip', 'link', 'set', hostInterface, 'up');

    const { command, args } = inNetns(pod.netns, 'ip', ['link', 'set', 'eth0', 'address', '0e:00:00:00:00:99']);
    await runProgram(command, args);
    expect((await json<PodView>('get', 'pods', pod.name, '-n', pod.namespace)).differences).toEqual([
      expect.stringContaining('interface eth0 has MAC 0e:00:00:00:00:99'),
    ]);
    await seinectl(['resume']);
  });

  it('are counted when they are repaired', async () => {
    const drift = async (): Promise<number> => (await json<AgentStatus>('status')).parts.find(({ part }) => part === 'host')?.drift ?? -1;
    const before = await drift();
    const [route] = await linesOf('ip', '-4', 'route', 'show', 'proto', '94');
    await lab.exec(1, 'ip', 'route', 'del', ...(route ?? '').split(' ').slice(0, 1));
    await until(
      async () => (await drift()) > before,
      5_000,
      () => 'it was not noticed',
    );
    // It is counted before it is repaired.
    await expect.poll(() => linesOf('ip', '-4', 'route', 'show', 'proto', '94')).toContain(route);
  });
});

describe('access', () => {
  const ask = (path: string, uid: number) =>
    runProgram('socat', ['-t', '5', '-', `UNIX-CONNECT:${path}`], { stdin: 'GET /livez HTTP/1.0\r\n\r\n', uid });
  const unusedUid = 65_534;

  it("is limited to root, even if the socket's mode admits others", async () => {
    expect((await ask(socketOf(2), 0)).stdout).toContain('200 OK');
    expect((await ask(socketOf(2), unusedUid)).stdout).toBe('');
    for (let path = socketOf(2); path.startsWith(lab.plan.dir); path = dirname(path)) chmodSync(path, 0o777);
    expect((await ask(socketOf(2), unusedUid)).stdout).toBe('');
    expect(lab.log(2).some(({ msg, uid }) => msg.includes('not root') && uid === unusedUid)).toBe(true);
  });

  it('is open to the kubelet’s probes, by the plugin’s program', async () => {
    const probe = (...words: readonly string[]) => runProgram(join(root, 'dist/bin/seine'), ['--probe', ...words], {});
    for (const what of ['livez', 'readyz', 'readyz/rollout'])
      expect(await probe(what, socketOf(1))).toMatchObject({ code: 0, stdout: '', stderr: '' });
    expect((await probe('readyz', `${socketOf(1)}.gone`)).stderr).toContain('No such file or directory');
  });

  it('is open at the metrics address, for health and metrics only', async () => {
    const get = async (path: string): Promise<string> => await lab.exec(1, 'curl', '-s', '-i', `http://127.0.0.1:10349${path}`);
    expect(await get('/livez')).toContain('200 OK');
    expect(await get('/readyz')).toContain('{"state":"ready"}');
    expect(await get('/v1/status')).toContain('404');
    const metrics = await get('/metrics');
    expect(metrics).toMatch(/^seine_agent_cni_stage_duration_seconds_count\{command="ADD",stage="flows"\} [1-9]/m);
    expect(metrics).toMatch(/^seine_agent_networkpolicy_count 1$/m);
    expect(metrics).toMatch(new RegExp(`^seine_agent_local_pod_count ${podsHere().length}$`, 'm'));
  });
});

it('counts tunnel packets of unknown peers, by address, under the previous names too', async () => {
  const foreign = '192.168.77.200';
  const inExternal = async (...words: readonly string[]) => {
    const ip = inNetns(lab.plan.external.netns, 'ip', words);
    return await runProgram(ip.command, ip.args, {});
  };
  const route = await inExternal('-j', 'route', 'get', lab.node(1).ips[0] ?? '');
  const [device] = JSON.parse(route.stdout) as [{ dev: string }];
  await inExternal('addr', 'add', `${foreign}/32`, 'dev', device.dev);
  // A Geneve header without options that carries an Ethernet frame (RFC 8926), and a frame of zeros.
  const packet = Buffer.concat([Buffer.from([0, 0, 0x65, 0x58, 0, 0, 0, 0]), Buffer.alloc(60)]);
  const { command, args } = inNetns(lab.plan.external.netns, 'socat', [
    '-u',
    '-',
    `UDP4-SENDTO:${lab.node(1).ips[0]}:6081,bind=${foreign}`,
  ]);
  await until(
    async () => {
      await runProgram(command, args, { stdin: packet.toString('latin1') });
      const scraped = await lab.exec(1, 'curl', '-s', 'http://127.0.0.1:10349/metrics');
      return scraped.includes(`seine_agent_unknown_tunnel_peer_packets{address="${foreign}"}`);
    },
    10_000,
    () => 'the packets are not counted',
  );
  const ofTable = await items<FlowEntry>('get', 'flows', '--table', 'unknownTunnelPeers');
  expect(ofTable.filter(({ state }) => state === 'learned')).toHaveLength(1);
  // A pod whose MAC an earlier test has changed is repaired by a periodic check.
  await until(
    async () => (await seinectl(['diff'])).code === 0,
    70_000,
    () => 'there are differences still',
  );
});

it('names the socket when there is no agent, with 3', async () => {
  await lab.agent(1, 'stop');
  const { code, stderr } = await seinectl(['status']);
  expect(code).toBe(3);
  expect(stderr).toContain(`no agent answers on ${socketOf(1)}`);
});

/** Pods with their own network on node 1. */
function podsHere(): readonly PodStatusLine[] {
  const { name, ips } = lab.node(1);
  return lab.pods.filter((pod) => pod.node === name && !pod.ips.some((ip) => ips.includes(ip)));
}

function aPodHere(): PodStatusLine {
  const [pod] = podsHere();
  if (!pod) throw new Error('no pod on node 1');
  return pod;
}

function cookieOf(flow: FlowEntry | undefined): string {
  return /cookie=(0x[0-9a-f]+)/.exec(flow?.actual ?? '')?.[1] ?? 'none';
}
