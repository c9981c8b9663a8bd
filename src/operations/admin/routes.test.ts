import { describe, expect, it } from 'vitest';
import { LogControl } from '../../base/log/log.ts';
import type { ApiRoutes } from './answer.ts';
import { setLogLevel } from './diagnostics.ts';
import type { RepairPause } from './repair-pause.ts';
import { repairActions } from './routes.ts';

function setUp() {
  const asked: (number | string)[] = [];
  const repair: Pick<RepairPause, 'pause' | 'resume' | 'secondsLeft'> = {
    pause: (seconds) => void asked.push(seconds),
    resume: (why) => void asked.push(why),
    secondsLeft: 9,
  };
  const control = new LogControl('warn');
  const actions: ApiRoutes = { '/v1/log-level': (query) => setLogLevel(control, query), ...repairActions({ repair }) };
  const act = (path: string, query = ''): unknown => actions[path]?.(new URLSearchParams(query), new AbortController().signal);
  return { asked, act, control };
}

describe('changes by root', () => {
  it('pauses repair and resumes it', () => {
    const { asked, act } = setUp();
    expect(act('/v1/pause', 'seconds=600')).toMatchObject({ status: 200, body: '{"pausedForSeconds":9}\n' });
    expect(act('/v1/resume')).toMatchObject({ status: 200, body: '{"wasPaused":true}\n' });
    expect(asked).toEqual([600, 'operator']);
  });
  it.each(['', 'seconds=', 'seconds=0', 'seconds=86401', 'seconds=1.5', 'seconds=x', 'seconds=-1'])('does not pause for %j', (query) => {
    const { asked, act } = setUp();
    expect(() => act('/v1/pause', query)).toThrow('a whole number from 1 to 86400');
    expect(asked).toEqual([]);
  });
  it('sets the log level, permanently or for a time', () => {
    const { act, control } = setUp();
    expect(act('/v1/log-level', 'level=debug&seconds=600')).toMatchObject({
      body: '{"level":"debug","usual":"warn","secondsLeft":600}\n',
    });
    expect(act('/v1/log-level', 'level=error')).toMatchObject({ body: '{"level":"error","usual":"warn"}\n' });
    expect(control.level).toBe('error');
    control.set('warn');
  });
  it.each(['', 'level=loud', 'level=debug&seconds=0', 'level=debug&seconds=1e9'])('rejects %j', (query) => {
    const { act, control } = setUp();
    expect(() => act('/v1/log-level', query)).toThrow(/: one of error, warn, info, debug$|a whole number from 1 to 86400/);
    expect(control.level).toBe('warn');
  });
});
