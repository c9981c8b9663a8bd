import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { parse as parseYaml } from 'yaml';
import { recordingTerminal } from '../../test/support/recording-terminal.ts';
import type { Entry } from '../agent-api/entry.ts';
import type { PodView } from '../agent-api/object.ts';
import type { LookStatus } from '../agent-api/problem.ts';
import type { AgentStatus } from '../agent-api/status.ts';
import { run } from './program.ts';

const status: AgentStatus = {
  node: 'node-1',
  versions: { seine: '0.1.0', node: 'v24', ovs: '3.1.0' },
  pid: 7,
  startedAt: '2026-01-01T00:00:00.000Z',
  uptimeSeconds: 61,
  readiness: { state: 'ready' },
  bridge: { name: 'br-int', dataPath: 'system' },
  network: {
    mode: 'encap',
    tunnel: 'geneve',
    transport: ['192.0.2.1'],
    podCidrs: ['10.10.0.0/22'],
    serviceCidrs: ['10.96.0.0/12'],
    gateway: 'antrea-gw0',
    mtu: 1450,
    snat: true,
  },
  pods: { attached: 1, pools: [{ cidr: '10.10.0.0/22', size: 1_021, allocated: 1, quarantined: 2 }] },
  peers: 2,
  services: 3,
  proxy: { proxyAll: 'on' },
  networkPolicy: { enforcement: 'enforced', objects: 3, selecting: 2, isolatedPods: 4, closedPods: [], shortages: [] },
  objections: { count: 0, first: [] },
  sources: [{ kind: 'Node', synced: true, state: 'in step', doing: 'watch', objects: 3, failures: 0, invalid: [] }],
  connections: [{ name: 'ovsdb', up: true, connects: 1, counters: { transactions: 3 } }],
  parts: [{ part: 'bridge', wanted: 160, held: 160, revision: 4, realizedRevision: 4, drift: 0, refused: [], contested: 0 }],
  eventLoop: { lagMsMax: 3 },
};

function look(name: string, ageSeconds: number | null): LookStatus {
  const state = ageSeconds === null ? 'not yet' : ageSeconds > 6 ? 'overdue' : 'fresh';
  return { name, state, ageSeconds, everySeconds: 4, roundSeconds: 6, tookMs: 1 };
}

const pod: PodView = {
  name: 'default/web-0',
  state: 'ok',
  owners: [`pod/default/web-0/eth0@${'ab'.repeat(32)}`],
  flows: { wanted: 33, held: 33, changed: 0 },
  host: { wanted: 0, held: 0, changed: 0 },
  differences: [],
  containerId: 'ab'.repeat(32),
  interface: 'eth0',
  hostInterface: 'web0-1234567',
  addresses: ['10.10.0.2'],
  mac: '0e:00:00:00:00:05',
  netns: '/run/netns/x',
  wantedOfPort: 32_784,
  ofPort: 32_784,
  link: 'up',
  mtu: 1_450,
  egress: null,
  ingress: null,
  hostPorts: [],
};
const sick: PodView = {
  ...pod,
  name: 'default/a-1',
  state: 'changed',
  link: 'missing',
  differences: ['host interface\u001b[2J is missing'],
};
const missing: Entry = {
  kind: 'flow',
  name: 'x',
  state: 'missing',
  owners: ['node'],
  wanted: 'table=output, priority=0 actions=drop',
  actual: null,
};

let folder = '';
let server: Server | undefined;
let answers: Record<string, unknown> = {};
let asked: string[] = [];

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'seinectl-'));
  asked = [];
  answers = {
    '/v1/status': status,
    '/v1/pods': { items: [pod, sick] },
    '/v1/diff': { items: [] },
    '/v1/owners': { items: [{ cookie: '0x1012345', owner: 'node' }] },
  };
  server = createServer((request, response) => {
    asked.push(request.method === 'GET' ? (request.url ?? '') : `${request.method} ${request.url}`);
    const answer = answers[request.url?.split('?')[0] ?? ''];
    response.writeHead(answer === undefined ? 404 : answer instanceof Error ? 503 : 200);
    response.end(answer instanceof Error ? `[UNAVAILABLE] ${answer.message}\n` : JSON.stringify(answer ?? 'nothing'));
  });
  await new Promise<void>((resolve) => server?.listen(join(folder, 'agent.sock'), resolve));
});
afterEach(async () => {
  server?.closeAllConnections();
  await new Promise((resolve) => server?.close(resolve));
  rmSync(folder, { recursive: true, force: true });
});

async function seinectl(args: readonly string[], { stdin = '', socket = join(folder, 'agent.sock') } = {}) {
  const { terminal, out, err } = recordingTerminal();
  const code = await run(['--socket', socket, ...args], terminal, Readable.from([stdin]));
  return { code, out: out.join('\n'), err: err.join('\n') };
}

describe('status', () => {
  it('says at once that all is well, with 0', async () => {
    const { code, out } = await seinectl(['status']);
    expect(code).toBe(0);
    expect(out.split('\n').slice(0, 4)).toEqual([
      'node-1  READY  up 1m 1s',
      'Seine 0.1.0, Node v24, Open vSwitch 3.1.0; br-int (system); pid 7',
      '',
      'No problems.',
    ]);
    expect(out).toContain('Policies:  enforced, 2 of 3 NetworkPolicies select 4 pods here\n');
    expect(out).toContain('10.10.0.0/22: 1 of 1021 in use, 2 in quarantine');
  });

  it('names the policy mode of a node that does not enforce', async () => {
    answers['/v1/status'] = { ...status, networkPolicy: { ...status.networkPolicy, mode: 'audit' } };
    expect((await seinectl(['status'])).out).toContain('Policies:  audit, 2 of 3 NetworkPolicies select 4 pods here\n');
  });

  it('names objects that are not served as specified, and lets none of them act on the terminal', async () => {
    const first = [{ kind: 'Node', name: 'evil\u001b[2J', reasons: ['pod network 0.0.0.0/0 is larger than the network of any node'] }];
    answers['/v1/status'] = { ...status, objections: { count: 3, first } };
    const { out } = await seinectl(['status']);
    expect(out).toContain('! Node evil\\u001b[2J is not served as specified: pod network 0.0.0.0/0 is larger than');
    expect(out).toContain('! 2 more objects are not served as specified');
  });

  it('puts what is wrong first, with 1 while not ready', async () => {
    answers['/v1/status'] = {
      ...status,
      readiness: { state: 'starting', reason: 'the Node has no pod CIDR' },
      networkPolicy: { enforcement: 'not enforced', objects: 2 },
      pods: { attached: 1, pools: [{ cidr: '10.10.0.0/30', size: 1, allocated: 1, quarantined: 0 }] },
      sources: [
        {
          kind: 'Service',
          synced: false,
          state: 'not confirmed',
          doing: 'wait',
          objects: 5,
          failures: 2,
          invalid: [],
          lastError: { message: '[UNAVAILABLE] refused', ageSeconds: 4 },
        },
        { kind: 'Node', synced: true, state: 'held', doing: 'watch', objects: 9, failures: 0, invalid: [], held: { known: 9, missing: 8 } },
        {
          kind: 'Pod',
          synced: true,
          state: 'refused',
          doing: 'watch',
          objects: 1,
          failures: 3,
          invalid: [],
          lastError: { message: '[REFUSED] the API server answered 403 Forbidden', ageSeconds: 9 },
        },
        { kind: 'EndpointSlice', synced: true, state: 'behind', doing: 'watch', objects: 2, failures: 0, invalid: [] },
      ],
      connections: [{ name: 'openflow', up: false, connects: 3, counters: {}, lastError: { message: 'connect ENOENT', ageSeconds: 2 } }],
      parts: [
        {
          ...status.parts[0],
          held: null,
          realizedRevision: -1,
          drift: 4,
          contested: 1,
          refused: [{ owner: 'service/x:y', error: { message: '[REFUSED] OFPBAC_BAD_OUT_GROUP', ageSeconds: 1 } }],
        },
      ],
    };
    const { code, out } = await seinectl(['status']);
    expect(code).toBe(1);
    expect(out.split('\n').filter((line) => /^[!*]/.test(line))).toEqual([
      '! not ready (starting): the Node has no pod CIDR',
      '! OpenFlow, flows is not connected: connect ENOENT (2s ago)',
      '! Service: not confirmed by the API server; 5 objects from before: refused (4s ago)',
      '! Node: a list lacks 8 of 9 objects; nothing is removed until a second list agrees',
      '! Pod: the API server does not let us read it; 1 object from before: the API server answered 403 Forbidden (9s ago)',
      '! EndpointSlice: the API server is behind what it said before; 2 objects from before',
      '! bridge (flows, groups): entries of service/x:y are refused: OFPBAC_BAD_OUT_GROUP (1s ago)',
      '! bridge (flows, groups): another program keeps changing 1 entry',
      '! 1 of 1 addresses of 10.10.0.0/30 are in use',
      '* NetworkPolicy is not enforced: 2 objects without effect, all traffic is allowed',
      '* bridge (flows, groups): 4 entries repaired after foreign changes or a restart of Open vSwitch',
    ]);
  });

  it('understands an agent of 0.2.0, which does not say how far a resource can be relied upon', async () => {
    const older = { synced: true, doing: 'watch', objects: 3, failures: 0, invalid: [] };
    answers['/v1/status'] = {
      ...status,
      sources: [
        { kind: 'Node', ...older },
        { kind: 'Service', ...older, synced: false },
        { kind: 'Pod', ...older, synced: false, failures: 2 },
      ],
    };
    const { code, out } = await seinectl(['status']);
    expect(code).toBe(0);
    expect(out).toMatch(/API server, Node +in step/);
    expect(out).toMatch(/API server, Service +not confirmed/);
    expect(out).toMatch(/API server, Pod +failing/);
  });

  it('says what the agent finds wrong, with what to do, and how old the answer is', async () => {
    const looks = [look('bridge', 1.2), look('cni', null), look('host', 75)];
    const problem = { kind: 'agent.repair', about: 'pause', message: 'repair is paused\u001b[2J', ageSeconds: 61, mend: 'seinectl resume' };
    answers['/v1/status'] = { ...status, problems: [problem], looks, verdict: 'problems' };
    const { out } = await seinectl(['status']);
    expect(out).toContain('! repair is paused\\u001b[2J (for 1m 1s)\n  mend: seinectl resume');
    expect(out).not.toContain('No problem');
    expect(out).toContain('Looked at: 2 looks of 3 missing: cni (not yet), host (1m 15s ago, due every 4s)');
  });

  it('does not say that nothing is wrong before everything was looked at', async () => {
    const answer = { ...status, problems: [], looks: [look('bridge', 1.2), look('cni', null)] };
    answers['/v1/status'] = { ...answer, verdict: 'not all looked at' };
    expect((await seinectl(['status'])).out).toContain('No problem is known, but not all was looked at: cni (not yet)');
    answers['/v1/status'] = { ...answer, looks: [{ ...look('bridge', 1.2), repaired: 2 }], verdict: 'no problems' };
    const { out } = await seinectl(['status']);
    expect(out).toContain('* bridge: 2 faults repaired; the log has each');
    expect(out).toContain('\nNo problems.\n');
    expect(out).toContain('Looked at: all 1 within their round, the oldest 1s ago');
  });

  it('is JSON for scripts', async () => {
    expect(JSON.parse((await seinectl(['status', '-o', 'json'])).out)).toEqual(status);
  });
});

describe('get', () => {
  it('is a sorted table, in which nothing moves the cursor', async () => {
    const { code, out, err } = await seinectl(['get', 'pods']);
    expect(code).toBe(0);
    expect(out.split('\n')).toEqual([
      'POD            STATE    ADDRESSES  INTERFACE     OFPORT  FLOWS  PROBLEM',
      'default/a-1    changed  10.10.0.2  web0-1234567   32784  33/33  host interface\\u001b[2J is missing',
      'default/web-0  ok       10.10.0.2  web0-1234567   32784  33/33',
    ]);
    expect(err).toBe('2 pods: 1 changed, 1 ok');
  });

  it('asks for one by name, in a namespace', async () => {
    await seinectl(['get', 'pods', 'web-0']);
    await seinectl(['get', 'pod', 'web-0', '-n', 'shop']);
    await seinectl(['get', 'pods', 'shop/web-0']);
    await seinectl(['get', 'pods', 'ab'.repeat(32)]);
    expect(asked).toEqual(['default%2Fweb-0', 'shop%2Fweb-0', 'shop%2Fweb-0', 'ab'.repeat(32)].map((name) => `/v1/pods?name=${name}`));
  });

  it('narrows flows by table and owner', async () => {
    answers['/v1/flows'] = { items: [] };
    expect(await seinectl(['get', 'flows', '--table', 'route', '--owner', 'pod/default/web-0'])).toEqual({
      code: 0,
      out: '',
      err: 'no flows',
    });
    expect(asked).toEqual(['/v1/flows?table=route&owner=pod%2Fdefault%2Fweb-0']);
  });

  it('lists one namespace, or only what is bad', async () => {
    expect((await seinectl(['get', 'pods', '-n', 'shop'])).err).toBe('no pods in namespace shop');
    const { items } = JSON.parse((await seinectl(['get', 'pods', '--bad', '-o', 'json'])).out) as { items: PodView[] };
    expect(items.map(({ name }) => name)).toEqual(['default/a-1']);
  });

  it('writes JSON and YAML: all as items, one by itself', async () => {
    expect(JSON.parse((await seinectl(['get', 'pods', '-o', 'json'])).out)).toMatchObject({
      items: [{ name: 'default/a-1' }, { name: 'default/web-0' }],
    });
    answers['/v1/pods'] = { items: [pod] };
    expect(parseYaml((await seinectl(['get', 'pods', 'web-0', '-o', 'yaml'])).out)).toEqual(pod);
  });

  it('ends with 1 for what is not there, and says what the agent says', async () => {
    answers['/v1/pods'] = { items: [] };
    expect(await seinectl(['get', 'pods', 'nope'])).toMatchObject({ code: 1, err: 'seinectl: this node has no pod default/nope' });
    answers['/v1/pods'] = new Error('the Node has no pod CIDR');
    expect(await seinectl(['get', 'pods'])).toMatchObject({ code: 1, err: 'seinectl: the Node has no pod CIDR' });
  });
});

describe('diff', () => {
  it('ends with 0 if there is none', async () => {
    expect(await seinectl(['diff'])).toEqual({ code: 0, out: '', err: 'no differences' });
  });

  it('ends with 1 and the differences otherwise', async () => {
    answers['/v1/diff'] = { items: [missing] };
    expect(await seinectl(['diff'])).toMatchObject({ code: 1, out: '+ table=output, priority=0 actions=drop # node' });
    expect(await seinectl(['diff', '-o', 'json'])).toMatchObject({ code: 1 });
  });
});

describe('annotate', () => {
  const dump = ' cookie=0x1012345, duration=1s, table=0, actions=drop\n cookie=0x2, duration=1s, table=0, actions=drop\n';

  it('reads standard input', async () => {
    const { code, out, err } = await seinectl(['annotate'], { stdin: dump });
    expect(code).toBe(0);
    expect(out.split('\n')[0]).toBe(' cookie=0x1012345, duration=1s, table=0, actions=drop # node');
    expect(err).toBe('1 flow of 2 with a cookie of no owner on this node');
  });

  it('reads a file, and ends with 2 if there is none', async () => {
    writeFileSync(join(folder, 'dump'), dump);
    expect((await seinectl(['annotate', join(folder, 'dump')])).out).toContain('# node');
    expect(await seinectl(['annotate', join(folder, 'no-dump')])).toMatchObject({ code: 2, err: expect.stringContaining('ENOENT') });
    expect(await seinectl(['annotate', folder])).toMatchObject({ code: 2, err: expect.stringContaining('EISDIR') });
    expect(await seinectl(['annotate'], { stdin: 'x'.repeat(2_000_000) })).toMatchObject({
      code: 2,
      err: expect.stringContaining('no dump'),
    });
  });
});

describe('the command line', () => {
  it('ends with 3 where no agent answers, and says which socket and what to try', async () => {
    const { code, err } = await seinectl(['status'], { socket: '/nowhere/agent.sock' });
    expect(code).toBe(3);
    expect(err).toContain('no agent answers on /nowhere/agent.sock');
    expect(err).toContain('SEINE_SOCKET');
  });

  it.each([['gett'], ['get', 'cats'], ['status', '-o', 'wide'], ['get', 'pods', '--frobnicate'], ['get', 'pods', 'a', 'b'], []])(
    'ends with 2 for %s',
    async (...args) => {
      expect(await seinectl(args)).toMatchObject({ code: 2, err: expect.stringMatching(/seinectl/) });
    },
  );

  it.each([
    [['pause', '--for', '3d'], '--for', 'a day at most'],
    [['log-level', 'debug', '--for', '0s'], '--for', 'a day at most'],
    [['log-level', '--for', '3m'], '--for', 'needs a level'],
  ])('ends with 2 for %s, and asks no agent', async (args, option, why) => {
    const { code, err } = await seinectl(args);
    expect(code).toBe(2);
    expect(err).toContain(option);
    expect(err).toContain(why);
    expect(asked).toEqual([]);
  });

  it('says whose help has more', async () => {
    expect((await seinectl(['get', 'pods', '--frobnicate'])).err).toContain('(seinectl get pods --help says what there is)');
  });

  it('helps, with examples and exit codes', async () => {
    const { code, out } = await seinectl(['--help']);
    expect(code).toBe(0);
    expect(out).toContain('Examples:');
    expect(out).toContain('3  no agent answers');
    expect((await seinectl(['get', 'flows', '--help'])).out).toContain('--owner');
  });

  it('says which versions there are, its own also without an agent', async () => {
    expect((await seinectl(['version'])).out).toContain('seine-agent  0.1.0 (Node v24, Open vSwitch 3.1.0)');
    expect(await seinectl(['version'], { socket: '/nowhere' })).toMatchObject({ code: 3, out: expect.stringContaining('seinectl') });
  });
});

describe('pause and resume', () => {
  it('says for how long, in any unit', async () => {
    answers['/v1/pause'] = { pausedForSeconds: 600 };
    answers['/v1/resume'] = { wasPaused: true };
    const { code, out } = await seinectl(['pause', '--for', '10m']);
    expect(code).toBe(0);
    expect(out).toContain('not repaired for 10m');
    expect((await seinectl(['resume'])).out).toContain('Repair resumed');
    expect(asked).toEqual(['POST /v1/pause?seconds=600', 'POST /v1/resume']);
  });
  it.each(['10', 'm', '-1s', '1.5h', '10 m'])('does not guess what %j means', async (time) => {
    expect((await seinectl(['pause', `--for=${time}`])).code).toBe(2);
    expect(asked).toEqual([]);
  });
  it('says in its status that repair is paused', async () => {
    answers['/v1/status'] = { ...status, repair: { pausedForSeconds: 61 }, warnings: ['the node is served as it was: no Node n1'] };
    const { out } = await seinectl(['status']);
    expect(out).toContain('foreign changes stay for another 1m 1s');
    expect(out).toContain('the node is served as it was: no Node n1');
  });
});
