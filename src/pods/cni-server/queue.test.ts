import { describe, expect, it } from 'vitest';
import { KeyedQueue } from './queue.ts';

const never = new AbortController().signal;

/** Work that logs its start and ends after `open`. */
function gated(name: string, log: string[]): { work: () => Promise<void>; open: () => void } {
  let open = () => {};
  const gate = new Promise<void>((resolve) => (open = resolve));
  const work = async () => {
    log.push(`${name} begins`);
    await gate;
    log.push(`${name} ends`);
  };
  return { work, open };
}

async function run<T>(queue: KeyedQueue, work: () => Promise<T>, signal: AbortSignal): Promise<T> {
  const end = await queue.turn('a', signal);
  try {
    return await work();
  } finally {
    end();
  }
}

describe('a queue by key', () => {
  it('lets callers that give up leave, and none overtake', async () => {
    const queue = new KeyedQueue();
    const log: string[] = [];
    const [first, second, third] = [gated('first', log), gated('second', log), gated('third', log)];
    const leaving = new AbortController();
    const running = run(queue, first.work, never);
    const waiting = run(queue, second.work, leaving.signal);
    leaving.abort();
    await expect(waiting).rejects.toMatchObject({ code: 'CANCELLED' });
    const last = run(queue, third.work, never);
    await new Promise((resolve) => setImmediate(resolve));
    expect(log).toEqual(['first begins']);
    first.open();
    third.open();
    await Promise.all([running, last]);
    expect(log).toEqual(['first begins', 'first ends', 'third begins', 'third ends']);
    expect(queue.isBusy('a')).toBe(false);
  });

  it('continues after work that failed', async () => {
    const queue = new KeyedQueue();
    const failing = run(queue, () => Promise.reject(new Error('no')), never);
    const next = run(queue, async () => await Promise.resolve('done'), never);
    await expect(failing).rejects.toThrow('no');
    expect(await next).toBe('done');
  });

  it('rejects calls beyond its limit', async () => {
    const queue = new KeyedQueue();
    const { work, open } = gated('work', []);
    const running = Array.from({ length: 32 }, () => run(queue, work, never));
    await expect(run(queue, work, never)).rejects.toMatchObject({ code: 'UNAVAILABLE' });
    open();
    await Promise.all(running);
  });
});
