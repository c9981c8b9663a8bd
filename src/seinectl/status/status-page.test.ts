import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { AnsweringAgent, wellStatus } from '../../../test/support/answering-agent.ts';
import type { HealthCheckStatus } from '../../api/problem.ts';

let agent: AnsweringAgent;

beforeEach(async () => {
  agent = await AnsweringAgent.start({ '/v1/status': wellStatus });
});
afterEach(() => agent.end());

describe('status', () => {
  it('reports first that all is well, with 0', async () => {
    const { code, out } = await agent.seinectl(['status']);
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
    agent.answers['/v1/status'] = { ...wellStatus, networkPolicy: { ...wellStatus.networkPolicy, mode: 'audit' } };
    expect((await agent.seinectl(['status'])).out).toContain('Policies:  audit, 2 of 3 NetworkPolicies select 4 pods here\n');
  });

  it('states that denied pods are refused', async () => {
    agent.answers['/v1/status'] = { ...wellStatus, networkPolicy: { ...wellStatus.networkPolicy, denied: 'reject' } };
    expect((await agent.seinectl(['status'])).out).toContain('Policies:  enforced, denied pods are refused, 2 of 3 NetworkPolicies');
  });

  it('names objects that are not served as specified, without terminal control sequences', async () => {
    const first = [{ kind: 'Node', name: 'evil\u001b[2J', reasons: ['pod network 0.0.0.0/0 is larger than the network of any node'] }];
    agent.answers['/v1/status'] = { ...wellStatus, objections: { count: 3, first } };
    const { out } = await agent.seinectl(['status']);
    expect(out).toContain('! Node evil\\u001b[2J is not served as specified: pod network 0.0.0.0/0 is larger than');
    expect(out).toContain('! 2 more objects are not served as specified');
  });

  it('lists problems first, with 1 while not ready', async () => {
    agent.answers['/v1/status'] = {
      ...wellStatus,
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
          ...wellStatus.parts[0],
          held: null,
          realizedRevision: -1,
          drift: 4,
          contested: 1,
          refused: [{ owner: 'service/x:y', error: { message: '[REFUSED] OFPBAC_BAD_OUT_GROUP', ageSeconds: 1 } }],
        },
      ],
    };
    const { code, out } = await agent.seinectl(['status']);
    expect(code).toBe(1);
    expect(out.split('\n').filter((line) => /^[!*]/.test(line))).toEqual([
      '! not ready (starting): the Node has no pod CIDR',
      '! OpenFlow, flows is not connected: connect ENOENT (2s ago)',
      '! Service: not confirmed by the API server; 5 objects from before: refused (4s ago)',
      '! Node: a list lacks 8 of 9 objects; nothing is removed until a second list agrees',
      '! Pod: the API server denies access; 1 object from before: the API server answered 403 Forbidden (9s ago)',
      '! EndpointSlice: the API server has an older state than before; 2 objects from before',
      '! bridge (flows, groups): entries of service/x:y are refused: OFPBAC_BAD_OUT_GROUP (1s ago)',
      '! bridge (flows, groups): another program keeps changing 1 entry',
      '! 1 of 1 addresses of 10.10.0.0/30 are in use',
      '* NetworkPolicy is not enforced: 2 objects without effect, all traffic is allowed',
      '* bridge (flows, groups): 4 entries repaired after foreign changes or a restart of Open vSwitch',
    ]);
  });

  it('accepts an agent of 0.2.0, which does not report freshness of resources', async () => {
    const older = { synced: true, doing: 'watch', objects: 3, failures: 0, invalid: [] };
    agent.answers['/v1/status'] = {
      ...wellStatus,
      sources: [
        { kind: 'Node', ...older },
        { kind: 'Service', ...older, synced: false },
        { kind: 'Pod', ...older, synced: false, failures: 2 },
      ],
    };
    const { code, out } = await agent.seinectl(['status']);
    expect(code).toBe(0);
    expect(out).toMatch(/API server, Node +synced/);
    expect(out).toMatch(/API server, Service +not confirmed/);
    expect(out).toMatch(/API server, Pod \(of this node\) +failing/);
  });

  it("reports the agent's problems, with remedies, and the age of the answer", async () => {
    const healthChecks = [check('bridge', 1.2), check('cni', null), check('host', 75)];
    const problem = {
      kind: 'agent.repair',
      about: 'pause',
      message: 'repair is paused\u001b[2J',
      ageSeconds: 61,
      remedy: 'seinectl resume',
    };
    agent.answers['/v1/status'] = { ...wellStatus, problems: [problem], healthChecks, verdict: 'problems' };
    const { out } = await agent.seinectl(['status']);
    expect(out).toContain('! repair is paused\\u001b[2J (for 1m 1s)\n  remedy: seinectl resume');
    expect(out).not.toContain('No problem');
    expect(out).toContain('Checks:    2 of 3 overdue: cni (not yet), host (1m 15s ago, due every 4s)');
  });

  it('does not report health before all checks are complete', async () => {
    const answer = { ...wellStatus, problems: [], healthChecks: [check('bridge', 1.2), check('cni', null)] };
    agent.answers['/v1/status'] = { ...answer, verdict: 'not all checked' };
    expect((await agent.seinectl(['status'])).out).toContain('No known problems, but some checks are overdue: cni (not yet)');
    agent.answers['/v1/status'] = { ...answer, healthChecks: [{ ...check('bridge', 1.2), repaired: 2 }], verdict: 'no problems' };
    const { out } = await agent.seinectl(['status']);
    expect(out).toContain('* bridge: 2 faults repaired; the log has each');
    expect(out).toContain('\nNo problems.\n');
    expect(out).toContain('Checks:    all 1 on time, the oldest 1s ago');
  });

  it('is JSON for scripts', async () => {
    expect(JSON.parse((await agent.seinectl(['status', '-o', 'json'])).out)).toEqual(wellStatus);
  });
});

function check(name: string, ageSeconds: number | null): HealthCheckStatus {
  const state = ageSeconds === null ? 'not yet' : ageSeconds > 6 ? 'overdue' : 'fresh';
  return { name, state, ageSeconds, everySeconds: 4, roundSeconds: 6, tookMs: 1 };
}
