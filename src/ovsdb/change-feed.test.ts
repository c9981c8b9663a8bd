import { expect, it } from 'vitest';
import { followChanges } from './change-feed.ts';
import { Replica } from './replica.ts';
import { parseUuid } from './schema/atoms.ts';
import { openVswitch } from './schema/open-vswitch.ts';

const a = parseUuid('aaaaaaaa-0000-0000-0000-000000000000');
const b = parseUuid('bbbbbbbb-0000-0000-0000-000000000000');

function put(replica: Replica, uuid: string, name: string): void {
  replica.apply({ Bridge: { [uuid]: { insert: { name } } } }, 'update2');
}

it('merges changes while the consumer is busy', async () => {
  const replica = new Replica(openVswitch, { Bridge: ['name'] });
  const stop = new AbortController();
  put(replica, a, 'old');
  const feed = followChanges(replica, stop.signal);
  put(replica, a, 'x');
  put(replica, a, 'new');
  put(replica, b, 'short-lived');
  replica.apply({ Bridge: { [b]: { delete: null } } }, 'update2');
  expect((await feed.next()).value).toMatchObject([{ uuid: a, before: { name: 'old' }, after: { name: 'new' } }]);
  const next = feed.next();
  put(replica, b, 'b');
  expect((await next).value).toMatchObject([{ uuid: b, before: undefined, after: { name: 'b' } }]);
  const last = feed.next();
  stop.abort();
  expect(await last).toEqual({ done: true, value: undefined });
});

it('stops collecting when the consumer leaves', async () => {
  const replica = new Replica(openVswitch, { Bridge: ['name'] });
  const feed = followChanges(replica, new AbortController().signal);
  put(replica, a, 'x');
  for await (const changes of feed) {
    expect(changes).toHaveLength(1);
    break;
  }
  expect(await feed.next()).toEqual({ done: true, value: undefined });
});
