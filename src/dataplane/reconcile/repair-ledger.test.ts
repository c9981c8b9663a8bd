import { describe, expect, it } from 'vitest';
import { RepairLedger } from './repair-ledger.ts';

function ledger() {
  const clock = { nowMs: 0 };
  const repairs = new RepairLedger<string>(() => clock.nowMs);
  const note = (times: number, everyMs: number) => {
    for (let time = 0; time < times; time++) {
      clock.nowMs += everyMs;
      repairs.note(['k'], 100);
    }
  };
  const waitMs = () => (repairs.nextMs() ?? clock.nowMs) - clock.nowMs;
  return { clock, repairs, note, waitMs };
}

describe('an entry that another process changes repeatedly', () => {
  it('is repaired immediately five times, then at growing intervals, at most once a minute', () => {
    const { note, waitMs } = ledger();
    note(5, 100);
    expect(waitMs()).toBe(0);
    const waits: number[] = [];
    for (let more = 0; more < 8; more++) {
      note(1, waitMs() + 100);
      waits.push(waitMs());
    }
    expect(waits).toEqual([1, 2, 4, 8, 16, 32, 60, 60].map((seconds) => seconds * 1_000));
  });

  it('is always repaired immediately if changed only every ten seconds', () => {
    const { note, waitMs, repairs } = ledger();
    for (let times = 0; times < 100; times++) {
      note(1, 10_000);
      expect(waitMs()).toBe(0);
    }
    expect(repairs.contested().size).toBe(0);
  });

  it('is no longer contested after an interval without changes', () => {
    const { clock, note, repairs } = ledger();
    note(7, 1);
    expect([...repairs.contested().keys()]).toEqual(['k']);
    clock.nowMs += 2_000 + 20_000;
    expect(repairs.contested().size).toBe(0);
    note(1, 0);
    expect(repairs.contested().size).toBe(1);
  });
});
