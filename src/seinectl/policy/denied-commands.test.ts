import { mkdtempSync, rmSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { recordingTerminal } from '../../../test/support/recording-terminal.ts';
import type { DeniedLogView, WouldDenyView } from '../../api/denied-log.ts';
import { run } from '../program.ts';

const logged: DeniedLogView = {
  setting: 'annotated',
  requests: [{ namespace: 'shop', pod: 'db', secondsLeft: 600 }, { namespace: 'ops', secondsLeft: 60 }, { secondsLeft: 5 }],
};
const nothing: WouldDenyView = { mode: 'audit', seconds: 10, pairs: [], morePackets: 0, counted: { ingress: '0', egress: '0' } };
const audited: WouldDenyView = {
  ...nothing,
  pairs: [
    {
      verdict: 'would deny',
      direction: 'ingress',
      policies: ['shop/deny-all'],
      why: 'no rule of spec.ingress allows it',
      pod: 'shop/db',
      podAddress: '10.10.0.5',
      peer: 'shop/far',
      peerAddress: '10.10.1.7',
      protocol: 'TCP',
      port: 5432,
      packets: 12,
    },
  ],
  counted: { ingress: '90', egress: '0' },
};

let folder = '';
let server: Server | undefined;
let answers: Record<string, unknown> = {};
let asked: string[] = [];

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'seinectl-'));
  asked = [];
  answers = { '/v1/policy/log': logged, '/v1/policy/would-deny': audited };
  server = createServer((request, response) => {
    asked.push(`${request.method} ${request.url}`);
    response.end(` ${JSON.stringify(answers[request.url?.split('?')[0] ?? ''])}`);
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
  return { code, out, err };
}

describe('policy log', () => {
  it.each([
    [[], 'GET /v1/policy/log'],
    [['--off'], 'POST /v1/policy/log'],
    [['--for', '10m'], 'POST /v1/policy/log?seconds=600'],
    [['--for', '1h', '--namespace', 'shop'], 'POST /v1/policy/log?seconds=3600&namespace=shop'],
    [['--for', '90s', '--pod', 'shop/db'], 'POST /v1/policy/log?seconds=90&namespace=shop&pod=db'],
  ])('%j is requested', async (flags, request) => {
    expect(await seinectl('log', ...flags)).toMatchObject({
      code: 0,
      out: [
        'Of pods and namespaces with the annotation seine.dev/log=denied, as configured.',
        'Of pod shop/db for 10m still.',
        'Of namespace ops for 1m still.',
        'Of all pods for 5s still.',
      ],
    });
    expect(asked).toEqual([request]);
  });

  it.each([
    [['--pod', 'shop/db']],
    [['--for', '1m', '--pod', 'db']],
    [['--for', '1m', '--pod', 'a/b', '--namespace', 'a']],
    [['--off', '--for', '1m']],
  ])('%j is rejected', async (flags) => {
    expect((await seinectl('log', ...flags)).code).toBe(2);
    expect(asked).toEqual([]);
  });
});

describe('policy would-deny', () => {
  it("lists pairs, and OVS's counts", async () => {
    expect(await seinectl('would-deny', '--for', '10s')).toEqual({
      code: 1,
      out: [
        'DIRECTION  POD      PEER                  REQUESTS  PACKETS  POLICIES',
        'ingress    shop/db  shop/far (10.10.1.7)  TCP 5432       12  shop/deny-all',
      ],
      err: [
        '1 pair in 10s would have been denied; OVS counted 90 packets to pods and 0 from them',
        'Idle connections are not included: tracked connections cannot be listed (never on the userspace data path)',
      ],
    });
    expect(asked).toEqual(['POST /v1/policy/would-deny?seconds=10']);
  });

  it('lists established connections with them, if available', async () => {
    const [pair] = audited.pairs;
    if (!pair) throw new Error('a pair is needed');
    const { packets, ...denial } = pair;
    answers['/v1/policy/would-deny'] = { ...nothing, living: [{ ...denial, connections: 3 }], moreLiving: 4 } satisfies WouldDenyView;
    expect(await seinectl('would-deny')).toEqual({
      code: 1,
      out: [
        'DIRECTION  POD      PEER                  REQUESTS  CONNECTIONS  POLICIES',
        'ingress    shop/db  shop/far (10.10.1.7)  TCP 5432            3  shop/deny-all',
      ],
      err: [
        '0 pairs in 10s would have been denied; OVS counted 0 packets to pods and 0 from them',
        '7 living connections would be denied, also of those that carried nothing',
      ],
    });
    answers['/v1/policy/would-deny'] = { ...nothing, living: [], moreLiving: 0 } satisfies WouldDenyView;
    expect((await seinectl('would-deny')).code).toBe(0);
  });

  it('ends with 0 if nothing is denied, and not if there are more than listed', async () => {
    answers['/v1/policy/would-deny'] = nothing;
    expect((await seinectl('would-deny')).code).toBe(0);
    answers['/v1/policy/would-deny'] = { ...nothing, counted: { ingress: '1', egress: '0' } };
    expect((await seinectl('would-deny')).code).toBe(1);
    answers['/v1/policy/would-deny'] = { ...nothing, morePackets: 3 };
    expect(await seinectl('would-deny')).toMatchObject({
      code: 1,
      err: [expect.anything(), '3 packets of pairs that are not listed', expect.anything()],
    });
    expect((await seinectl('would-deny', '--for', '11m')).code).toBe(2);
  });
});
