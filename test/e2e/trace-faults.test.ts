import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { demoNamespace } from '../../lab/demo/workload.ts';
import { inNetns } from '../../lab/machine/netns.ts';
import { nodePaths } from '../../lab/plan/names.ts';
import { AgentClient } from '../../src/seinectl/agent-client.ts';
import { ConvergeLab } from '../support/converge-lab.ts';
import { addPods, denyAll, namespaceManifest, networkPolicy } from '../support/guarded-lab.ts';
import { traceInLab } from '../support/traced-lab.ts';

const execute = promisify(execFile);
let lab: ConvergeLab;
const client = `${demoNamespace}/client-1`;

beforeAll(async () => {
  lab = await ConvergeLab.start(2);
  await lab.startPods([namespaceManifest('guarded'), networkPolicy('guarded', 'deny-all', denyAll)]);
  await addPods(lab, 'guarded', ['db']);
});
afterAll(async () => lab?.remove());

describe('a connection from a socket of the pod', () => {
  it.each([
    ['80', `service:${demoNamespace}/web`, 'connected', 0],
    ['9', `${demoNamespace}/client-2`, 'refused', 0],
    ['80', 'guarded/db', 'timed out', 1],
    ['icmp', `${demoNamespace}/client-2`, 'answered', 0],
  ] as const)('to port %s of %s is %s', async (port, to, outcome, code) => {
    const { traces, lines, exitCode } = await traceInLab(lab, 1, { from: client, to, port, family: 'ipv4' }, { connect: true });
    expect(traces.map(({ connect }) => (typeof connect === 'object' ? connect.outcome : connect))).toEqual(traces.map(() => outcome));
    expect(lines).toContain(`connection ${outcome} after`);
    expect(exitCode).toBe(code);
  });
});

describe('a probe', () => {
  it.each([
    ['a pod of the other node', `${demoNamespace}/client-2`, 'allowed'],
    ['a Service', `service:${demoNamespace}/web`, 'allowed'],
    ['a guarded pod', 'guarded/db', 'denied'],
    ['the outside', 'outside', 'allowed'],
  ] as const)('to %s has the verdict of the flows', async (_, to, verdict) => {
    const { traces, lines } = await traceInLab(lab, 1, { from: client, to, port: '80' }, { probe: true });
    expect(lines).toContain(`packet ${verdict}`);
    expect(traces.map(({ probe }) => probe?.verdict)).toEqual(traces.map(() => verdict));
    expect(traces.map(({ paths }) => paths[0]?.bridge)).toEqual(traces.map(() => verdict));
  });
});

describe('a probe of the node, or of a host outside', () => {
  const question = (from: string, to: string) => ({ from: from === 'node' ? `node:${lab.node(1).name}` : from, to, port: '80' });

  it.each([
    ['node', `${demoNamespace}/client-1`, 'allowed'],
    ['node', `${demoNamespace}/client-2`, 'allowed'],
    ['node', `service:${demoNamespace}/web`, 'allowed'],
    ['node', 'guarded/db', 'allowed'], // kubelet tests its pods
    ['node', 'outside', 'allowed'],
    ['outside', `${demoNamespace}/client-1`, 'allowed'],
    ['outside', `service:${demoNamespace}/web`, 'allowed'],
    ['outside:198.51.100.7', 'guarded/db', 'denied'],
  ] as const)('from %s to %s has the verdict of the flows: %s', async (from, to, verdict) => {
    const { traces, lines, exitCode } = await traceInLab(lab, 1, question(from, to), { probe: true });
    expect([traces.map(({ probe }) => probe?.verdict), lines]).toEqual([traces.map(() => verdict), expect.any(String)]);
    expect([traces.map(({ paths }) => paths[0]?.bridge), lines]).toEqual([traces.map(() => verdict), expect.any(String)]);
    expect(exitCode).toBe(verdict === 'allowed' ? 0 : 1);
  });

  it('is refused for packets of another node, which its own node sends', async () => {
    const there = await traceInLab(lab, 1, { from: client, to: `${demoNamespace}/client-2`, family: 'ipv4' });
    const address = there.traces[0]?.packet.destination;
    const asked = { ...question(`tunnel:${lab.node(2).name}/${address}`, client), family: 'ipv4' };
    const { traces, lines } = await traceInLab(lab, 1, asked, { probe: true });
    expect(traces[0]?.probe?.verdict).toBe('unknown');
    expect(lines).toContain('arrives in a tunnel, which no packet of this node does: trace from NAMESPACE/POD with a kubeconfig');
  });
});

it('traces and probes of several users at once have their turns', async () => {
  const question = { from: client, to: `${demoNamespace}/client-2`, port: '80', family: 'ipv4' };
  const all = await Promise.all(Array.from({ length: 6 }, () => traceInLab(lab, 1, question, { probe: true })));
  expect(all.flatMap(({ traces }) => traces.map(({ probe }) => probe?.verdict))).toEqual(all.map(() => 'allowed'));
});

/** Runs a command on the network between the nodes. */
async function external(command: string): Promise<void> {
  const inside = inNetns(lab.plan.external.netns, 'sh', ['-c', command]);
  await execute(inside.command, inside.args);
}

describe('an injected fault is named with the pair of verdicts that differ, its place and a remedy', () => {
  const toOtherNode = { from: client, to: `${demoNamespace}/client-2`, port: '9', family: 'ipv4' };

  it('a flow that another program deleted while repair is paused: desired and bridge', async () => {
    const agent = new AgentClient(nodePaths(lab.plan.dir, lab.node(1).name).apiSocket);
    await agent.json('/v1/pause?seconds=120', 'POST');
    try {
      await lab.exec(1, 'ovs-ofctl', '-O', 'OpenFlow15', '--names', 'del-flows', 'br-int', 'table=tunnel,ip');
      const { traces, lines, exitCode } = await traceInLab(lab, 1, toOtherNode, { probe: true });
      expect(exitCode).toBe(4);
      expect(traces[0]?.paths[0]?.segments[0]?.difference?.table).toBe('tunnel');
      expect(lines).toContain('lacks the desired flows, first in table tunnel (peer/node-2)');
      expect(lines).toContain('`seinectl diff` and `seinectl status` on node-1');
    } finally {
      await agent.json('/v1/resume', 'POST');
    }
    await expect.poll(async () => (await traceInLab(lab, 1, toOtherNode)).exitCode, { timeout: 20_000 }).toBe(0);
  });

  it('a flow of another program that drops packets: bridge, or a probe that ends nowhere', async () => {
    const agent = new AgentClient(nodePaths(lab.plan.dir, lab.node(1).name).apiSocket);
    await agent.json('/v1/pause?seconds=120', 'POST');
    try {
      await lab.exec(
        1,
        'ovs-ofctl',
        '-O',
        'OpenFlow15',
        '--names',
        'add-flow',
        'br-int',
        'table=ttl,priority=300,ip,nw_proto=6,tp_dst=9,actions=drop',
      );
      const { lines, exitCode } = await traceInLab(lab, 1, toOtherNode, { probe: true });
      expect(exitCode).toBe(4);
      expect(lines).toContain('first in table ttl');
      expect(lines).toContain('packet lost (it ended on node-1 at no flow of Seine');
    } finally {
      await agent.json('/v1/resume', 'POST');
    }
    await expect.poll(async () => (await traceInLab(lab, 1, toOtherNode, { probe: true })).exitCode, { timeout: 20_000 }).toBe(0);
  });

  it('a firewall between the nodes: bridge and packet', async () => {
    await external(
      'nft "add table bridge t; add chain bridge t f { type filter hook forward priority 0; }; add rule bridge t f oifname u2 udp dport 6081 drop"',
    );
    try {
      const { traces, lines, exitCode } = await traceInLab(lab, 1, toOtherNode, { probe: true });
      expect([traces[0]?.paths[0]?.bridge, traces[0]?.probe?.verdict, exitCode]).toEqual(['allowed', 'lost', 4]);
      expect(lines).toContain('did not arrive on node-2: `seinectl check --peer node-2` on node-1 tests network, firewall and MTU');
    } finally {
      await external('nft delete table bridge t');
    }
  });

  it('a network whose MTU is too small: bridge and large packets', async () => {
    await external('ip link set u2 mtu 1400');
    try {
      const { traces, lines, exitCode } = await traceInLab(lab, 1, toOtherNode, { probe: true });
      expect([traces[0]?.paths[0]?.bridge, traces[0]?.probe?.verdict, exitCode]).toEqual(['allowed', 'lost', 4]);
      expect(lines).toContain('the MTU of the network is too small; `seinectl check --peer node-2` on node-1');
    } finally {
      await external('ip link set u2 mtu 1500');
    }
    expect((await traceInLab(lab, 1, toOtherNode, { probe: true })).exitCode).toBe(0);
  });

  it('a cached decision that is out of date: bridge and connection', async () => {
    expect((await traceInLab(lab, 1, toOtherNode, { connect: true })).lines).toContain('connection refused');
    const port = await lab.nodeEnd(1, 'client-1');
    const megaflows = (await lab.exec(1, 'ovs-appctl', 'dpctl/dump-flows', '-m', '--names')).split('\n');
    const opening = megaflows.filter(
      (line) => line.includes('recirc_id(0)') && line.includes(`in_port(${port})`) && line.includes('ipv4('),
    );
    expect(opening).not.toEqual([]);
    for (const line of opening) {
      const [, key = ''] = /^(.*?), packets:/.exec(line) ?? [];
      await lab.exec(1, 'ovs-appctl', 'dpctl/mod-flow', key, ''); // no action: kernels before 6.8 have none that drops
    }
    const { traces, lines, exitCode } = await traceInLab(lab, 1, toOtherNode, { probe: true, connect: true });
    expect([traces[0]?.paths[0]?.bridge, exitCode]).toEqual(['allowed', 4]);
    expect(lines).toContain('connection timed out after');
    expect(lines).toContain('`ovs-appctl revalidator/purge` on the node');
    await lab.exec(1, 'ovs-appctl', 'revalidator/purge');
    expect((await traceInLab(lab, 1, toOtherNode, { connect: true })).lines).toContain('connection refused');
  });

  it('a firewall on the node: bridge and connection', async () => {
    const address = lab.plan.external.outside.find((ip) => !ip.includes(':')) ?? '';
    const asked = { from: client, to: address, port: '80', family: 'ipv4' };
    expect((await traceInLab(lab, 1, asked, { connect: true })).lines).toContain('connection connected');
    await lab.exec(
      1,
      'nft',
      'add table inet hardening; add chain inet hardening locked { type filter hook forward priority 0; policy drop; }',
    );
    try {
      const { lines, exitCode } = await traceInLab(lab, 1, asked, { connect: true });
      expect(exitCode).toBe(4);
      expect(lines).toMatch(/connection timed out after 3\d{3} ms/);
      expect(lines).toContain('`seinectl check` names it as firewall.pods');
    } finally {
      await lab.exec(1, 'nft', 'delete', 'table', 'inet', 'hardening');
    }
  });
});
