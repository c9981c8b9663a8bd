import { Duplex } from 'node:stream';
import { afterEach, expect, it, vi } from 'vitest';
import type { ExecStream } from '../../kubernetes/client/exec-stream.ts';
import { relayTo } from './agent-relay.ts';
import type { AgentPod } from './agents.ts';

/** An exec whose agent answers each request at once. */
class AnsweringExec extends Duplex {
  constructor() {
    super();
    this.push('HTTP/1.1 102 Processing\r\n\r\n');
  }

  override _read(): void {
    // What is there was pushed.
  }

  override _write(_: unknown, __: string, written: (error?: Error) => void): void {
    this.push('HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}');
    written();
  }
}

const pod = {
  namespace: 'seine-system',
  pod: 'agent-1',
  relay: { program: '/seine-cni', socket: '/run/agent.sock' },
} as unknown as AgentPod;

afterEach(() => {
  vi.useRealTimers();
});

it('keeps no timer of an exec that has ended: it would keep its buffers for more than a minute', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  const exec = new AnsweringExec();
  const relay = relayTo({ open: async () => await Promise.resolve(exec as unknown as ExecStream) }, pod);
  expect(await relay.client.json('/v1/status')).toEqual({});
  await vi.waitFor(() => expect(vi.getTimerCount()).toBe(1));
  relay.close();
  await vi.waitFor(() => expect(exec.destroyed).toBe(true));
  await vi.waitFor(() => expect(vi.getTimerCount()).toBe(0));
});
