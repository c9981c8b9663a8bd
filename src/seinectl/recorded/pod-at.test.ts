import { mkdtempSync, rmSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { recordedLines, recordedMs } from '../../../test/support/recorded-inputs.ts';
import { recordingTerminal } from '../../../test/support/recording-terminal.ts';
import { ArchiveWriter } from '../../operations/support-bundle/archive.ts';
import { run } from '../program.ts';

let folder = '';
let server: Server | undefined;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'seinectl-pod-at-'));
});
afterEach(async () => {
  await new Promise((resolve) => (server ? server.close(resolve) : resolve(undefined)));
  server = undefined;
  rmSync(folder, { recursive: true });
});

const event = (t: number, k: string, d: object = {}, s = ['pod/shop/db-0']): object => ({ t, n: 1, k, s, d });
const events: readonly object[] = [
  event(recordedMs.first, 'policy.free'),
  event(recordedMs.first + 1, 'cni.add', { tookMs: 3, stages: {} }),
  event(recordedMs.policed, 'policy.isolated', { ingress: ['shop/db-clients', 'shop/\u001b[2J'], egress: [] }),
  event(recordedMs.policed + 1, 'policy.free', {}, ['pod/shop/web-0']),
  event(recordedMs.freed + 200, 'policy.free'),
];

async function bundle(recorded: readonly object[] = events): Promise<string> {
  const path = join(folder, `${Math.random()}.tar.gz`);
  const archive = new ArchiveWriter(path, 'seine-n1');
  await archive.add('history/inputs.ndjson', Buffer.from(`${recordedLines().join('\n')}\n`));
  await archive.add('history/events.ndjson', Buffer.from(recorded.map((each) => `${JSON.stringify(each)}\n`).join('')));
  await archive.close();
  return path;
}

async function seinectl(...args: readonly string[]) {
  const { terminal, out, err } = recordingTerminal();
  const code = await run(['--socket', join(folder, 'agent.sock'), ...args], terminal, Readable.from(['']));
  return { code, out, err: err.join('\n') };
}

const at = (ms: number): readonly string[] => ['--at', new Date(ms).toISOString()];

describe('policy pod --at', () => {
  it('names the policies of that time, and since when, and what is not known', async () => {
    const file = await bundle();
    const policed = await seinectl('policy', 'pod', 'shop/db-0', '--bundle', file, ...at(recordedMs.freed - 1));
    expect(policed).toMatchObject({
      code: 0,
      out: [
        'Pod shop/db-0 (10.10.0.6, fd00:10::6) at 2023-11-14T22:16:19.999Z',
        'ingress: isolated by shop/db-clients, shop/\\u001b[2J',
        'egress: free, no policy isolates it',
        'Desired by the agent, by the inputs recorded at 2023-11-14T22:14:20.000Z on n1.',
        'These policies applied since 2023-11-14T22:14:20.000Z, by the timeline of the pod.',
        expect.stringMatching(/^Not known of that time: rules/),
      ],
    });
    const before = await seinectl('policy', 'pod', 'shop/db-0', '--bundle', file, ...at(recordedMs.policed - 1));
    expect(before.out[1]).toBe('ingress: free, no policy isolates it');
  });
  it('names no policies if the last event does not agree with the inputs, or there is none', async () => {
    for (const recorded of [[], [event(recordedMs.first, 'policy.free')]]) {
      const { out } = await seinectl('policy', 'pod', 'shop/db-0', '--bundle', await bundle(recorded), ...at(recordedMs.policed));
      expect(out[1]).toBe('ingress: isolated by policies whose names are not recorded');
    }
  });
  it('asks the agent of this node, and prints the answer for programs', async () => {
    const asked: string[] = [];
    server = createServer((request, response) => {
      asked.push(request.url ?? '');
      const timeline = { time: '2023-11-14T22:14:20.000Z', kind: 'policy.isolated', subjects: [], text: '', data: { ingress: ['shop/a'] } };
      response.end(request.url?.includes('inputs') ? `${recordedLines().slice(0, -1).join('\n')}\n` : `${JSON.stringify(timeline)}\n`);
    });
    await new Promise<void>((resolve) => server?.listen(join(folder, 'agent.sock'), resolve));
    const { code, out } = await seinectl('policy', 'pod', 'shop/db-0', '-o', 'json', ...at(recordedMs.policed + 7));
    expect([code, JSON.parse(out.join('\n'))]).toEqual([
      0,
      expect.objectContaining({ recorded: '2023-11-14T22:14:20.000Z', ingress: { state: 'isolated', isolatedBy: ['shop/a'] } }),
    ]);
    expect(asked).toEqual([
      `/v1/history/inputs?at=${recordedMs.policed + 7}`,
      `/v1/timeline?subject=pod%2Fshop%2Fdb-0&until=${recordedMs.policed + 7}`,
    ]);
  });
  it.each([
    ['a pod that was not there', 'shop/new-0', recordedMs.policed, 'n1 had no pod "shop/new-0" by the inputs recorded at'],
    ['a time that is not recorded', 'shop/db-0', recordedMs.first - 1, 'is before the oldest record: inputs are known from'],
  ])('refuses %s: exit 2', async (_, name, ms, message) => {
    const { code, err } = await seinectl('policy', 'pod', name, '--bundle', await bundle(), ...at(ms));
    expect([code, err]).toEqual([2, expect.stringContaining(message)]);
  });
  it('refuses --bundle without a time: exit 2', async () => {
    expect(await seinectl('policy', 'pod', 'a/b', '--bundle', 'x')).toMatchObject({
      code: 2,
      err: expect.stringContaining('x needs --at TIME'),
    });
  });
});

describe('explain pod --at', () => {
  it('prints addresses, limits, Services and policies of that time, and what is not known', async () => {
    const { code, out } = await seinectl('explain', 'pod', 'shop/db-0', '--bundle', await bundle(), ...at(recordedMs.policed));
    expect(code).toBe(0);
    expect(out.slice(0, 3)).toEqual([
      'Pod shop/db-0 on node n1 at 2023-11-14T22:14:20.000Z.',
      'Desired by the agent, by the inputs recorded at 2023-11-14T22:14:20.000Z on n1.',
      expect.stringMatching(
        /^It had 10\.10\.0\.6 and fd00:10::6 on eth0 \(0e:aa:00:00:00:06\), port 32785; the agent wanted [1-9]\d* flows for it\.$/,
      ),
    ]);
    expect(out).toEqual(
      expect.arrayContaining([
        'What it sent was limited to 1000000000 bit/s, in bursts of 100000000 bits.',
        'No Service of this node had it as an endpoint.',
        expect.stringMatching(/^ingress: isolated by shop\/db-clients/),
        expect.stringMatching(/^Not known of that time: whether its flows were on the bridge/),
      ]),
    );
  });
  it('names Services that had it as an endpoint', async () => {
    const { out } = await seinectl('explain', 'pod', 'shop/web-0', '--bundle', await bundle(), ...at(recordedMs.policed));
    expect(out).toContain('Services of this node had it as an endpoint: default/web port 80/TCP (10.96.0.10:80).');
  });
});
