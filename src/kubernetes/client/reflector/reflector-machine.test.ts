import { describe, expect, it } from 'vitest';
import {
  compareVersions,
  idleReflector,
  type ReflectorAction,
  type ReflectorEvent,
  type ReflectorState,
  reflectorPolicy,
  stepReflector,
} from './reflector-machine.ts';

/** Feeds events at given times and records the step of each. `chance` is 0. */
function play(events: readonly (readonly [number, ReflectorEvent])[], from: ReflectorState = idleReflector): string[] {
  let state = from;
  return events.map(([nowMs, event]) => {
    const step = stepReflector(state, event, { nowMs, chance: 0 }, reflectorPolicy);
    state = step.state;
    const held = state.held && `held ${state.held.missing}/${state.held.known}`;
    return [step.commit, formatAction(step.action), held, state.behind && `behind ${state.behind.version}`].filter(Boolean).join(', ');
  });
}

function formatAction(action: ReflectorAction): string {
  if (action.do === 'wait') return `wait ${action.ms}`;
  return action.do === 'stay' ? 'stay' : `${action.do} ${action.version || 'quorum'}`;
}

const start: ReflectorEvent = { type: 'start', version: undefined };
const snapshot = (version: string, known = 0, missing = 0, complete = true): ReflectorEvent => ({
  type: 'snapshot',
  version,
  known,
  missing,
  complete,
});
const failed = (why: 'gone' | 'ahead' | 'unsupported' | 'broken', retryAfterMs?: number): ReflectorEvent => ({
  type: 'failed',
  why,
  ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
});
const waited: ReflectorEvent = { type: 'waited' };
const ended: ReflectorEvent = { type: 'ended' };
const seen = (version: string): ReflectorEvent => ({ type: 'seen', version });
const bookmark = (version: string): ReflectorEvent => ({ type: 'bookmark', version });

describe('a server with WatchList', () => {
  it('streams its snapshot and continues in the same watch, then watches from the newest version', () => {
    expect(
      play([
        [0, start],
        [1, snapshot('7')],
        [2, seen('9')],
        [300_000, ended],
      ]),
    ).toEqual(['watchList 0', 'replace, stay', 'stay', 'watch 9']);
  });

  it('requests nothing older than the stored version', () => {
    expect(play([[0, { type: 'start', version: '5' }]])).toEqual(['watchList 5']);
  });
});

describe('a server without WatchList', () => {
  it('requests a list from the cache, and never again a WatchList', () => {
    expect(
      play([
        [0, start],
        [1, failed('unsupported')],
        [2, snapshot('7')],
        [9_000, failed('gone')],
        [9_900, waited],
        [9_901, snapshot('12')],
      ]),
    ).toEqual(['watchList 0', 'list 0', 'replace, watch 7', 'wait 400', 'list 7', 'replace, watch 12']);
  });
});

describe('failures', () => {
  it('wait longer and longer, forever, and start over after a healthy watch', () => {
    const down = Array.from({ length: 40 }, (): (readonly [number, ReflectorEvent])[] => [
      [0, failed('broken')],
      [0, waited],
    ]).flat();
    const waits = play([[0, start], ...down]).filter((line) => line.startsWith('wait'));
    expect(waits.slice(0, 7)).toEqual(['wait 400', 'wait 800', 'wait 1600', 'wait 3200', 'wait 6400', 'wait 12800', 'wait 15000']);
    expect(waits.at(-1)).toBe('wait 15000');
    const healed = play([[0, start], ...down, [0, snapshot('7')], [5_000, failed('broken')], [5_400, waited]]);
    expect(healed.slice(-3)).toEqual(['replace, stay', 'wait 400', 'watch 7']);
  });

  it('for an hour are few and a state of constant size, and end with the watch that broke', () => {
    let state = stepReflector(idleReflector, start, { nowMs: 0, chance: 0 }, reflectorPolicy).state;
    const step = (event: ReflectorEvent, nowMs: number, chance: number): ReflectorAction => {
      const next = stepReflector(state, event, { nowMs, chance }, reflectorPolicy);
      state = next.state;
      return next.action;
    };
    step(snapshot('7'), 1, 0);
    step(failed('broken'), 10_000, 0.5);
    const size = Object.keys(state).length;
    let tries = 0;
    for (let nowMs = 10_400; nowMs < 3_610_400; tries++) {
      expect(step(waited, nowMs, 0)).toMatchObject({ do: 'watch', version: '7' });
      const action = step(failed('broken'), nowMs, (tries % 10) / 10);
      if (action.do !== 'wait') throw new Error(`it does not wait but ${action.do}`);
      nowMs += action.ms;
    }
    expect(tries).toBeLessThan(200);
    expect(Object.keys(state)).toHaveLength(size);
    expect(step(waited, 3_700_000, 0)).toMatchObject({ do: 'watch', version: '7' });
  });

  it('do not relist when only the watch broke', () => {
    expect(
      play([
        [0, start],
        [1, snapshot('7')],
        [2, failed('broken')],
        [500, waited],
      ]).slice(-1),
    ).toEqual(['watch 7']);
  });

  it('wait at least as long as the server requests', () => {
    expect(
      play([
        [0, start],
        [1, failed('broken', 5_000)],
      ]).slice(-1),
    ).toEqual(['wait 5000']);
  });

  it('slow down requests to a server that ends each watch immediately, or answers 410 to each', () => {
    expect(
      play([
        [0, start],
        [0, snapshot('7')],
        [1, ended],
        [400, waited],
        [401, ended],
        [1_200, waited],
        [1_201, failed('gone')],
      ]).filter((line) => line.startsWith('wait')),
    ).toEqual(['wait 400', 'wait 800', 'wait 1600']);
  });

  it('cause a quorum read when the server cannot serve our version', () => {
    for (const why of ['gone', 'ahead'] as const)
      expect(
        play([
          [0, { type: 'start', version: '500' }],
          [1, failed(why)],
          [500, waited],
          [501, snapshot('3')],
        ]),
      ).toEqual(['watchList 500', 'wait 400', 'list quorum', 'replace, watch 3']);
  });
});

describe('the brake', () => {
  it('delays a removal of more than 30 % until a quorum read agrees', () => {
    expect(
      play([
        [0, start],
        [1, snapshot('7', 100, 31)],
        [2, snapshot('8', 100, 31)],
      ]),
    ).toEqual(['watchList 0', 'merge, list quorum, held 31/100', 'replace, watch 8']);
  });

  it('stays on while the quorum read fails', () => {
    expect(
      play([
        [0, start],
        [1, snapshot('7', 100, 100)],
        [2, failed('broken')],
        [500, waited],
        [501, failed('gone')],
        [1_000, waited],
        [1_001, snapshot('9', 100, 0)],
      ]),
    ).toEqual([
      'watchList 0',
      'merge, list quorum, held 100/100',
      'wait 400, held 100/100',
      'list quorum, held 100/100',
      'wait 800, held 100/100',
      'list quorum, held 100/100',
      'replace, watch 9',
    ]);
  });

  it('lets small changes pass', () => {
    expect(
      play([
        [0, start],
        [1, snapshot('7', 100, 30)],
      ]).slice(-1),
    ).toEqual(['replace, stay']);
    expect(
      play([
        [0, start],
        [1, snapshot('7', 4, 3)],
      ]).slice(-1),
    ).toEqual(['replace, stay']);
  });

  it('does not trust an empty list, however few objects were known', () => {
    expect(
      play([
        [0, start],
        [1, snapshot('7', 2, 2)],
        [2, snapshot('8', 2, 0)],
      ]),
    ).toEqual(['watchList 0', 'merge, list quorum, held 2/2', 'replace, watch 8']);
  });

  it('never removes because of a snapshot that could not be read completely', () => {
    expect(
      play([
        [0, start],
        [1, snapshot('7', 100, 1, false)],
      ]).slice(-1),
    ).toEqual(['merge, stay']);
  });
});

describe('a server behind a version seen before', () => {
  it('is not trusted in a list: a quorum read decides', () => {
    expect(
      play([
        [0, { type: 'start', version: '500' }],
        [1, snapshot('480', 100, 1)],
        [500, waited],
        [501, snapshot('510', 100, 0)],
      ]),
    ).toEqual(['watchList 500', 'wait 400, behind 480', 'list quorum, behind 480', 'replace, watch 510']);
  });

  it('is given time in a watch, then a quorum read decides', () => {
    expect(
      play([
        [0, start],
        [1, snapshot('7')],
        [2, seen('10')],
        [100, bookmark('8')],
        [200, seen('9')],
        [30_099, bookmark('9')],
        [30_100, bookmark('9')],
        [30_500, waited],
        [30_501, snapshot('3')],
      ]),
    ).toEqual([
      'watchList 0',
      'replace, stay',
      'stay',
      'stay, behind 8',
      'stay, behind 8',
      'stay, behind 9',
      'wait 400, behind 9',
      'list quorum, behind 9',
      'replace, watch 3',
    ]);
  });

  it('is trusted again once it has caught up', () => {
    const caughtUp = [bookmark('10'), bookmark('11'), seen('11')].map((event) =>
      play([
        [0, start],
        [1, snapshot('10')],
        [100, bookmark('8')],
        [200, event],
      ]).slice(-2),
    );
    for (const lines of caughtUp) expect(lines).toEqual(['stay, behind 8', 'stay']);
  });
});

it('never lets a reordered event reset the version', () => {
  expect(
    play([
      [0, start],
      [1, snapshot('7')],
      [2, seen('10')],
      [3, seen('9')],
      [9_000, ended],
    ]).at(-1),
  ).toBe('watch 10');
});

it('orders versions as numbers of any length', () => {
  expect(compareVersions('9', '10')).toBeLessThan(0);
  expect(compareVersions('18446744073709551616', '18446744073709551615')).toBeGreaterThan(0);
  expect(compareVersions('7', '7')).toBe(0);
  expect(compareVersions('7', 'abc')).toBeUndefined();
  expect(compareVersions('', '7')).toBeUndefined();
});
