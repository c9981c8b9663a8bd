import { execFile } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { inNetns } from '../../lab/machine/netns.ts';
import { labPaths, nodePaths } from '../../lab/plan/names.ts';
import type { Finding } from '../../src/api/check.ts';
import { ConvergeLab } from '../support/converge-lab.ts';
import { EmptyRoot } from '../support/empty-root.ts';

/** `seinectl check` on a node with every fault that a lab allows; repaired by the commands that it prints. */
let lab: ConvergeLab;

interface Ran {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

function execute(command: string, args: readonly string[], env: NodeJS.ProcessEnv = process.env): Promise<Ran> {
  return new Promise((resolve) => {
    execFile(command, args, { env, timeout: 60_000 }, (error, stdout, stderr) => {
      resolve({ code: typeof error?.code === 'number' ? error.code : error ? -1 : 0, stdout, stderr });
    });
  });
}

/** Runs on node 1, as a person there would. */
async function onNode(command: string): Promise<Ran> {
  const paths = nodePaths(lab.plan.dir, lab.node(1).name);
  const inside = inNetns(lab.node(1).netns, 'sh', ['-c', command]);
  return await execute(inside.command, inside.args, {
    ...process.env,
    PATH: `${labPaths(lab.plan.dir).bin}:${process.env['PATH']}`,
    SEINE_SOCKET: paths.apiSocket,
    SEINE_CNI_CONF_DIR: paths.cniConfFolder,
    SEINE_CNI_BIN_DIR: `${labPaths(lab.plan.dir).bin}:/usr/lib/cni`,
    OVS_RUNDIR: paths.dir,
  });
}

async function breakNode(command: string): Promise<void> {
  const { code, stderr } = await onNode(command);
  expect([command, code, stderr]).toEqual([command, 0, '']);
}

async function external(command: string): Promise<void> {
  const inside = inNetns(lab.plan.external.netns, 'sh', ['-c', command]);
  expect((await execute(inside.command, inside.args)).stderr).toBe('');
}

/** Findings that are not `ok`, by check. */
async function troubles(args = ''): Promise<{ readonly code: number; readonly found: ReadonlyMap<string, readonly Finding[]> }> {
  const { code, stdout, stderr } = await onNode(`seinectl check --json ${args}`);
  if (stdout === '') throw new Error(stderr);
  const { findings } = JSON.parse(stdout) as { findings: Finding[] };
  expect(findings.length).toBeGreaterThan(3);
  return {
    code,
    found: Map.groupBy(
      findings.filter(({ state }) => state !== 'ok'),
      ({ check }) => check,
    ),
  };
}

/** Executes a command that a finding prints. */
async function repair(found: ReadonlyMap<string, readonly Finding[]>, check: string): Promise<void> {
  for (const { remedy: command } of found.get(check) ?? []) {
    const { code, stderr } = await onNode(command ?? 'false');
    expect([command, code, stderr]).toEqual([command, 0, '']);
  }
}

beforeAll(async () => {
  // The far end of a pre-plugged port does what a pod with its own pair can leave to the data path.
  lab = await ConvergeLab.start(2, undefined, { podInterface: 'veth' });
  await lab.startPods();
});
afterAll(async () => {
  await lab?.remove();
});

it('finds no problem on a healthy node', async () => {
  const { code, stdout, stderr } = await onNode('seinectl check');
  expect([code, stdout.split('\n').filter((line) => line !== '' && !line.startsWith('ok '))]).toEqual([0, []]);
  expect(stdout).toContain('1 of 1 other nodes answer, with packets of 1430 bytes');
  expect(stdout).toMatch(/^ok {7}cni\.status/m);
  expect(stderr).toMatch(/checks passed$/m);
});

it('prints the same from one file, in a root that has nothing but the agent’s socket', async () => {
  const root = new EmptyRoot();
  const signal = AbortSignal.timeout(120_000);
  try {
    await root.build(signal);
    const bound = `mkdir $root/run/seine; mount --bind ${dirname(nodePaths(lab.plan.dir, lab.node(1).name).apiSocket)} $root/run/seine`;
    const asked = ['get', 'nodes', '-o', 'json'];
    const { stdout } = await onNode(`seinectl ${asked.join(' ')}`);
    expect(await root.run(asked, signal, bound)).toMatchObject({ code: 0, stdout, stderr: '' });
  } finally {
    root.remove();
  }
});

it('finds changes on the node while repair was paused, and prints their remedies', async () => {
  const node = nodePaths(lab.plan.dir, lab.node(1).name);
  const pod = lab.pods.find(({ node: name, ips }) => name === lab.node(1).name && !ips.some((ip) => lab.node(1).ips.includes(ip)));
  const inPod = inNetns(pod?.netns ?? '', 'ethtool', ['-K', 'eth0', 'tx', 'on']);
  await breakNode('seinectl pause --for 10m');
  await execute(inPod.command, inPod.args);
  await breakNode("ip -4 route del $(ip -4 route show proto 94 | grep '^10.244.*via' | cut -d ' ' -f 1)");
  await breakNode('nft delete table inet seine');
  await breakNode('ovs-ofctl -O OpenFlow15 del-flows br-int table=0,in_port=32768');
  await breakNode('sysctl -qw net.ipv4.conf.antrea-gw0.send_redirects=1');
  writeFileSync(join(node.cniConfFolder, '05-other.conflist'), '{"cniVersion":"1.0.0","name":"other","plugins":[{"type":"bridge"}]}');

  const { code, found } = await troubles();
  expect(code).toBe(1);
  expect(new Set(found.keys())).toEqual(
    new Set([
      'agent.repair',
      'node.flows',
      'node.routes',
      'node.firewall',
      'node.interfaces',
      'kernel.settings',
      'pods.checksum',
      'tunnel.reach',
      'cni.config',
    ]),
  );
  expect(found.get('tunnel.reach')?.[0]?.what).toMatch(/no UDP 6081 from .* arrived/);
  expect(found.get('pods.checksum')?.[0]?.what).toContain(`${pod?.namespace}/${pod?.name}: eth0 leaves checksums`);
  expect(found.get('node.routes')?.[0]).toMatchObject({ remedy: 'seinectl resume', what: expect.stringContaining('route ') });
  for (const check of ['kernel.settings', 'pods.checksum', 'agent.repair', 'cni.config']) await repair(found, check);
  await expect.poll(() => troubles(), { timeout: 60_000 }).toMatchObject({ code: 0, found: new Map() });
});

it('finds problems around the node: a small MTU, then a filter, the API server, a foreign chain, another socket', async () => {
  await external('ip link set u2 mtu 1400');
  const narrow = await troubles('--peer node-2');
  expect(narrow.found.get('tunnel.mtu')?.[0]).toMatchObject({
    what: expect.stringContaining('IPv4 up to 1350, IPv6 up to 1350'),
    remedy: expect.stringContaining('defaultMTU: 1350'),
  });
  await external('ip link set u2 mtu 1500');

  const { cniConf } = nodePaths(lab.plan.dir, lab.node(1).name);
  const conflist = readFileSync(cniConf, 'utf8');
  writeFileSync(cniConf, conflist.replace('/run/cni.sock', '/run/old.sock'));
  await external(
    'nft "add table bridge t; add chain bridge t f { type filter hook forward priority 0; }; add rule bridge t f oifname u2 udp dport 6081 drop"',
  );
  await breakNode('nft "add table inet hardening; add chain inet hardening locked { type filter hook forward priority 0; policy drop; }"');
  await lab.apiServer('stop');
  const { code, found } = await troubles();
  // The agent itself may have found meanwhile that the other node does not answer.
  expect([code, new Set([...found.keys()].filter((check) => check !== 'agent.problems'))]).toEqual([
    1,
    new Set(['tunnel.reach', 'api.server', 'api.sources', 'clock', 'firewall.pods', 'cni.config', 'cni.status']),
  ]);
  expect(found.get('tunnel.reach')?.[0]?.what).toContain(`${lab.node(2).ips[0]} answers outside of the tunnel`);
  expect(found.get('tunnel.reach')?.[0]?.remedy).toContain(
    `iptables -I INPUT -p udp --dport 6081 -s ${lab.node(1).ips[0]} -j ACCEPT    # on node-2`,
  );
  expect(found.get('clock')?.[0]?.state).toBe('unknown');

  await lab.apiServer('start');
  await external('nft delete table bridge t');
  for (const check of ['cni.config', 'firewall.pods']) await repair(found, check);

  // A filter that drops the replies themselves: only that is to be fixed.
  await breakNode(
    'nft "add table inet deaf; add chain inet deaf in { type filter hook input priority 0; }; add rule inet deaf in iifname antrea-gw0 drop"',
  );
  const deaf = (await troubles()).found;
  expect([...deaf.keys()].filter((check) => !/^(api|clock|agent\.problems)/.test(check)).toSorted()).toEqual([
    'firewall.pods',
    'tunnel.reach',
  ]);
  expect(deaf.get('tunnel.reach')?.map(({ state, remedy }) => [state, remedy])).toEqual([
    ['unknown', expect.stringMatching(/^fix firewall\.pods first/)],
  ]);
  await breakNode('nft delete table inet deaf');
  expect(readFileSync(cniConf, 'utf8')).toBe(conflist);
  // The agent retries an unreachable API server with a delay, and a node that it lost every second.
  const left = async () => [...(await troubles()).found.keys()].filter((check) => !/^(api|clock)/.test(check));
  await expect.poll(left, { timeout: 60_000 }).toEqual([]);
});

it('reports available findings without ovs-vswitchd, and without an agent', async () => {
  await lab.killOvs(1, 'ovs-vswitchd');
  const { code, found } = await troubles('--timeout 8s');
  expect([code, found.get('ovs.connection')?.[0]?.what]).toEqual([1, expect.stringContaining('ovs-vswitchd does not answer')]);
  expect(found.get('agent.ready')?.[0]?.state).toBe('problem');
  await lab.agent(1, 'kill');
  const without = await troubles();
  expect([without.code, [...without.found.keys()]]).toEqual([3, ['agent', 'cni.status']]);
});
