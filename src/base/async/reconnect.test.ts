import { describe, expect, it } from 'vitest';
import { type ReconnectEvent, type ReconnectPolicy, type ReconnectState, stepReconnect, stoppedState, wakeAtMs } from './reconnect.ts';

const policy: ReconnectPolicy = {
  minBackoffMs: 100,
  maxBackoffMs: 400,
  jitter: 0.5,
  connectTimeoutMs: 1_000,
  probeIntervalMs: 5_000,
  probeTimeoutMs: 2_000,
};

type Line = readonly [nowMs: number, event: ReconnectEvent, chance?: number];

/** Plays events and records the outcome of each: `time event → effect, state, next wake-up`. */
function transcript(...lines: readonly Line[]): string[] {
  let state: ReconnectState = stoppedState;
  return lines.map(([nowMs, event, chance = 0]) => {
    const step = stepReconnect(state, event, { nowMs, chance }, policy);
    state = step.state;
    return `${nowMs} ${event} → ${step.effect}, ${state.kind}, ${wakeAtMs(state, policy) ?? 'never'}`;
  });
}

describe('stepReconnect', () => {
  it('connects immediately, and probes only after silence', () => {
    expect(transcript([0, 'start'], [10, 'connected'], [3_000, 'heard'], [5_010, 'tick'], [8_000, 'tick'], [8_100, 'heard'])).toEqual([
      '0 start → connect, connecting, 1000',
      '10 connected → none, connected, 5010',
      '3000 heard → none, connected, 8000',
      '5010 tick → none, connected, 8000',
      '8000 tick → probe, probing, 10000',
      '8100 heard → none, connected, 13100',
    ]);
  });

  it('waits twice as long after each failure, up to the longest', () => {
    const failures: Line[] = [];
    for (const start of [0, 100, 300, 700, 1_100]) failures.push([start, start === 0 ? 'start' : 'tick'], [start, 'lost']);
    expect(transcript(...failures)).toEqual([
      '0 start → connect, connecting, 1000',
      '0 lost → none, waiting, 100',
      '100 tick → connect, connecting, 1100',
      '100 lost → none, waiting, 300',
      '300 tick → connect, connecting, 1300',
      '300 lost → none, waiting, 700',
      '700 tick → connect, connecting, 1700',
      '700 lost → none, waiting, 1100',
      '1100 tick → connect, connecting, 2100',
      '1100 lost → none, waiting, 1500',
    ]);
  });

  it('begins again with the shortest wait after a connection that lived', () => {
    expect(
      transcript(
        [0, 'start'],
        [0, 'lost'],
        [100, 'tick'],
        [100, 'lost'],
        [300, 'tick'],
        [310, 'connected'],
        [5_000, 'heard'],
        [5_001, 'lost'],
      ).at(-1),
    ).toBe('5001 lost → none, waiting, 5101');
  });

  it('keeps increasing the wait for a server that accepts and drops', () => {
    expect(
      transcript(
        [0, 'start'],
        [0, 'connected'],
        [1, 'lost'],
        [101, 'tick'],
        [101, 'connected'],
        [102, 'lost'],
        [302, 'tick'],
        [302, 'connected'],
        [303, 'lost'],
      ).filter((line) => line.includes('lost')),
    ).toEqual(['1 lost → none, waiting, 101', '102 lost → none, waiting, 302', '303 lost → none, waiting, 703']);
  });

  it('subtracts jitter from the wait, never adds it', () => {
    expect(transcript([0, 'start'], [0, 'lost', 1]).at(-1)).toBe('0 lost → none, waiting, 50');
  });

  it('drops a peer that answers no probe', () => {
    expect(transcript([0, 'start'], [0, 'connected'], [5_000, 'tick'], [7_000, 'tick'], [7_050, 'lost']).slice(-2)).toEqual([
      '7000 tick → disconnect, waiting, 7100',
      '7050 lost → none, waiting, 7100',
    ]);
  });

  it('gives up on an attempt that takes too long', () => {
    expect(transcript([0, 'start'], [999, 'tick'], [1_000, 'tick']).slice(-2)).toEqual([
      '999 tick → none, connecting, 1000',
      '1000 tick → disconnect, waiting, 1100',
    ]);
  });

  it('stops from every state, closing the stream if there is one', () => {
    const last = (...lines: Line[]) => transcript(...lines, [9_000, 'stop'], [9_001, 'tick'], [9_002, 'heard']).slice(-3);
    const quiet = ['9001 tick → none, stopped, never', '9002 heard → none, stopped, never'];
    expect(last()).toEqual(['9000 stop → none, stopped, never', ...quiet]);
    expect(last([0, 'start'])).toEqual(['9000 stop → disconnect, stopped, never', ...quiet]);
    expect(last([0, 'start'], [0, 'lost'])).toEqual(['9000 stop → none, stopped, never', ...quiet]);
    expect(last([0, 'start'], [0, 'connected'])).toEqual(['9000 stop → disconnect, stopped, never', ...quiet]);
  });
});
