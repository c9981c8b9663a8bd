import { describe, expect, it } from 'vitest';
import type { FoundProblem, Problem } from '../../../api/problem.ts';
import type { PartStatus } from '../../../api/status.ts';
import { agentProblems, type StatusFacts } from './agent-problems.ts';
import { ProblemEvents } from './problem-events.ts';
import { ProblemLedger } from './problem-ledger.ts';

const part: PartStatus = {
  part: 'bridge',
  wanted: 9,
  held: 9,
  revision: 4,
  realizedRevision: 4,
  drift: 3,
  refused: [],
  refusedCount: 0,
  repairing: 0,
  contested: 0,
};
const well: StatusFacts = {
  readiness: { state: 'ready' },
  connections: [{ name: 'openflow', up: true, connects: 1, counters: {} }],
  sources: [{ kind: 'Node', synced: true, state: 'in step', doing: 'watch', objects: 3, failures: 0, invalid: [] }],
  parts: [part],
  pods: { attached: 1, pools: [{ cidr: '10.10.0.0/22', size: 1_000, allocated: 899, quarantined: 0 }] },
  objections: { count: 0, first: [] },
  networkPolicy: { enforcement: 'enforced', objects: 3, selecting: 1, isolatedPods: 2, closedPods: [], shortages: [] },
};
const named = (facts: Partial<StatusFacts>) => agentProblems({ ...well, ...facts }).map(({ kind, about }) => `${kind} ${about}`);

describe('problems', () => {
  it('are none on a healthy node, whatever was repaired before', () => {
    expect(agentProblems(well)).toEqual([]);
  });

  it.each<[string, Partial<StatusFacts>, readonly string[]]>([
    ['a node that is not ready', { readiness: { state: 'impaired', reason: 'no switch' } }, ['agent.ready impaired']],
    ['a paused repair', { repair: { pausedForSeconds: 5 } }, ['agent.repair pause']],
    ['a lost connection', { connections: [{ name: 'openflow', up: false, connects: 1, counters: {} }] }, ['connection openflow']],
    [
      'a resource that we may not read, with an object that makes no sense',
      {
        sources: well.sources.map((source) => ({ ...source, state: 'refused', invalid: [{ name: 'n1', message: '[INVALID_INPUT] no' }] })),
      },
      ['source Node', 'source.object Node n1'],
    ],
    ['a part that fails', { parts: [{ ...part, lastError: { message: '[UNAVAILABLE] gone' } }] }, ['part.failing bridge']],
    [
      'refused owners, also those that are not named',
      { parts: [{ ...part, refused: [{ owner: 'node', error: { message: '[REFUSED] no' } }], refusedCount: 3 }] },
      ['part.refused node', 'part.refused more'],
    ],
    ['entries that another program keeps changing', { parts: [{ ...part, contested: 1 }] }, ['part.contested bridge']],
    ['a foreign change that is being repaired', { parts: [{ ...part, repairing: 2 }] }, ['part.drift bridge']],
    ['what is wanted and not there after five seconds', { parts: [{ ...part, behindSeconds: 6 }] }, ['part.behind bridge']],
    [
      'objects that are not served as specified',
      { objections: { count: 2, first: [{ kind: 'Service', name: 'a/b', reasons: ['its address is a pod’s'] }] } },
      ['object Service a/b', 'object more'],
    ],
    [
      'a pod that is closed',
      { networkPolicy: { ...well.networkPolicy, closedPods: [{ pod: 'shop/a', why: 'policies are not known yet' }] } },
      ['policy.closed shop/a'],
    ],
    [
      'a pod that is closed where nothing is enforced',
      { networkPolicy: { ...well.networkPolicy, mode: 'audit', closedPods: [{ pod: 'shop/a', why: 'policies are not known yet' }] } },
      [],
    ],
    [
      'policies that are suspended, and a pod that was opened by hand',
      {
        networkPolicy: {
          ...well.networkPolicy,
          suspensions: [{ what: 'pod', name: 'shop/a', reason: 'x', since: '', until: '', pods: 1 }],
          openedByHand: [{ pod: 'shop/b', secondsLeft: 7 }],
        },
      },
      ['policy.suspended pod shop/a', 'policy.opened shop/b'],
    ],
    [
      'numbers that have run out',
      { networkPolicy: { ...well.networkPolicy, shortages: ['2 pods are blocked: there is no number for their class'] } },
      ['policy.numbers pods are blocked: there is no number for their class'],
    ],
    [
      'a pool that is nearly used up',
      { pods: { attached: 1, pools: [{ cidr: '10.0.0.0/30', size: 2, allocated: 1, quarantined: 1 }] } },
      ['addresses 10.0.0.0/30'],
    ],
    ['a journal that cannot be written', { pods: { ...well.pods, journalError: { message: '[UNAVAILABLE] ENOSPC' } } }, ['journal ipam']],
  ])('include: %s', (_, facts, problems) => {
    expect(named(facts)).toEqual(problems);
  });

  it('exclude changes in progress', () => {
    expect(named({ parts: [{ ...part, behindSeconds: 5 }] })).toEqual([]);
  });

  it('have no error codes in their sentences', () => {
    const [problem] = agentProblems({ ...well, parts: [{ ...part, lastError: { message: '[UNAVAILABLE] gone' } }] });
    expect(problem?.message).toBe('bridge: gone');
  });
});

describe('the age of a problem', () => {
  let nowMs = 0;
  const problem = (about: string, message = 'x'): FoundProblem => ({ kind: 'node', about, message });
  const ledger = new ProblemLedger(() => nowMs);
  const ages = (...found: FoundProblem[]) => ledger.note(found).map(({ about, ageSeconds }) => [about, ageSeconds]);

  it('counts from its first report, with any wording, and again after it was resolved', () => {
    expect(ages(problem('a'))).toEqual([['a', 0]]);
    nowMs = 2_500;
    expect(ages(problem('a', '2 entries'), problem('b'))).toEqual([
      ['a', 2],
      ['b', 0],
    ]);
    expect(ages(problem('b'))).toEqual([['b', 0]]);
    nowMs = 9_000;
    expect(ages(problem('a'), problem('b'))).toEqual([
      ['a', 0],
      ['b', 6],
    ]);
  });
});

describe('events', () => {
  const posted: string[] = [];
  const events = new ProblemEvents((reason, message, type) => posted.push(`${type} ${reason} ${message}`));
  const problem = (about: string, ageSeconds: number, kind: Problem['kind'] = 'part.failing'): Problem => ({
    kind,
    about,
    message: about,
    ageSeconds,
  });

  it('report problems that last a minute, once, and their end', () => {
    events.note([problem('a', 59)]);
    expect(posted).toEqual([]);
    for (const ageSeconds of [60, 61]) events.note([problem('a', ageSeconds), problem('b', 1)]);
    events.note([]);
    expect(posted).toEqual(['Warning NodeNetworkProblem a', 'Normal NodeNetworkProblemOver a']);
  });

  it('exclude problems of every node, and are bounded', () => {
    posted.length = 0;
    events.note([problem('Node', 99, 'source'), ...Array.from({ length: 50 }, (_, at) => problem(`x${at}`, 99))]);
    expect(posted).toHaveLength(20);
  });
});
