import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { chmodSync, lchownSync, lstatSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { get, type IncomingMessage } from 'node:http';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { json } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { inNetns } from '../../lab/machine/netns.ts';
import { labPaths, nodePaths } from '../../lab/plan/names.ts';
import type { AgentStatus } from '../../src/api/status.ts';
import { ConvergeLab, until } from '../support/converge-lab.ts';
import { runProgram } from '../support/run-program.ts';

/** A node under attack: by local users, writers of API objects, callers of the plugin. */
let lab: ConvergeLab;
let scratch: string;
const paths = () => nodePaths(lab.plan.dir, lab.node(1).name);

beforeAll(async () => {
  scratch = mkdtempSync(join(tmpdir(), 'seine-sec-'));
  lab = await ConvergeLab.start(2);
});
afterAll(async () => {
  await lab?.remove();
  rmSync(scratch, { recursive: true, force: true });
});

async function status(): Promise<AgentStatus> {
  const response = await new Promise<IncomingMessage>((resolve, reject) => {
    get({ socketPath: paths().apiSocket, path: '/v1/status', agent: false }, resolve).once('error', reject);
  });
  return (await json(response)) as AgentStatus;
}

function everythingIn(folder: string): string[] {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' }).map((name) => join(folder, name));
}

describe('a local user', () => {
  it('finds no open file or socket of the agent', () => {
    const { run, stateDir, agentConfig, agentLog, agentPid, kubeconfig, cniConfFolder, portsNamespace } = paths();
    const ours = [run, stateDir, cniConfFolder].flatMap((folder) => [folder, ...everythingIn(folder)]);
    const open = [...ours, agentConfig, agentLog, agentPid, kubeconfig, labPaths(lab.plan.dir).kubeconfig, lab.plan.dir]
      // A namespace is the kernel's file, of mode 0444; its folder is checked as well.
      .filter((path) => path !== portsNamespace)
      // The agent renames complete files into place: a name that existed a moment ago may be gone.
      .map((path) => ({ path, stat: lstatSync(path, { throwIfNoEntry: false }) }))
      .flatMap(({ path, stat }) =>
        stat && !stat.isSymbolicLink() && ((stat.mode & 0o077) !== 0 || stat.uid !== 0) ? [{ path, stat }] : [],
      )
      .map(({ path, stat }) => `${(stat.mode & 0o777).toString(8)} ${path}`);
    expect(open).toEqual([]);
  });

  it.each(['cniSocket', 'apiSocket'] as const)(
    'gets no answer on %s, even if its mode and its folders permit the connection',
    async (which) => {
      const path = paths()[which];
      const ask = `
      const socket = require('node:net').connect(${JSON.stringify(path)});
      const request = JSON.stringify({ v: 1, env: { CNI_COMMAND: 'VERSION' }, conf: '', deadlineMs: 1000, attempt: 1 });
      const header = Buffer.alloc(4);
      header.writeUInt32BE(request.length);
      socket.write(${which === 'cniSocket'} ? Buffer.concat([header, Buffer.from(request)]) : 'GET /readyz HTTP/1.0\\r\\n\\r\\n');
      let heard = 0;
      socket.on('data', (bytes) => (heard += bytes.length)).on('error', () => {}).on('close', () => console.log('heard', heard > 0));
    `;
      const anyFile = ['--reuid=65534', '--clear-groups', '--inh-caps=+dac_override', '--ambient-caps=+dac_override'];
      chmodSync(path, 0o666);
      try {
        const asRoot = await runProgram(process.execPath, ['-e', ask]);
        const asUnprivileged = await runProgram('setpriv', [...anyFile, process.execPath, '-e', ask]);
        expect([asRoot.stdout, asUnprivileged.stdout]).toEqual(['heard true\n', 'heard false\n']);
      } finally {
        chmodSync(path, 0o600);
      }
    },
  );

  it('learns nothing about pods from the metrics port, which only this host reaches', async () => {
    const ask = "fetch('http://127.0.0.1:10349/v1/pods').then(({ status }) => console.log(status))";
    const inside = inNetns(lab.node(1).netns, process.execPath, ['-e', ask]);
    expect((await runProgram(inside.command, inside.args)).stdout).toBe('404\n');
    const listening = inNetns(lab.node(1).netns, 'ss', ['-Hltn', 'sport', '=', ':10349']);
    expect((await runProgram(listening.command, listening.args)).stdout.trim().split(/\s+/)[3]).toBe('127.0.0.1:10349');
  });
});

describe('a writer of API objects', () => {
  const create = async (path: string, object: object): Promise<void> => {
    await lab.api.send({ method: 'POST', path, body: object }, AbortSignal.timeout(10_000));
  };
  const node = async (name: string, podCIDR: string, address: string): Promise<void> => {
    const body = { apiVersion: 'v1', kind: 'Node', metadata: { name }, spec: { podCIDR, podCIDRs: [podCIDR] } };
    await create('/api/v1/nodes', body);
    const addresses = [{ type: 'InternalIP', address }];
    await lab.api.send(
      {
        method: 'PATCH',
        path: `/api/v1/nodes/${name}/status`,
        contentType: 'application/merge-patch+json',
        body: { status: { addresses } },
      },
      AbortSignal.timeout(10_000),
    );
  };
  const routes = async (): Promise<string> => {
    const [v4, v6] = [await lab.exec(1, 'ip', '-4', 'route'), await lab.exec(1, 'ip', '-6', 'route')];
    return `${v4}${v6}`;
  };

  it('attracts no traffic of others to its node, and ends no agent', async () => {
    const [before, pid] = [await routes(), (await status()).pid];
    const honest = await status();
    const [own] = honest.network?.podCidrs ?? [];
    const [transport] = honest.network?.transport ?? [];
    const other = (await lab.api.send({ method: 'GET', path: `/api/v1/nodes/${lab.node(2).name}` }, AbortSignal.timeout(10_000))) as {
      readonly spec: { readonly podCIDR: string };
    };
    const peer = other.spec.podCIDR;
    const claims = {
      'evil-everything': ['0.0.0.0/0', '203.0.113.1'],
      'evil-half': ['0.0.0.0/1', '203.0.113.2'],
      'evil-own': [`${own}`, '203.0.113.3'],
      'evil-peer': [peer, '203.0.113.4'],
      'evil-underlay': [`${transport?.replace(/\d+$/, '0')}/24`, '203.0.113.5'],
      'evil-services': [`${honest.network?.serviceCidrs[0]}`, '203.0.113.6'],
      'evil-single': ['10.123.0.1/32', '203.0.113.7'],
      'evil-single6': ['fd00:123::1/128', '203.0.113.8'],
      'evil-tunnel': ['10.124.0.0/24', `${own?.replace(/0\/\d+$/, '9')}`],
    };
    for (const [name, [cidr = '', address = '']] of Object.entries(claims)) await node(name, cidr, address);
    await until(
      async () => (await status()).objections.count === Object.keys(claims).length,
      10_000,
      () => 'not all are refused',
    );
    expect(await routes()).toBe(before);
    expect(await status()).toMatchObject({ pid, readiness: { state: 'ready' } });
    expect((await lab.metrics(1)).get('rejected_objects{kind="Node"}')).toBe(Object.keys(claims).length);
    const said = (await status()).objections.first.map(({ name, reasons }) => `${name}: ${reasons.join('; ')}`);
    expect(said.find((line) => line.startsWith('evil-everything'))).toContain('larger than the network of any node');
    expect(said.find((line) => line.startsWith('evil-peer'))).toMatch(/overlaps .* of node .*, which was there before/);
    for (const name of Object.keys(claims))
      await lab.api.send({ method: 'DELETE', path: `/api/v1/nodes/${name}` }, AbortSignal.timeout(10_000));
    await until(
      async () => (await status()).objections.count === 0,
      10_000,
      () => 'what is gone is still named',
    );
  });

  it('points no Service at the node’s own addresses', async () => {
    const service = { metadata: { name: 'evil' }, spec: { ports: [{ name: 'http', port: 80 }] } };
    await create('/api/v1/namespaces/default/services', { apiVersion: 'v1', kind: 'Service', ...service });
    const slice = {
      apiVersion: 'discovery.k8s.io/v1',
      kind: 'EndpointSlice',
      metadata: { name: 'evil-1', labels: { 'kubernetes.io/service-name': 'evil' } },
      addressType: 'IPv4',
      ports: [{ name: 'http', port: 80, protocol: 'TCP' }],
      endpoints: ['198.51.100.7', '127.0.0.1', '169.254.169.254', '169.254.0.253', '224.0.0.1'].map((address) => ({
        addresses: [address],
      })),
    };
    const path = '/apis/discovery.k8s.io/v1/namespaces/default/endpointslices';
    const refused = await create(path, slice).then(
      () => undefined,
      (thrown: unknown) => String(thrown),
    );
    if (refused !== undefined) {
      // The API server of the lab validates like a real one; it accepts only multicast.
      expect(refused).toContain('127.0.0.1');
      await create(path, { ...slice, endpoints: slice.endpoints.filter((_, at) => at === 0 || at === 4) });
    }
    await until(
      async () => (await status()).objections.first.some(({ kind, name }) => kind === 'Service' && name === 'default/evil'),
      10_000,
      () => 'the Service is not named',
    );
    const dump = await lab.exec(1, 'ovs-ofctl', '-O', 'OpenFlow15', 'dump-flows', 'br-int');
    expect(dump).toContain('dst=198.51.100.7:80');
    expect(dump).not.toMatch(/nat\(dst=(127|224|169)\./);
  });
});

describe('a caller of the plugin', () => {
  const inScratch = (name: string): string => join(scratch, name);
  /** A namespace that would be valid, were it not for its path. */
  const bystander = `sec-${randomBytes(4).toString('hex')}`;
  afterAll(() => execFileSync('ip', ['netns', 'del', bystander]));
  beforeAll(() => {
    writeFileSync(inScratch('file'), '');
    execFileSync('mkfifo', [inScratch('pipe')]);
    symlinkSync(`/run/netns/${lab.node(1).netns}`, inScratch('link'));
    execFileSync('ip', ['netns', 'add', bystander]);
    symlinkSync(`/run/netns/${bystander}`, inScratch('pod-link'));
    symlinkSync('/run/netns', inScratch('strangers'));
    lchownSync(inScratch('strangers'), 65534, 65534);
  });
  const conf = () => readFileSync(paths().cniConfAlone, 'utf8');
  const call = async (variables: Record<string, string>, stdin?: string): Promise<{ code: number; msg: string; tookMs: number }> => {
    const { plugins, ...network } = JSON.parse(conf()) as { plugins: object[]; name: string; cniVersion: string };
    const env = {
      CNI_COMMAND: 'ADD',
      CNI_CONTAINERID: 'evil',
      CNI_IFNAME: 'eth0',
      CNI_NETNS: '/nowhere',
      CNI_PATH: labPaths(lab.plan.dir).bin,
      ...variables,
    };
    const startedMs = performance.now();
    const input = stdin ?? JSON.stringify({ name: network.name, cniVersion: network.cniVersion, ...plugins[0] });
    const { stdout } = await runProgram(join(labPaths(lab.plan.dir).bin, 'seine'), [], { stdin: input, env });
    const { code, msg } = JSON.parse(stdout) as { code: number; msg: string };
    return { code, msg, tookMs: performance.now() - startedMs };
  };

  /** Sends a request that no plugin of ours would send. */
  const sendRaw = async (request: object): Promise<void> => {
    const body = Buffer.from(JSON.stringify(request));
    const header = Buffer.alloc(4);
    header.writeUInt32BE(body.length);
    const socket = connect(paths().cniSocket);
    socket.write(Buffer.concat([header, body]));
    socket.resume();
    await once(socket, 'close');
  };

  it.each<[string, () => string]>([
    ['a file', () => inScratch('file')],
    ['a pipe without a writer', () => inScratch('pipe')],
    ['a folder', () => scratch],
    ['a device', () => '/dev/zero'],
    ['nothing', () => inScratch('nothing')],
    ['the agent’s own namespace', () => '/proc/self/ns/net'],
    ['a link to the agent’s own namespace', () => inScratch('link')],
    ['the agent’s own namespace, by a way around', () => `/run/netns/../../run/netns/${lab.node(1).netns}`],
    ['a namespace of another kind', () => '/proc/self/ns/mnt'],
    ['the agent’s own namespace, through a process’s root', () => `/proc/self/root/run/netns/${lab.node(1).netns}`],
    ['what a process has open', () => '/proc/self/fd/0'],
    ['a pod’s namespace, by a link that is not root’s', () => join(inScratch('strangers'), bystander)],
    ['a pod’s namespace, by a link at its end', () => inScratch('pod-link')],
    ['a pod’s namespace, by a way around', () => `/run/netns/../netns/${bystander}`],
    ['a path of two lines', () => `/run/netns/${bystander}\n{"level":"error"}`],
  ])('gets no interface into %s', async (_, path) => {
    const { code, tookMs } = await call({ CNI_NETNS: path() });
    expect(code).toBe(4);
    expect(tookMs).toBeLessThan(5_000);
    expect((await status()).pods).toMatchObject({ attached: 0 });
  });

  it.each<[string, Record<string, string>]>([
    ['container', { CNI_CONTAINERID: '../../etc/passwd' }],
    ['interface', { CNI_IFNAME: '../eth0' }],
    ['interface with an escape sequence', { CNI_IFNAME: '\u001b[2J' }],
    ['pod', { CNI_ARGS: 'K8S_POD_NAMESPACE=default;K8S_POD_NAME=a/../b' }],
    ['pod of two lines', { CNI_ARGS: 'K8S_POD_NAMESPACE=default;K8S_POD_NAME=a\nb' }],
  ])('cannot inject through a name: %s', async (_, variables) => {
    const { code, msg } = await call({ CNI_NETNS: '/proc/self/ns/net', ...variables });
    expect(code).toBe(4);
    // biome-ignore lint/suspicious/noControlCharactersInRegex: these must not be printed
    expect(msg).not.toMatch(/[\u0000-\u001f]/);
  });

  it('cannot make it read without end, recurse without end or change the prototype', async () => {
    const large = await call({}, `{"name":"x","filler":"${'x'.repeat(2_000_000)}"}`);
    const deep = await call({}, `{"name":"x","a":${'['.repeat(100_000)}${']'.repeat(100_000)}}`);
    const polluting = await call(
      { CNI_COMMAND: 'STATUS' },
      '{"__proto__":{"cniVersion":"1.1.0","name":"x"},"constructor":{"prototype":{}}}',
    );
    expect([large.code, deep.code]).toEqual([5, 6]);
    expect(polluting.msg).toContain('the network has no name');
  });

  it('writes no line of its own into the log', async () => {
    const fake = '\n{"level":"error","msg":"forged"}\u001b[2J\u2028';
    for (const variables of [
      { CNI_CONTAINERID: `c${fake}` },
      { CNI_IFNAME: `e${fake}` },
      { CNI_ARGS: `K8S_POD_NAME=a${fake};IgnoreUnknown=${fake}` },
      { CNI_NETNS: `/run/netns/${fake}` },
    ])
      expect((await call(variables)).code).toBe(4);
    await call({}, JSON.stringify({ name: `n${fake}`, cniVersion: '1.0.0', agentSocket: paths().cniSocket }));
    await sendRaw({ v: 1, env: { CNI_COMMAND: `X${fake}`, CNI_CONTAINERID: fake }, conf: fake, deadlineMs: 1_000, attempt: 1 });
    const text = readFileSync(paths().agentLog, 'utf8');
    const lines = text.split('\n').filter((line) => line.includes('forged'));
    expect(lines.length, 'what came by the socket is logged').toBeGreaterThan(0);
    for (const line of lines) expect((JSON.parse(line) as { msg: string }).msg).toBe('CNI call failed');
    // biome-ignore lint/suspicious/noControlCharactersInRegex: these must not be printed
    expect(text).not.toMatch(/[\u0000-\u0009\u000b-\u001f]/);
  });

  it('left nothing behind, and the agent is healthy', async () => {
    const links = await lab.exec(1, 'ip', '-o', 'link', 'show', 'type', 'veth');
    expect(links).not.toContain('pod-');
    const { pods, readiness } = await status();
    expect(readiness.state).toBe('ready');
    expect(pods.pools.map(({ allocated }) => allocated)).toEqual([0, 0]);
  });
});
