import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { silentLog } from '../../base/log/log.ts';
import { RepairPause } from './repair-pause.ts';

describe('RepairPause', () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());

  function setUp() {
    const happened: string[] = [];
    const pause = new RepairPause({
      nodeState: { pauseRepair: () => happened.push('paused'), resumeRepair: () => happened.push('resumed') },
      log: silentLog,
      postEvent: (reason) => happened.push(reason),
      now: () => performance.now(),
    });
    return { pause, happened };
  }

  it('ends by itself, once', () => {
    const { pause, happened } = setUp();
    pause.pause(600);
    vi.advanceTimersByTime(599_000);
    expect(pause.secondsLeft).toBe(1);
    vi.advanceTimersByTime(1_000);
    expect(pause.secondsLeft).toBe(0);
    pause.resume('not paused');
    expect(happened).toEqual(['paused', 'RepairPaused', 'resumed', 'RepairResumed']);
  });

  it('ends on request, and not again at its time', () => {
    const { pause, happened } = setUp();
    pause.pause(60);
    pause.pause(10);
    expect(pause.secondsLeft).toBe(10);
    pause.resume('asked for');
    vi.advanceTimersByTime(100_000);
    expect(happened.filter((what) => what === 'resumed')).toHaveLength(1);
  });

  it('is independent of clock jumps', () => {
    const { pause } = setUp();
    pause.pause(60);
    vi.setSystemTime(new Date('2040-01-01'));
    expect(pause.secondsLeft).toBe(60);
  });
});
