import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { FakeFleet, type FakeFleetOptions } from '../../../test/support/fake-fleet.ts';
import { recordedElsewhere, recordedLines, recordedMs } from '../../../test/support/recorded-inputs.ts';
import { recordingTerminal } from '../../../test/support/recording-terminal.ts';
import { run } from '../program.ts';

let folder = '';
let fleet: FakeFleet | undefined;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'seinectl-trace-cluster-at-'));
});
afterEach(async () => {
  await fleet?.close();
  rmSync(folder, { recursive: true });
});

const path = '/v1/history/inputs';
/** Lines of the first record: an agent sends none of a later time. */
const text = (lines: readonly string[]): string =>
  `${lines.slice(0, lines.findIndex((each) => each.includes('"complete"')) + 1).join('\n')}\n`;
const histories = { [`n1 ${path}`]: text(recordedLines()), [`n2 ${path}`]: text(recordedElsewhere()) };

async function traceAt(ends: readonly string[], more: Partial<FakeFleetOptions> = {}) {
  const pod = (node: string): object => ({ spec: { nodeName: node } });
  fleet = new FakeFleet({
    agents: ['n1', 'n2'].map((node) => ({ node, reply: { answer: '{}' } })),
    single: { '/api/v1/namespaces/shop/pods/web-0': pod('n1'), '/api/v1/namespaces/far/pods/api-0': pod('n2') },
    pathsOfNode: histories,
    ...more,
  });
  const server = `http://127.0.0.1:${await fleet.listen()}`;
  const here = { clusters: [{ name: 'here', cluster: { server } }], users: [{ name: 'me', user: { token: 'secret' } }] };
  const kubeconfig = join(folder, 'kubeconfig');
  const contexts = [{ name: 'here', context: { cluster: 'here', user: 'me' } }];
  writeFileSync(kubeconfig, JSON.stringify({ ...here, contexts, 'current-context': 'here' }));
  const { terminal, out, err } = recordingTerminal();
  const at = ['--kubeconfig', kubeconfig, '--at', new Date(recordedMs.first + 30_000).toISOString()];
  const code = await run(['trace', ...ends, ...at], terminal, Readable.from(['']));
  return { code, out: out.join('\n'), err: err.join('\n'), requests: fleet.requests };
}

it('reads the histories of both ends, each once', async () => {
  const { code, out, requests } = await traceAt(['shop/web-0', 'far/api-0', '80']);
  expect([code, out]).toEqual([0, expect.stringMatching(/^ALLOWED .*is sent to n2.*Delivered to pod far\/api-0 on n2\./s)]);
  expect(out).toContain('recorded at 2023-11-14T22:13:20.010Z on n1, 2023-11-14T22:13:20.010Z on n2');
  expect(requests.filter((each) => each.includes(path))).toHaveLength(2);
});

it('reads the history of a node that the packet comes to', async () => {
  const { code, out } = await traceAt(['shop/web-0', '10.10.4.9', '80'], { objects: { '/api/v1/pods': [] } });
  expect([code, out]).toEqual([0, expect.stringContaining('Delivered to pod far/api-0 on n2.')]);
});

it('names a pod that is gone, and what to do: exit 2', async () => {
  const { code, err } = await traceAt(['shop/gone-0', 'far/api-0', '80']);
  expect([code, err]).toEqual([2, expect.stringMatching(/the cluster has no pod shop\/gone-0 now; .*--bundle FILE/)]);
});

it('names a node without an agent: exit 3', async () => {
  const agents = [{ node: 'n1', reply: { answer: '{}' } }] as const;
  const { code, out } = await traceAt(['shop/web-0', '10.10.4.9', '80'], { agents, objects: { '/api/v1/pods': [] } });
  expect([code, out]).toEqual([3, expect.stringContaining('The part of n2 is unknown: n2 has no agent in this namespace')]);
});

it('reports an agent that is older than recorded inputs: exit 3', async () => {
  const agents = ['n1', 'n2'].map((node) => ({ node, isOld: true, reply: { answer: '{}' } }));
  const { code, err } = await traceAt(['shop/web-0', 'far/api-0', '80'], { agents });
  expect([code, err]).toEqual([3, expect.stringContaining('older')]);
});
