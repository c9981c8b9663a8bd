import { expect, it } from 'vitest';
import { SeineError } from '../../base/errors/seine-error.ts';
import { parseCidr, parseIp } from '../../base/net/ip.ts';
import type { CandidatePath } from './direct-echo.ts';
import { PathVerification } from './path-verification.ts';
import { verifyPaths } from './verify-paths.ts';

const pathTo = (number: number): CandidatePath => ({
  peer: `n${number}`,
  family: 'ipv4',
  network: parseCidr('10.10.4.0/22'),
  transport: parseIp('192.168.77.2'),
});

it('spreads a thousand tests over eight seconds, at most 32 at once, and keeps results of paths that cannot be tested', async () => {
  const verification = new PathVerification(() => 0);
  const clock = { ms: 0 };
  const paths = Array.from({ length: 1_000 }, (_, at) => pathTo(at));
  const startedMs: number[] = [];
  const silent: { readonly untilMs: number; readonly end: () => void }[] = [];
  let [running, most, changes, answered] = [0, 0, 0, 0];
  const test = async ({ peer }: CandidatePath) => {
    startedMs.push(clock.ms);
    most = Math.max(most, ++running);
    // Each twentieth peer does not answer within a second; one cannot be tested.
    const isSilent = Number(peer.slice(1)) % 20 === 0;
    if (isSilent) await new Promise<void>((end) => silent.push({ untilMs: clock.ms + 1_000, end }));
    running--;
    if (peer === 'n7') throw new SeineError('REFUSED', 'the interface is down');
    return { direct: !isSilent, transport: !isSilent };
  };
  const pause = async (ms: number): Promise<void> => {
    clock.ms += ms;
    // After the last path nothing else makes the time pass.
    for (const { untilMs, end } of silent) if (untilMs <= clock.ms || startedMs.length === 1_000) end();
    await Promise.resolve();
  };
  await verifyPaths(
    {
      ...{ paths, count: 1_000, verification, pause },
      changed: () => {
        changes++;
        answered = paths.filter(({ peer }) => verification.resultOf(peer, 'ipv4') === 'answered').length;
      },
      probe: { test, close: () => undefined },
    },
    new AbortController().signal,
  );
  const quarters = [0, 1, 2, 3].map((quarter) => startedMs.filter((ms) => Math.floor(ms / 2_000) === quarter).length);
  expect(quarters).toEqual([250, 250, 250, 250]);
  expect(most).toBeLessThanOrEqual(32);
  expect([changes > 1, changes <= 20, answered]).toEqual([true, true, 949]); // in intervals, until all that answered are known
  expect(['n0', 'n1', 'n7'].map((peer) => verification.resultOf(peer, 'ipv4'))).toEqual(['unknown', 'answered', 'unknown']);
});

it('ends with a fault of this program', async () => {
  const fault = new Error('a fault');
  const probe = { test: () => Promise.reject(fault), close: () => undefined };
  const verification = new PathVerification(() => 0);
  const options = { paths: [pathTo(1), pathTo(2)], count: 2, verification, changed: () => undefined, probe };
  await expect(verifyPaths(options, new AbortController().signal)).rejects.toBe(fault);
});
