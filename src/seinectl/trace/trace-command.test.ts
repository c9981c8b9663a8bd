import { mkdtempSync, rmSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { afterEach, beforeEach, expect, it, onTestFinished, vi } from 'vitest';
import { recordingTerminal } from '../../../test/support/recording-terminal.ts';
import type { FamilyTrace, NodeTrace, TraceOutcome, TracePath } from '../../api/trace.ts';
import { followTrace, type NodeQuestion } from '../../operations/path/whole-trace.ts';
import { run } from '../program.ts';
import { traceLines } from './trace-lines.ts';
import { exitCodeOf } from './trace-report.ts';

const packet = { protocol: 'TCP', source: '10.0.0.5', sourcePort: 40_000, destination: '10.0.1.5', destinationPort: 80, ttl: 64 };
const delivered: TraceOutcome = { what: 'pod', to: 'pod shop/db-0', packet };
const drop = { table: 'route', name: 'route.none', message: 'No pod has it', cause: 'The pod is gone', remedy: 'Look', packets: '3' };
const dropped: TraceOutcome = { what: 'dropped', to: 'route.none', packet, drop };
const tunnelled: TraceOutcome = { what: 'tunnel', to: 'node-2', packet };

function path(bridge: TraceOutcome, more: Partial<TracePath> = {}): TracePath {
  return { endpoints: [], hops: [{ table: 'classify', text: 'arrives', flow: null, owner: null }], bridge, desired: bridge, ...more };
}

function answer(node: string, ...paths: readonly TracePath[]): NodeTrace {
  const trace: FamilyTrace = {
    family: 'ipv4',
    packet,
    from: 'shop/web-0',
    to: 'shop/db-0',
    connection: 'new',
    paths,
    moreEndpoints: 0,
    milliseconds: 5,
  };
  return { node, traces: [trace] };
}

let folder = '';
let server: Server | undefined;
let body: NodeTrace | string = answer('node-1', path(delivered));
let asked: string[] = [];
/** Status of an answer that is a text. */
let status = 400;

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'seinectl-'));
  asked = [];
  status = 400;
  server = createServer((request, response) => {
    asked.push(request.url ?? '');
    response.writeHead(typeof body === 'string' ? status : 200).end(typeof body === 'string' ? body : JSON.stringify(body));
  });
  await new Promise<void>((resolve) => server?.listen(join(folder, 'agent.sock'), resolve));
});

afterEach(async () => {
  await new Promise((resolve) => server?.close(resolve));
  rmSync(folder, { recursive: true });
});

async function trace(...args: readonly string[]) {
  const { terminal, out, err } = recordingTerminal();
  const code = await run(['--socket', join(folder, 'agent.sock'), 'trace', ...args], terminal, Readable.from([]));
  return { code, lines: out, remarks: err };
}

it('asks the agent of the node, and prints verdict, hops and the three verdicts', async () => {
  body = answer('node-1', path(delivered));
  const { code, lines } = await trace('shop/web-0', 'shop/db-0', '80', '--family', 'ipv4', '--established');
  expect(asked).toEqual(['/v1/trace?from=shop%2Fweb-0&to=shop%2Fdb-0&port=80&family=ipv4&established=true']);
  expect(lines[0]).toContain('ALLOWED  shop/web-0 (10.0.0.5, node-1) -> shop/db-0 10.0.1.5 80/TCP');
  expect(lines.join('\n')).toContain('Delivered to pod shop/db-0 on node-1.');
  expect(lines.at(-1)).toContain('desired allowed (pod shop/db-0) · bridge allowed (pod shop/db-0)');
  expect(code).toBe(0);
});

it('follows a limited number of endpoints, wherever they are chosen, and counts the others', async () => {
  const questions: string[] = [];
  const through = (node: string): TraceOutcome => ({ ...tunnelled, to: node });
  const [trace] = await followTrace(answer('node-1', path(through('node-2'))), async (node, { to }) => {
    questions.push(`${node} ${to}`);
    if (node !== 'node-2') return { answer: answer(node, path(delivered)) };
    const endpoints = Array.from({ length: 64 }, (_, number) => `10.0.2.${number}:80`);
    return { answer: answer(node, ...endpoints.map((each) => path(through('node-3'), { endpoints: [each] }))) };
  });
  expect(questions).toHaveLength(17);
  expect([trace?.paths.flatMap(({ endpoints }) => endpoints).length, trace?.moreEndpoints]).toEqual([16, 48]);
});

it('refuses to trace by another node where it would have no effect', async () => {
  body = answer('node-1', path(delivered));
  const { code, remarks } = await trace('outside', 'shop/db-0', '--via', 'node-2', '--bundle', 'node-1.tar.gz');
  expect([code, remarks.join()]).toEqual([2, expect.stringContaining("'--via <name>' cannot be used with option '--bundle <file>'")]);
  onTestFinished(() => void vi.unstubAllEnvs());
  vi.stubEnv('KUBECONFIG', join(folder, 'none'));
  expect((await trace('outside', 'shop/db-0', '--via', 'node-2')).code).not.toBe(0);
  expect(asked).toEqual([]); // the agent of this node does not know which node the packet enters
});

it('names a drop with cause and remedy', async () => {
  body = answer('node-1', path(dropped));
  const { code, lines } = await trace('shop/web-0', '10.0.1.5', '80');
  expect(lines.join('\n')).toMatch(
    /DENIED[\s\S]*Dropped in route on node-1 \(route\.none\); 3 such packets so far: No pod has it\.\n {4}Usual cause: The pod is gone\.\n {4}What to do: Look\./,
  );
  expect(code).toBe(1);
});

it('an agent that names a wrong field gives exit code 2', async () => {
  body = '[INVALID_INPUT] port: "x" is not of the form 80';
  const { code, remarks } = await trace('shop/web-0', 'shop/db-0', 'x');
  expect(remarks).toEqual(['seinectl: port: "x" is not of the form 80']);
  expect(code).toBe(2);
});

it.each([
  ['has no turn', 'many other traces wait on this node; repeat the command', []],
  ['records nothing', 'nothing is recorded: history.size is 0', ['--at', '10m']],
])('an agent that %s is no denial: exit code 3', async (_, reason, options) => {
  [body, status] = [`[UNAVAILABLE] ${reason}`, 503];
  const { code, remarks } = await trace('shop/web-0', 'shop/db-0', '80', ...options);
  expect([code, remarks]).toEqual([3, [`seinectl: ${reason}`]]);
});

it('tells what to run where the packet leaves for another node', async () => {
  body = answer('node-1', path(tunnelled));
  const { code, lines } = await trace('shop/web-0', 'shop/db-0', '80');
  expect(lines.join('\n')).toContain('seinectl trace tunnel:node-1/10.0.0.5 10.0.1.5 80/TCP --family ipv4');
  expect(code).toBe(3);
});

it('prints JSON', async () => {
  body = answer('node-1', path(delivered));
  const { lines } = await trace('shop/web-0', 'shop/db-0', '80', '-o', 'json');
  expect(JSON.parse(lines.join('\n'))).toMatchObject({ traces: [{ family: 'ipv4', paths: [{ verdict: 'allowed' }], meanings: [] }] });
});

it('follows a packet to the next node, which gets its tunnel as the sender', async () => {
  const questions: NodeQuestion[] = [];
  const traces = await followTrace(answer('node-1', path(tunnelled)), (node, question) => {
    questions.push(question);
    return Promise.resolve({ answer: answer(node, path(delivered)) });
  });
  expect(questions).toEqual([{ from: 'tunnel:node-1/10.0.0.5', to: '10.0.1.5', family: 'ipv4', port: '80/TCP', 'source-port': '40000' }]);
  expect(traces[0]?.paths[0]).toMatchObject({ verdict: 'allowed', segments: [{ node: 'node-1' }, { node: 'node-2' }] });
  expect(exitCodeOf(traces, [])).toBe(0);
});

it('ends a loop of nodes', async () => {
  const traces = await followTrace(answer('node-1', path(tunnelled)), (node) => Promise.resolve({ answer: answer(node, path(tunnelled)) }));
  expect(traces[0]?.paths[0]?.missing?.reason).toContain('loop');
});

it.each([
  [
    'the bridge lacks a flow',
    path(dropped, { desired: delivered, difference: { table: 'route', desired: 'a', bridge: null, owner: null } }),
    undefined,
  ],
  ['both are delivered, to different receivers', path({ ...delivered, what: 'node', to: 'the node' }, { desired: delivered }), undefined],
  ['the objects specify another verdict', path(delivered), { verdict: 'denied', why: 'no rule allows it' } as const],
])('gives exit code 4 if %s', async (_, each, meaning) => {
  const traces = await followTrace(answer('node-1', each), () => Promise.resolve({ failure: 'away' }));
  expect(exitCodeOf(traces, [[meaning]])).toBe(4);
  const [whole] = traces;
  if (!whole) throw new Error('no trace');
  const lines = traceLines(whole, [meaning], false, recordingTerminal().terminal.room);
  expect(lines.join('\n')).toMatch(meaning ? /meaning denied \(no rule allows it\)/ : /DIFFERS/);
});
