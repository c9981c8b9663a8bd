import { beforeEach, describe, expect, it } from 'vitest';
import { SeineError } from '../base/errors/seine-error.ts';
import { Batcher } from './batcher.ts';
import type { Json } from './json.ts';

const patience = new AbortController().signal;

/** Server that executes operations named `ok…`, and refuses a transaction that contains any other. */
class FakeServer {
  readonly transactions: string[] = [];
  readonly held: (() => void)[] = [];
  hold = false;
  lost = false;

  readonly send = async (operations: readonly Json[]): Promise<unknown> => {
    this.transactions.push(operations.join(' '));
    if (this.hold) await new Promise<void>((resolve) => this.held.push(resolve));
    if (this.lost) throw new SeineError('UNAVAILABLE', 'connection lost', { context: { sent: true } });
    const bad = operations.findIndex((operation) => !String(operation).startsWith('ok'));
    if (bad < 0) return operations.map((operation) => ({ did: operation }));
    if (operations[bad] === 'bad commit') return [...operations.map(() => ({})), { error: 'constraint violation', details: 'late' }];
    if (operations[bad] === 'bad syntax')
      throw new SeineError('REFUSED', 'syntax error', { context: { error: 'syntax error', details: '' } });
    return operations.map((_, index) => (index < bad ? {} : index === bad ? { error: 'aborted', details: '' } : null));
  };
}

let server: FakeServer;
let batcher: Batcher;

beforeEach(() => {
  server = new FakeServer();
  batcher = new Batcher();
});

function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

describe('Batcher', () => {
  it('joins requests of one turn, and returns each caller its own results', async () => {
    batcher.connect(server.send);
    const answers = [batcher.submit(['ok1', 'ok2'], patience), batcher.submit([], patience), batcher.submit(['ok3'], patience)];
    expect(await Promise.all(answers)).toEqual([[{ did: 'ok1' }, { did: 'ok2' }], [], [{ did: 'ok3' }]]);
    expect(server.transactions).toEqual(['ok1 ok2 ok3']);
  });

  it('joins requests during a transaction', async () => {
    server.hold = true;
    batcher.connect(server.send);
    const answers = [batcher.submit(['ok1'], patience)];
    await turn();
    answers.push(batcher.submit(['ok2'], patience));
    await turn();
    answers.push(batcher.submit(['ok3'], patience));
    await turn();
    expect(server.transactions).toEqual(['ok1']);
    server.hold = false;
    for (const release of server.held) release();
    await Promise.all(answers);
    expect(server.transactions).toEqual(['ok1', 'ok2 ok3']);
    expect(batcher.counters).toEqual({ transactions: 2, requests: 3, split: 0 });
  });

  it.each(['bad', 'bad commit', 'bad syntax'])('tries each alone when the joint transaction is refused: %s', async (bad) => {
    batcher.connect(server.send);
    const answers = await Promise.allSettled([
      batcher.submit(['ok1'], patience),
      batcher.submit(['ok2', bad, 'ok3'], patience),
      batcher.submit(['ok4'], patience),
    ]);
    expect(answers.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled']);
    expect(answers[1]).toMatchObject({ reason: { code: 'REFUSED' } });
    expect(server.transactions).toEqual([`ok1 ok2 ${bad} ok3 ok4`, 'ok1', `ok2 ${bad} ok3`, 'ok4']);
    expect(batcher.counters).toEqual({ transactions: 4, requests: 3, split: 1 });
  });

  it('does not retry a request that was refused alone', async () => {
    batcher.connect(server.send);
    await expect(batcher.submit(['ok1', 'bad'], patience)).rejects.toMatchObject({
      code: 'REFUSED',
      context: { error: 'aborted', index: 1, operation: 'bad' },
    });
    expect(server.transactions).toEqual(['ok1 bad']);
  });

  it('reports an unknown outcome to every caller', async () => {
    server.lost = true;
    batcher.connect(server.send);
    const answers = await Promise.allSettled([batcher.submit(['ok1'], patience), batcher.submit(['bad'], patience)]);
    expect(answers).toMatchObject([{ reason: { code: 'UNAVAILABLE', context: { sent: true } } }, { reason: { code: 'UNAVAILABLE' } }]);
    expect(server.transactions).toHaveLength(1);
  });

  it('waits for a server', async () => {
    const answer = batcher.submit(['ok1'], patience);
    await turn();
    batcher.connect(server.send);
    expect(await answer).toEqual([{ did: 'ok1' }]);
  });

  it('removes a caller that gives up from the queue, with a known outcome', async () => {
    const stop = new AbortController();
    const answer = batcher.submit(['ok1'], stop.signal);
    stop.abort();
    await expect(answer).rejects.toMatchObject({ code: 'CANCELLED', context: { sent: false } });
    batcher.connect(server.send);
    await turn();
    expect(server.transactions).toEqual([]);
    await expect(batcher.submit(['ok1'], stop.signal)).rejects.toMatchObject({ code: 'CANCELLED', context: { sent: false } });
  });

  it('reports an unknown outcome to a caller that gives up later', async () => {
    server.hold = true;
    batcher.connect(server.send);
    const stop = new AbortController();
    const answer = batcher.submit(['ok1'], stop.signal);
    await turn();
    stop.abort();
    await expect(answer).rejects.toMatchObject({ code: 'CANCELLED', context: { sent: true } });
  });

  it('restarts with another server after one was lost in the middle of a transaction', async () => {
    server.hold = true;
    server.lost = true;
    batcher.connect(server.send);
    const lost = batcher.submit(['ok1'], patience);
    await turn();
    batcher.disconnect();
    const next = batcher.submit(['ok2'], patience);
    for (const release of server.held) release();
    await expect(lost).rejects.toMatchObject({ code: 'UNAVAILABLE' });
    const another = new FakeServer();
    batcher.connect(another.send);
    expect(await next).toEqual([{ did: 'ok2' }]);
  });

  it('keeps a joint transaction within bounds', async () => {
    batcher.connect(server.send);
    const many = Array.from({ length: 600 }, () => 'ok');
    await Promise.all([batcher.submit(many, patience), batcher.submit(many, patience), batcher.submit(['ok'], patience)]);
    expect(server.transactions.map((operations) => operations.split(' ').length)).toEqual([600, 601]);
  });

  it('refuses results that are too few', async () => {
    batcher.connect(async () => []);
    await expect(batcher.submit(['ok1'], patience)).rejects.toMatchObject({ code: 'PROTOCOL' });
  });
});
