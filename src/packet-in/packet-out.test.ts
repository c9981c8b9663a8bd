import { expect, it } from 'vitest';
import { FrameInjector } from './packet-out.ts';

it('writes frames of several pods to the switch together', async () => {
  const { promise: written, resolve } = Promise.withResolvers<number>();
  const openflow = {
    send: async (messages: readonly Uint8Array[]) => resolve(messages.length),
  };
  const injector = new FrameInjector({ openflow }, new AbortController().signal);
  for (const port of [1, 2, 3]) injector.inject(port, [new Uint8Array(60), new Uint8Array(60)]);
  expect(await written).toBe(6);
});
