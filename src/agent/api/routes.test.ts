import { describe, expect, it } from 'vitest';
import type { Agent } from '../agent.ts';
import type { RepairPause } from '../repair-pause.ts';
import { operatorActions } from './routes.ts';

function setUp() {
  const asked: (number | string)[] = [];
  const repair: Pick<RepairPause, 'pause' | 'resume' | 'secondsLeft'> = {
    pause: (seconds) => void asked.push(seconds),
    resume: (why) => void asked.push(why),
    secondsLeft: 9,
  };
  const actions = operatorActions({ agent: { repair } as Agent });
  const act = (path: string, query = ''): unknown => actions[path]?.(new URLSearchParams(query), new AbortController().signal);
  return { asked, act };
}

describe('what root may change', () => {
  it('pauses repair and resumes it', () => {
    const { asked, act } = setUp();
    expect(act('/v1/pause', 'seconds=600')).toMatchObject({ status: 200, body: '{"pausedForSeconds":9}\n' });
    expect(act('/v1/resume')).toMatchObject({ status: 200, body: '{"wasPaused":true}\n' });
    expect(asked).toEqual([600, 'asked for']);
  });
  it.each(['', 'seconds=', 'seconds=0', 'seconds=86401', 'seconds=1.5', 'seconds=x', 'seconds=-1'])('does not pause for %j', (query) => {
    const { asked, act } = setUp();
    expect(() => act('/v1/pause', query)).toThrow('a whole number from 1 to 86400');
    expect(asked).toEqual([]);
  });
});
