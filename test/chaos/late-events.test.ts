import { PassThrough } from 'node:stream';
import { text } from 'node:stream/consumers';
import { expect, it } from 'vitest';
import { passLate } from './late-events.ts';
import { Random } from './random.ts';

it('delivers all events, in order, some of them twice, and bookmarks once', async () => {
  const events = Array.from({ length: 60 }, (_, number) => `{"type":"${number % 3 === 0 ? 'BOOKMARK' : 'ADDED'}","object":${number}}`);
  const [from, to] = [new PassThrough(), new PassThrough()];
  // Cut anywhere, as by the network.
  for (const chunk of `${events.join('\n')}\n`.match(/[\s\S]{1,37}/g) ?? []) from.write(chunk);
  from.end();
  const passed = passLate(from, to, new Random(7, 0));
  const lines = (await text(to)).trimEnd().split('\n');
  await passed;
  expect(lines.filter((line, at) => line !== lines[at - 1])).toEqual(events);
  expect(lines.length).toBeGreaterThan(events.length);
  expect(lines.filter((line) => line.includes('BOOKMARK'))).toHaveLength(20);
});
