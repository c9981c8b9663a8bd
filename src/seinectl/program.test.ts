import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { parse as parseYaml } from 'yaml';
import { AnsweringAgent, wellStatus } from '../../test/support/answering-agent.ts';
import type { Entry } from '../api/entry.ts';
import type { PodView } from '../api/object.ts';

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

let agent: AnsweringAgent;

beforeEach(async () => {
  agent = await AnsweringAgent.start({
    '/v1/status': wellStatus,
    '/v1/pods': { items: [pod, sick] },
    '/v1/diff': { items: [] },
    '/v1/owners': { items: [{ cookie: '0x1012345', owner: 'node' }] },
  });
});
afterEach(() => agent.end());

describe('get', () => {
  it('is a sorted table, without cursor movement', async () => {
    const { code, out, err } = await agent.seinectl(['get', 'pods']);
    expect(code).toBe(0);
    expect(out.split('\n')).toEqual([
      'POD            STATE    ADDRESSES  INTERFACE     OFPORT  FLOWS  PROBLEM',
      'default/a-1    changed  10.10.0.2  web0-1234567   32784  33/33  host interface\\u001b[2J is missing',
      'default/web-0  ok       10.10.0.2  web0-1234567   32784  33/33',
    ]);
    expect(err).toBe('2 pods: 1 changed, 1 ok');
  });

  it('requests one by name, in a namespace', async () => {
    await agent.seinectl(['get', 'pods', 'web-0']);
    await agent.seinectl(['get', 'pod', 'web-0', '-n', 'shop']);
    await agent.seinectl(['get', 'pods', 'shop/web-0']);
    await agent.seinectl(['get', 'pods', 'ab'.repeat(32)]);
    expect(agent.asked).toEqual(
      ['default%2Fweb-0', 'shop%2Fweb-0', 'shop%2Fweb-0', 'ab'.repeat(32)].map((name) => `/v1/pods?name=${name}`),
    );
  });

  it('filters flows by table and owner', async () => {
    agent.answers['/v1/flows'] = { items: [] };
    expect(await agent.seinectl(['get', 'flows', '--table', 'route', '--owner', 'pod/default/web-0'])).toEqual({
      code: 0,
      out: '',
      err: 'no flows',
    });
    expect(agent.asked).toEqual(['/v1/flows?table=route&owner=pod%2Fdefault%2Fweb-0']);
  });

  it('lists one namespace, or only problems', async () => {
    expect((await agent.seinectl(['get', 'pods', '-n', 'shop'])).err).toBe('no pods in namespace shop');
    const { items } = JSON.parse((await agent.seinectl(['get', 'pods', '--bad', '-o', 'json'])).out) as { items: PodView[] };
    expect(items.map(({ name }) => name)).toEqual(['default/a-1']);
  });

  it('writes JSON and YAML: all as items, one by itself', async () => {
    expect(JSON.parse((await agent.seinectl(['get', 'pods', '-o', 'json'])).out)).toMatchObject({
      items: [{ name: 'default/a-1' }, { name: 'default/web-0' }],
    });
    agent.answers['/v1/pods'] = { items: [pod] };
    expect(parseYaml((await agent.seinectl(['get', 'pods', 'web-0', '-o', 'yaml'])).out)).toEqual(pod);
  });

  it("ends with 1 for an unknown object, with the agent's error", async () => {
    agent.answers['/v1/pods'] = { items: [] };
    expect(await agent.seinectl(['get', 'pods', 'nope'])).toMatchObject({ code: 1, err: 'seinectl: this node has no pod default/nope' });
    agent.answers['/v1/pods'] = new Error('the Node has no pod CIDR');
    expect(await agent.seinectl(['get', 'pods'])).toMatchObject({ code: 1, err: 'seinectl: the Node has no pod CIDR' });
  });
});

describe('diff', () => {
  it('ends with 0 if there is none', async () => {
    expect(await agent.seinectl(['diff'])).toEqual({ code: 0, out: '', err: 'no differences' });
  });

  it('ends with 1 and the differences otherwise', async () => {
    agent.answers['/v1/diff'] = { items: [missing] };
    expect(await agent.seinectl(['diff'])).toMatchObject({ code: 1, out: '+ table=output, priority=0 actions=drop # node' });
    expect(await agent.seinectl(['diff', '-o', 'json'])).toMatchObject({ code: 1 });
  });
});

describe('annotate', () => {
  const dump = ' cookie=0x1012345, duration=1s, table=0, actions=drop\n cookie=0x2, duration=1s, table=0, actions=drop\n';

  it('reads standard input', async () => {
    const { code, out, err } = await agent.seinectl(['annotate'], { stdin: dump });
    expect(code).toBe(0);
    expect(out.split('\n')[0]).toBe(' cookie=0x1012345, duration=1s, table=0, actions=drop # node');
    expect(err).toBe('1 flow of 2 with a cookie of no owner on this node');
  });

  it('reads a file, and ends with 2 if there is none', async () => {
    writeFileSync(join(agent.folder, 'dump'), dump);
    expect((await agent.seinectl(['annotate', join(agent.folder, 'dump')])).out).toContain('# node');
    expect(await agent.seinectl(['annotate', join(agent.folder, 'no-dump')])).toMatchObject({
      code: 2,
      err: expect.stringContaining('ENOENT'),
    });
    expect(await agent.seinectl(['annotate', agent.folder])).toMatchObject({ code: 2, err: expect.stringContaining('EISDIR') });
    expect(await agent.seinectl(['annotate'], { stdin: 'x'.repeat(2_000_000) })).toMatchObject({
      code: 2,
      err: expect.stringContaining('not a dump'),
    });
  });
});

describe('the command line', () => {
  it('ends with 3 if no agent answers, and names the socket and a remedy', async () => {
    const { code, err } = await agent.seinectl(['status'], { socket: '/nowhere/agent.sock' });
    expect(code).toBe(3);
    expect(err).toContain('no agent answers on /nowhere/agent.sock');
    expect(err).toContain('SEINE_SOCKET');
  });

  it.each([['gett'], ['get', 'cats'], ['status', '-o', 'wide'], ['get', 'pods', '--frobnicate'], ['get', 'pods', 'a', 'b'], []])(
    'ends with 2 for %s',
    async (...args) => {
      expect(await agent.seinectl(args)).toMatchObject({ code: 2, err: expect.stringMatching(/seinectl/) });
    },
  );

  it.each([
    [['pause', '--for', '3d'], '--for', 'at most a day'],
    [['log-level', 'debug', '--for', '0s'], '--for', 'at most a day'],
    [['log-level', '--for', '3m'], '--for', 'needs a level'],
  ])('ends with 2 for %s, without calling the agent', async (args, option, why) => {
    const { code, err } = await agent.seinectl(args);
    expect(code).toBe(2);
    expect(err).toContain(option);
    expect(err).toContain(why);
    expect(agent.asked).toEqual([]);
  });

  it('names the help with more', async () => {
    expect((await agent.seinectl(['get', 'pods', '--frobnicate'])).err).toContain('(seinectl get pods --help for usage)');
  });

  it('has help with examples and exit codes', async () => {
    const { code, out } = await agent.seinectl(['--help']);
    expect(code).toBe(0);
    expect(out).toContain('Examples:');
    expect(out).toContain('3  no agent answers');
    expect((await agent.seinectl(['get', 'flows', '--help'])).out).toContain('--owner');
  });

  it('prints versions, its own also without an agent', async () => {
    expect((await agent.seinectl(['version'])).out).toContain('seine-agent  0.1.0 (Node v24, Open vSwitch 3.1.0)');
    expect(await agent.seinectl(['version'], { socket: '/nowhere' })).toMatchObject({ code: 3, out: expect.stringContaining('seinectl') });
  });
});

describe('pause and resume', () => {
  it('accepts a duration in any unit', async () => {
    agent.answers['/v1/pause'] = { pausedForSeconds: 600 };
    agent.answers['/v1/resume'] = { wasPaused: true };
    const { code, out } = await agent.seinectl(['pause', '--for', '10m']);
    expect(code).toBe(0);
    expect(out).toContain('not repaired for 10m');
    expect((await agent.seinectl(['resume'])).out).toContain('Repair resumed');
    expect(agent.asked).toEqual(['POST /v1/pause?seconds=600', 'POST /v1/resume']);
  });
  it.each(['10', 'm', '-1s', '1.5h', '10 m'])('rejects %j', async (time) => {
    expect((await agent.seinectl(['pause', `--for=${time}`])).code).toBe(2);
    expect(agent.asked).toEqual([]);
  });
  it('reports in its status that repair is paused', async () => {
    agent.answers['/v1/status'] = {
      ...wellStatus,
      repair: { pausedForSeconds: 61 },
      warnings: ['the node is served as it was: no Node n1'],
    };
    const { out } = await agent.seinectl(['status']);
    expect(out).toContain('foreign changes stay for another 1m 1s');
    expect(out).toContain('the node is served as it was: no Node n1');
  });
});
