import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { recordedElsewhere, recordedLines, recordedMs } from '../../../test/support/recorded-inputs.ts';
import { recordingTerminal } from '../../../test/support/recording-terminal.ts';
import { writeBundle } from '../../../test/support/written-bundle.ts';
import { SegmentWriter } from '../../operations/history/segment-writer.ts';
import { run } from '../program.ts';

let folder = '';
let server: Server | undefined;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'seinectl-trace-at-'));
});
afterEach(async () => {
  await new Promise((resolve) => (server ? server.close(resolve) : resolve(undefined)));
  server = undefined;
  rmSync(folder, { recursive: true });
});

async function bundle(lines: readonly string[], events: readonly object[] = []): Promise<string> {
  return await writeBundle(join(folder, `${Math.random()}.tar.gz`), {
    'history/inputs.ndjson': `${lines.join('\n')}\n`,
    'history/events.ndjson': events.map((each) => `${JSON.stringify(each)}\n`).join(''),
  });
}

async function trace(...args: readonly string[]) {
  const { terminal, out, err } = recordingTerminal();
  const code = await run(['--socket', join(folder, 'agent.sock'), 'trace', ...args], terminal, Readable.from(['']));
  return { code, out: out.join('\n'), err: err.join('\n') };
}

const at = (ms: number): readonly string[] => ['--at', new Date(ms).toISOString()];
const ends = ['shop/web-0', 'shop/db-0', '80', '--family', 'ipv4'];

it('has the verdict of each time: before, during and after a policy', async () => {
  const file = await bundle(recordedLines());
  const verdicts = [];
  for (const ms of [recordedMs.policed - 1, recordedMs.policed, recordedMs.freed - 1, recordedMs.freed])
    for (const port of ['80', '5432']) verdicts.push((await trace('shop/web-0', 'shop/db-0', port, '--bundle', file, ...at(ms))).code);
  expect(verdicts).toEqual([0, 0, 1, 0, 1, 0, 0, 0]);
});

it('names the time whose inputs were used, and no other verdict', async () => {
  const { out } = await trace(...ends, '--bundle', await bundle(recordedLines()), ...at(recordedMs.freed - 5_000));
  expect(out).toMatch(/^DENIED {2}shop\/web-0 .*, at 2023-11-14T22:16:15\.000Z$/m);
  expect(out).toContain('Dropped in ingressVerdict on n1 (policy.ingress)');
  expect(out).toContain('desired denied (policy.ingress), by the inputs recorded at 2023-11-14T22:14:20.000Z on n1');
  expect(out).not.toMatch(/meaning|bridge (?:allowed|denied|unknown)/);
});

it('prints for programs only what is known of that time', async () => {
  const { out } = await trace(...ends, '-o', 'json', '--bundle', await bundle(recordedLines()), ...at(recordedMs.policed));
  const { traces } = JSON.parse(out) as { traces: { at: object; paths: object[] }[] };
  expect(traces[0]?.at).toEqual({
    asked: '2023-11-14T22:14:20.000Z',
    records: [{ node: 'n1', recorded: '2023-11-14T22:14:20.000Z' }],
  });
  expect(traces[0]?.paths[0]).toMatchObject({ verdict: 'denied', desired: 'denied' });
  expect(JSON.stringify(traces)).not.toContain('"bridge"');
});

it('traces to a Service with the endpoints of that time', async () => {
  const { code, out } = await trace(
    'shop/db-0',
    'service:default/web',
    '--bundle',
    await bundle(recordedLines()),
    ...at(recordedMs.policed),
  );
  expect(out).toMatch(/10\.96\.0\.10.*10\.10\.0\.5:8080[\s\S]*Delivered to pod shop\/web-0 on n1\./);
  expect(code).toBe(3); // the other endpoint is on n2, of which there is no history
});

it('follows a packet over the histories of two nodes, and knows pods of both by name', async () => {
  const files = ['--bundle', await bundle(recordedLines()), '--bundle', await bundle(recordedElsewhere())];
  const { code, out } = await trace('shop/web-0', 'far/api-0', '80', ...files, ...at(recordedMs.policed));
  expect([code, out]).toEqual([0, expect.stringMatching(/^ALLOWED .*n1 .*is sent to n2.*Delivered to pod far\/api-0 on n2\./s)]);
  const alone = await trace('shop/web-0', '10.10.4.9', '80', ...files.slice(0, 2), ...at(recordedMs.policed));
  expect([alone.code, alone.out]).toEqual([3, expect.stringContaining('there is no history of this node: add --bundle FILE')]);
});

it.each([
  ['drop', 1, 'The kernel of n1 drops it: there is no encrypted way to n2 yet'],
  ['allow', 3, 'sends it by its own routes, without a tunnel, to n2'],
] as const)('knows what became of packets without encryption: %s', async (unencryptedPeers, verdict, text) => {
  const lines = recordedLines().map((line) => {
    const each = JSON.parse(line) as { is: string; of?: { name: string }; environment?: object };
    if (each.is === 'peer' && each.of?.name === 'n2') Object.assign(each.of, { direct: { ipv4: {} } });
    if (each.environment) Object.assign(each.environment, { wireGuard: { device: 'antrea-wg0', port: 51820, unencryptedPeers } });
    return JSON.stringify(each);
  });
  const { code, out } = await trace('shop/web-0', '10.10.4.9', '80', '--bundle', await bundle(lines), ...at(recordedMs.policed));
  expect([code, out]).toEqual([verdict, expect.stringContaining(text)]);
});

it.each([
  ['before the oldest record', recordedMs.first - 1],
  ['after the newest record', recordedMs.freed + 1],
])('names the period that is recorded for a time %s: exit 2', async (where, ms) => {
  const { code, err } = await trace(...ends, '--bundle', await bundle(recordedLines()), ...at(ms));
  const period = 'inputs are known from 2023-11-14T22:13:20.000Z to 2023-11-14T22:16:20.000Z';
  expect([code, err]).toEqual([2, expect.stringContaining(`at: ${new Date(ms).toISOString()} is ${where}: ${period}`)]);
});

it('knows a quiet node until its last event', async () => {
  const quiet = [{ t: recordedMs.freed + 60_000, n: 1, k: 'agent.ready', s: ['node/n1'], d: {} }];
  const file = await bundle(recordedLines(), quiet);
  expect((await trace(...ends, '--bundle', file, ...at(recordedMs.freed + 60_000))).code).toBe(0);
  expect((await trace(...ends, '--bundle', file, ...at(recordedMs.freed + 60_001))).code).toBe(2);
});

it('reads a folder of several segments from the last complete record', async () => {
  const history = join(folder, 'history');
  mkdirSync(history);
  const lines = recordedLines();
  let clockMs = recordedMs.first;
  const writer = new SegmentWriter({
    ...{ folder: history, stream: 'inputs', bytesMax: 1e6, header: () => ({ stream: 'inputs' }) },
    ...{ now: () => clockMs, wallMs: () => clockMs },
  });
  for (const line of lines) {
    const { t } = JSON.parse(line) as { t?: number };
    // Records are written after their time; each begins another segment here, and the first is in two.
    if (t !== undefined && t !== clockMs) await writer.close();
    clockMs = t ?? clockMs;
    await writer.append(`${line}\n`);
  }
  await writer.close();
  const verdicts = [];
  for (const ms of [recordedMs.policed - 1, recordedMs.freed - 1, recordedMs.freed])
    verdicts.push((await trace(...ends, '--bundle', history, ...at(ms))).code);
  expect(verdicts).toEqual([0, 1, 0]);
  expect((await trace(...ends, '--bundle', history, ...at(recordedMs.first - 1))).err).toContain('is before the oldest record');
});

it('asks the agent of this node', async () => {
  const asked: string[] = [];
  server = createServer((request, response) => {
    asked.push(request.url ?? '');
    response.end(`${recordedLines().slice(0, -1).join('\n')}\n`);
  });
  await new Promise<void>((resolve) => server?.listen(join(folder, 'agent.sock'), resolve));
  const { code, out } = await trace(...ends, ...at(recordedMs.policed));
  expect([code, out]).toEqual([1, expect.stringContaining('recorded at 2023-11-14T22:14:20.000Z on n1')]);
  expect(asked).toEqual([`/v1/history/inputs?at=${recordedMs.policed}`]);
  const other = await trace('shop/web-0', '10.10.4.9', '80', ...at(recordedMs.policed));
  expect([other.code, other.out]).toEqual([
    3,
    expect.stringContaining('The part of n2 is unknown: run this command on a host with a kubeconfig'),
  ]);
});

it.each([
  ['a time of another form', ['--at', 'yesterday'], 'is neither a duration'],
  ['a probe', ['--at', '1h', '--probe'], 'cannot be used with'],
])('refuses %s: exit 2', async (_, args, message) => {
  expect(await trace(...ends, ...args)).toMatchObject({ code: 2, err: expect.stringContaining(message) });
});

it('names what was searched for a pod that was not there: exit 2', async () => {
  const { code, err } = await trace('shop/new-0', 'shop/db-0', '--bundle', await bundle(recordedLines()), ...at(recordedMs.policed));
  expect([code, err]).toEqual([2, expect.stringMatching(/from: "shop\/new-0" .*\(searched: n1 at 2023-11-14T22:14:20\.000Z\)/)]);
});
