import { afterEach, beforeEach, expect, it } from 'vitest';
import type { Finding } from '../../../api/check.ts';
import { KubeHttp } from '../../../kubernetes/client/http-client.ts';
import type { ReflectorStatus } from '../../../kubernetes/client/reflector/reflector-report.ts';
import { json, ScriptedApiServer, status } from '../../../kubernetes/testing/scripted-api-server.ts';
import { apiServer } from './api-server.ts';
import { machineClocks } from './check.ts';

let server: ScriptedApiServer;
let http: KubeHttp;

beforeEach(async () => {
  server = new ScriptedApiServer();
  http = new KubeHttp(await server.listen(), 'test');
});
afterEach(async () => {
  http.close();
  await server.close();
});

/** Findings with the wall clock this far ahead, and set by this much since the process began (ms). */
async function found({ aheadMs = 0, jumpedMs = 0 } = {}): Promise<readonly string[]> {
  const followed: ReflectorStatus = {
    kind: 'Node',
    synced: true,
    state: 'in step',
    doing: 'watch',
    waiting: false,
    version: '1',
    failures: 0,
    objects: 1,
    invalid: new Map(),
  };
  const clocks = {
    wallMs: () => Date.now() + aheadMs,
    monotonicMs: machineClocks.monotonicMs,
    originMs: Date.now() - performance.now() + aheadMs - jumpedMs,
  };
  const findings: Finding[] = [];
  const reporter = { finding: (finding: Finding) => void findings.push(finding), progress: () => undefined };
  const context = { peers: { most: 1 }, clocks, blocked: async () => [] };
  await apiServer({ http, sourceStatuses: () => [followed] }).run(context, reporter, AbortSignal.timeout(10_000));
  return findings.map(({ check, state }) => `${check} ${state}`);
}

it('finds a server that answers, with a synchronized clock', async () => {
  server.answer(json({ gitVersion: 'v1' }));
  expect(await found()).toEqual(['api.server ok', 'clock ok', 'api.sources ok']);
});

it.each([
  [{ aheadMs: 3_600_000 }, 'clock problem'],
  [{ aheadMs: -30_000 }, 'clock warning'],
  [{ jumpedMs: 60_000 }, 'clock warning'],
])('finds a clock with %j', async (clock, expected) => {
  server.answer(json({ gitVersion: 'v1' }));
  expect(await found(clock)).toEqual(['api.server ok', expected, 'api.sources ok']);
});

it('finds a server that rejects the agent, and still a clock that was set', async () => {
  server.answer(status(403, 'Forbidden'));
  expect(await found()).toEqual(['api.server problem', 'clock unknown', 'api.sources ok']);
  server.answer(status(503, 'ServiceUnavailable'));
  expect(await found({ jumpedMs: -60_000 })).toEqual(['api.server problem', 'clock warning', 'api.sources ok']);
});
