import { mkdtempSync, rmSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { recordingTerminal } from '../../../test/support/recording-terminal.ts';
import type { ConnectionPolicyView, DirectionPolicyView, OnePolicyView, PodPolicyView } from '../../api/policy.ts';
import { run } from '../program.ts';

const free: DirectionPolicyView = { state: 'free', isolatedBy: [], rules: [], moreRules: 0 };
const isolated: DirectionPolicyView = {
  state: 'isolated',
  isolatedBy: ['shop/db'],
  rules: [
    { name: 'shop/db spec.ingress[0]', peers: ['a', 'b', 'c', 'd', 'e\u001b[2J'], morePeers: 2, ports: ['TCP 5432'] },
    { name: 'shop/db spec.ingress[1]', peers: [], morePeers: 0, ports: [] },
  ],
  moreRules: 1,
};
const pod: PodPolicyView = { name: 'shop/db', addresses: ['10.10.0.5'], ingress: isolated, egress: free };
const denied: ConnectionPolicyView = {
  from: 'shop/far',
  to: 'shop/db',
  port: '80/TCP',
  verdict: 'deny',
  ends: [
    {
      direction: 'ingress',
      pod: 'shop/db',
      from: '10.10.1.7',
      to: '10.10.0.5',
      ports: 'TCP 80',
      verdict: 'deny',
      why: 'no rule allows it',
      by: ['shop/db'],
      change: 'A rule',
    },
  ],
  remarks: ['The egress policies of shop/far are decided on node-2: its agent has the rest'],
};

let folder = '';
let server: Server | undefined;
let answers: Record<string, unknown> = {};
let asked: string[] = [];

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'seinectl-'));
  asked = [];
  answers = {
    '/v1/policy/pod': pod,
    '/v1/policy/policies': { items: [] },
    '/v1/policy/suspensions': { items: [] },
    '/v1/policy/explain': denied,
  };
  server = createServer((request, response) => {
    asked.push(request.url ?? '');
    const answer = answers[request.url?.split('?')[0] ?? ''];
    const isUnable = typeof answer === 'string' && answer.startsWith('[UNAVAILABLE]');
    response.writeHead(typeof answer === 'string' ? (isUnable ? 503 : 400) : 200);
    response.end(typeof answer === 'string' ? `[INVALID_INPUT] ${answer}\n` : JSON.stringify(answer));
  });
  await new Promise<void>((resolve) => server?.listen(join(folder, 'agent.sock'), resolve));
});
afterEach(async () => {
  server?.closeAllConnections();
  await new Promise((resolve) => server?.close(resolve));
  rmSync(folder, { recursive: true, force: true });
});

async function seinectl(...args: readonly string[]) {
  const { terminal, out, err } = recordingTerminal();
  const code = await run(['--socket', join(folder, 'agent.sock'), 'policy', ...args], terminal, Readable.from(['']));
  return { code, out, err: err.join('\n') };
}

describe('policy pod', () => {
  it('lists isolating policies and allowed traffic by direction, without terminal control sequences', async () => {
    const { code, out } = await seinectl('pod', 'db');
    expect(code).toBe(0);
    expect(out).toEqual([
      'Pod shop/db (10.10.0.5)',
      'ingress: isolated by shop/db',
      '  shop/db spec.ingress[0]: from a, b, c, d and 3 more, TCP 5432',
      '  shop/db spec.ingress[1]: from any peer, any port',
      '  and 1 more rule',
      'egress: free, no policy isolates it',
    ]);
    expect(asked).toEqual(['/v1/policy/pod?name=default%2Fdb']);
    answers['/v1/policy/pod'] = { ...pod, name: 'shop/db\u001b[2J' };
    expect((await seinectl('pod', 'shop/db')).out[0]).toContain('\\u001b[2J');
  });
  it('ends with 1 for a blocked pod or unchanged flows', async () => {
    answers['/v1/policy/pod'] = { ...pod, ingress: { ...free, state: 'closed', why: 'policies are not known yet' } };
    const { code, out } = await seinectl('pod', 'shop/db');
    expect(code).toBe(1);
    expect(out).toContain('ingress: blocked except for its own node: policies are not known yet');
    answers['/v1/policy/pod'] = { ...pod, egress: { ...free, state: 'as before' } };
    expect((await seinectl('pod', 'shop/db')).code).toBe(1);
  });
  it('prints the answer for programs, and ends with 2 without such a pod', async () => {
    expect(JSON.parse((await seinectl('pod', 'shop/db', '-o', 'json')).out.join('\n'))).toEqual(pod);
    answers['/v1/policy/pod'] = 'this node has no pod "shop/db"';
    expect(await seinectl('pod', 'shop/db')).toMatchObject({ code: 2, err: expect.stringContaining('has no pod') });
  });
});

describe('policy list', () => {
  it('lists policies by name, and ends with 1 if one is not supported', async () => {
    expect(await seinectl('list')).toMatchObject({ code: 0, out: [], err: 'no policy isolates a pod of this node' });
    const item = { name: 'shop/db', ingress: 2, egress: 0, notUnderstood: [] };
    answers['/v1/policy/policies'] = { items: [{ ...item, name: 'shop/web' }, item] };
    expect((await seinectl('list')).out).toEqual(['POLICY    INGRESS  EGRESS', 'shop/db         2       0', 'shop/web        2       0']);
    const ofCluster = [
      { ...item, name: 'tenants', cluster: { tier: 'Admin', priority: 20 } },
      { ...item, name: 'dns', cluster: { tier: 'Admin', priority: 3 } },
      { ...item, name: 'a-floor', cluster: { tier: 'Baseline', priority: 0 } },
    ];
    answers['/v1/policy/policies'] = { items: [...ofCluster, item] };
    expect((await seinectl('list')).out.map((line) => line.split(/ +/).slice(0, 3).join(' '))).toEqual([
      'POLICY TIER INGRESS',
      'dns Admin 3',
      'tenants Admin 20',
      `${item.name} 2 0`,
      'a-floor Baseline 0',
    ]);
    answers['/v1/policy/policies'] = { items: [{ ...item, notUnderstood: ['spec.odd'] }] };
    expect(await seinectl('list')).toMatchObject({ code: 1, out: [expect.anything(), expect.stringContaining('spec.odd')] });
  });
});

const shown: OnePolicyView = {
  name: 'shop/db',
  generation: 3,
  selects: 'app in db',
  pods: [{ name: 'shop/db-0', state: 'policed' }],
  ingress: {
    rules: [
      {
        path: 'spec.ingress[0]',
        peers: [{ text: 'pods of "shop": app in api', pods: 2 }, { text: 'block 192.0.2.0/24', addresses: '256' }, { text: 'pods of "x"' }],
        morePeers: 1,
        ports: ['TCP 5432'],
      },
      { path: 'spec.ingress[1]', peers: 'any', morePeers: 0, ports: 'any' },
      { path: 'spec.ingress[2]', peers: [], morePeers: 0, ports: [] },
    ],
    moreRules: 2,
  },
  notUnderstood: [],
};

describe('policy show', () => {
  it('lists selected pods, allowed traffic and numbers of peers, without terminal control sequences', async () => {
    answers['/v1/policy/policy'] = shown;
    expect(await seinectl('show', 'shop/db')).toMatchObject({
      code: 0,
      out: [
        'Policy shop/db, generation 3, selects pods with app in db',
        'of this node: 1 pod',
        '  shop/db-0: policed',
        'ingress: isolated, but for',
        '  spec.ingress[0]: TCP 5432, from',
        '    pods of "shop": app in api (2 pods)',
        '    block 192.0.2.0/24 (256 addresses)',
        '    pods of "x" (not resolved: no rule of a pod here uses it)',
        '    and 1 more peer',
        '  spec.ingress[1]: from any peer, any port',
        '  spec.ingress[2]: from no peer, no port',
        '  and 2 more rules',
        'egress: not isolated by it',
      ],
    });
    expect(asked).toEqual(['/v1/policy/policy?name=shop%2Fdb']);
    const { selects, ingress, ...rest } = shown;
    answers['/v1/policy/policy'] = { ...rest, pods: [], egress: { rules: [], moreRules: 0 }, name: 'shop/\u001b[2J' };
    expect((await seinectl('show', 'db')).out).toEqual([
      'Policy shop/\\u001b[2J, generation 3, selects no pod: its selector contradicts itself',
      'of this node: no pod',
      'ingress: not isolated by it',
      'egress: isolated, no rule allows anything',
    ]);
  });
  it('prints the answer for programs, ends with 1 if something is not supported, and with 2 without such a policy', async () => {
    answers['/v1/policy/policy'] = { ...shown, notUnderstood: ['spec.odd: a field'] };
    expect(await seinectl('show', 'db')).toMatchObject({
      code: 1,
      out: expect.arrayContaining(['not understood, and allows nothing: spec.odd: a field']),
    });
    expect(JSON.parse((await seinectl('show', 'db', '-o', 'json')).out.join('\n'))).toMatchObject({ notUnderstood: ['spec.odd: a field'] });
    answers['/v1/policy/policy'] = 'no policy is known';
    expect((await seinectl('show', 'db')).code).toBe(2);
  });
});

describe('policy explain', () => {
  it('prints the verdict, its rules, and what would change it', async () => {
    const { code, out } = await seinectl('explain', 'shop/far', 'shop/db', '80');
    expect(code).toBe(1);
    expect(out).toEqual([
      'shop/far to shop/db port 80/TCP: denied, as far as this node decides',
      '  ingress of shop/db (10.10.1.7 to 10.10.0.5), TCP 80: denied, no rule allows it; isolated by shop/db',
      '    to change that: A rule.',
      'The egress policies of shop/far are decided on node-2: its agent has the rest.',
    ]);
    expect(asked).toEqual(['/v1/policy/explain?from=shop%2Ffar&to=shop%2Fdb&port=80%2FTCP']);
  });
  it('accepts addresses, names without namespace as in default, and any protocol with ports', async () => {
    answers['/v1/policy/explain'] = { ...denied, verdict: 'allow', ends: [], remarks: [] };
    expect((await seinectl('explain', '2001:db8::7', 'db', '53/udp')).code).toBe(0);
    expect(asked).toEqual(['/v1/policy/explain?from=2001%3Adb8%3A%3A7&to=default%2Fdb&port=53%2FUDP']);
  });
  it('an agent that cannot answer is no denial: exit code 3', async () => {
    answers['/v1/policy/explain'] = '[UNAVAILABLE] policies are not known yet';
    expect(await seinectl('explain', 'shop/far', 'shop/db', '80')).toMatchObject({ code: 3, out: [] });
  });
  it.each(['0', '65536', 'http', '80/ICMP', '80/', ''])('rejects port %j', async (port) => {
    expect((await seinectl('explain', 'a', 'b', port)).code).toBe(2);
    expect(asked).toEqual([]);
  });
});

const suspension = { what: 'pod', name: 'shop/db', reason: 'orders\u001b[2J fail', since: '', until: '2026-11-23T14:00:00.000Z', pods: 1 };

describe('policy suspend', () => {
  it('requests it for a pod, a namespace or the node, and shows the result', async () => {
    answers['/v1/policy/suspend'] = { was: false, isRemembered: true, suspension };
    const reason = ['--for', '30m', '--reason', 'orders fail'];
    expect(await seinectl('suspend', '--pod', 'shop/db', ...reason)).toMatchObject({
      code: 0,
      out: ['suspended: pod shop/db until 2026-11-23T14:00:00.000Z, 1 pod here: orders\\u001b[2J fail'],
    });
    await seinectl('suspend', '--namespace', 'shop', ...reason);
    await seinectl('suspend', '--node', ...reason);
    expect(asked).toEqual([
      '/v1/policy/suspend?what=pod&name=shop%2Fdb&seconds=1800&reason=orders+fail',
      '/v1/policy/suspend?what=namespace&name=shop&seconds=1800&reason=orders+fail',
      '/v1/policy/suspend?what=node&name=&seconds=1800&reason=orders+fail',
    ]);
  });

  it('reports that it does not outlive the agent, and whether there was anything to end', async () => {
    answers['/v1/policy/resume'] = { was: true, isRemembered: false };
    expect(await seinectl('resume', '--node')).toMatchObject({ code: 1, err: expect.stringContaining('not stored on disk') });
    answers['/v1/policy/resume'] = { was: false, isRemembered: true };
    expect(await seinectl('resume', '--pod', 'db')).toMatchObject({ code: 0, out: ['nothing of exactly this was suspended'] });
    expect(asked.at(-1)).toBe('/v1/policy/resume?what=pod&name=default%2Fdb');
  });

  it.each([
    ['--pod', 'a/b', '--for', '30m'],
    ['--pod', 'a/b', '--reason', 'x'],
    ['--for', '30m', '--reason', 'x'],
    ['--pod', 'a/b', '--node', '--for', '30m', '--reason', 'x'],
    ['--node', '--for', '2d', '--reason', 'x'],
  ])('rejects %j', async (...words) => {
    expect((await seinectl('suspend', ...words)).code).toBe(2);
    expect(asked).toEqual([]);
  });

  it('is shown by list and by pod', async () => {
    answers['/v1/policy/suspensions'] = { items: [suspension] };
    expect((await seinectl('list')).err).toContain('suspended: pod shop/db until');
    answers['/v1/policy/pod'] = { ...pod, ingress: { ...free, state: 'suspended', why: 'until noon: orders fail' } };
    expect(await seinectl('pod', 'shop/db')).toMatchObject({
      code: 1,
      out: expect.arrayContaining(['ingress: suspended, nothing is denied until noon: orders fail']),
    });
  });
});
