import { mkdtempSync, rmSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { recordedElsewhere, recordedLines, recordedMs } from '../../../test/support/recorded-inputs.ts';
import { recordingTerminal } from '../../../test/support/recording-terminal.ts';
import { writeBundle } from '../../../test/support/written-bundle.ts';
import { run } from '../program.ts';

let folder = '';
let server: Server | undefined;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'seinectl-connection-at-'));
});
afterEach(async () => {
  await new Promise((resolve) => (server ? server.close(resolve) : resolve(undefined)));
  server = undefined;
  rmSync(folder, { recursive: true });
});

const isolated = {
  t: recordedMs.policed,
  n: 1,
  k: 'policy.isolated',
  s: ['pod/shop/db-0'],
  d: { ingress: ['shop/db-clients'], egress: [] },
};

async function bundle(lines = recordedLines(), events: readonly object[] = [isolated]): Promise<string> {
  return await writeBundle(join(folder, `${Math.random()}.tar.gz`), {
    'history/inputs.ndjson': `${lines.join('\n')}\n`,
    'history/events.ndjson': events.map((each) => `${JSON.stringify(each)}\n`).join(''),
  });
}

async function explain(...args: readonly string[]) {
  const { terminal, out, err } = recordingTerminal();
  const code = await run(['--socket', join(folder, 'agent.sock'), 'policy', 'explain', ...args], terminal, Readable.from(['']));
  return { code, out, err: err.join('\n') };
}

const at = (ms: number): readonly string[] => ['--at', new Date(ms).toISOString()];

describe('policy explain --at', () => {
  it('has the verdict of each time: before, during and after a policy', async () => {
    const file = await bundle();
    const codes: number[] = [];
    for (const ms of [recordedMs.policed - 1, recordedMs.policed, recordedMs.freed - 1, recordedMs.freed])
      for (const port of ['80', '5432']) codes.push((await explain('shop/web-0', 'shop/db-0', port, '--bundle', file, ...at(ms))).code);
    expect(codes).toEqual([0, 0, 1, 0, 1, 0, 0, 0]);
  });

  it('names the rule that allowed, and the policies that isolated', async () => {
    const file = await bundle();
    const allowed = await explain('shop/web-0', 'shop/db-0', '5432', '--bundle', file, ...at(recordedMs.freed - 5_000));
    expect(allowed.out).toEqual([
      'shop/web-0 to shop/db-0 port 5432/TCP at 2023-11-14T22:16:15.000Z: allowed',
      '  egress of shop/web-0 on n1 (10.10.0.5 to 10.10.0.6), TCP 5432: allowed, not isolated',
      '  egress of shop/web-0 on n1 (fd00:10::5 to fd00:10::6), TCP 5432: allowed, not isolated',
      '  ingress of shop/db-0 on n1 (10.10.0.5 to 10.10.0.6), TCP 5432: allowed, by shop/db-clients spec.ingress[0]',
      '  ingress of shop/db-0 on n1 (fd00:10::5 to fd00:10::6), TCP 5432: allowed, by shop/db-clients spec.ingress[0]',
      'Desired by the agents, by the inputs recorded at 2023-11-14T22:14:20.000Z on n1.',
      expect.stringMatching(/^Not known of that time: /),
    ]);
    const denied = await explain('198.51.100.7', 'shop/db-0', '53/UDP', '--bundle', file, ...at(recordedMs.policed));
    expect(denied.out.slice(0, 3)).toEqual([
      '198.51.100.7 to shop/db-0 port 53/UDP at 2023-11-14T22:14:20.000Z: denied, as far as it was recorded',
      '  ingress of shop/db-0 on n1 (198.51.100.7 to 10.10.0.6), UDP 53: denied, no rule allows it; isolated by shop/db-clients',
      'The egress policies of 198.51.100.7 are not decided here, if it was a pod: there is no history of its node.',
    ]);
  });

  it('lists ranges of ports without a port, for programs too', async () => {
    const args = ['shop/web-0', '10.10.0.6', '-o', 'json', '--bundle', await bundle(recordedLines(), []), ...at(recordedMs.policed)];
    const { code, out } = await explain(...args);
    const past = JSON.parse(out.join('\n')) as {
      verdict: string;
      ends: { direction: string; ports: string; verdict: string; by: string[] }[];
    };
    expect([code, past.verdict]).toEqual([1, 'mixed']);
    const ingress = past.ends.filter(({ direction }) => direction === 'ingress');
    expect(ingress.find(({ ports }) => ports === 'TCP 5432')).toMatchObject({ verdict: 'allow', by: ['shop/db-clients spec.ingress[0]'] });
    expect(ingress.filter(({ ports }) => ports !== 'TCP 5432').every(({ verdict, by }) => verdict === 'deny' && by.length === 0)).toBe(
      true,
    );
  });

  it('decides both ends with the histories of two nodes', async () => {
    const files = ['--bundle', await bundle(), '--bundle', await bundle(recordedElsewhere())];
    const { code, out } = await explain('far/api-0', 'shop/db-0', '80', ...files, ...at(recordedMs.policed));
    expect([code, out.slice(0, 3)]).toEqual([
      1,
      [
        'far/api-0 to shop/db-0 port 80/TCP at 2023-11-14T22:14:20.000Z: denied',
        '  egress of far/api-0 on n2 (10.10.4.9 to 10.10.0.6), TCP 80: allowed, not isolated',
        '  ingress of shop/db-0 on n1 (10.10.4.9 to 10.10.0.6), TCP 80: denied, no rule allows it; isolated by shop/db-clients',
      ],
    ]);
  });

  it('asks the agent of this node', async () => {
    const asked: string[] = [];
    server = createServer((request, response) => {
      asked.push((request.url ?? '').replace(/\?.*/, ''));
      const timeline = { time: '2023-11-14T22:14:20.000Z', kind: 'policy.isolated', subjects: [], text: '', data: { ingress: ['shop/a'] } };
      response.end(request.url?.includes('inputs') ? `${recordedLines().slice(0, -1).join('\n')}\n` : `${JSON.stringify(timeline)}\n`);
    });
    await new Promise<void>((resolve) => server?.listen(join(folder, 'agent.sock'), resolve));
    const { code, out } = await explain('shop/web-0', 'shop/db-0', '80', ...at(recordedMs.policed));
    expect([code, out.at(3)]).toEqual([1, expect.stringContaining('isolated by shop/a')]);
    expect(asked).toEqual(['/v1/history/inputs', '/v1/timeline', '/v1/timeline']);
  });

  it.each([
    ['a time before the first record', 'shop/db-0', recordedMs.first - 1, 'is before the oldest record: inputs are known from'],
    [
      'a pod that was not there',
      'shop/new-0',
      recordedMs.policed,
      'to: "shop/new-0" is not a pod (searched: n1 at 2023-11-14T22:14:20.000Z)',
    ],
  ])('refuses %s: exit 2', async (_, to, ms, message) => {
    const { code, err } = await explain('shop/web-0', to, '--bundle', await bundle(), ...at(ms));
    expect([code, err]).toEqual([2, expect.stringContaining(message)]);
  });

  it('refuses --bundle without a time: exit 2', async () => {
    expect(await explain('shop/web-0', 'shop/db-0', '--bundle', 'x')).toMatchObject({
      code: 2,
      err: expect.stringContaining('x needs --at TIME'),
    });
  });
});
