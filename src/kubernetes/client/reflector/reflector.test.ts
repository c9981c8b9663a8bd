import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { hasty, many, node, ReflectorScene } from '../../testing/reflector-setup.ts';
import { bookmark, dribble, event, list, status, watch } from '../../testing/scripted-api-server.ts';

let t: ReflectorScene;
beforeEach(async () => {
  t = await ReflectorScene.open();
});
afterEach(() => t.close());

/** Answers for repeated watches: on a busy host a watch may be replaced before its first line is read. */
const manyTimes = <T>(answer: T): readonly T[] => Array.from({ length: 50 }, () => answer);
const eventually = (check: () => void) => vi.waitFor(check, { timeout: 20_000, interval: 2 });

it('streams all present objects, then follows changes in the same watch', async () => {
  t.server.answer(
    watch([
      event('ADDED', node('a', 1)),
      event('ADDED', node('b', 2)),
      bookmark('5', true),
      event('MODIFIED', node('a', 6, '10.9.0.0/24')),
      event('DELETED', node('b', 7)),
      event('ADDED', node('c', 8)),
    ]),
  );
  t.start();
  await t.synced();
  await eventually(() => expect(t.names()).toEqual(['a', 'c']));
  expect(t.reflector.replica.get('a')?.podCidrs).toEqual(['10.9.0.0/24']);
  expect(t.server.requests).toEqual([
    'GET /api/v1/nodes?watch=true&allowWatchBookmarks=true&timeoutSeconds=N&resourceVersion=0&sendInitialEvents=true&resourceVersionMatch=NotOlderThan',
  ]);
  expect(t.reflector.status).toMatchObject({ kind: 'Node', doing: 'watch', synced: true, objects: 2, version: '8', failures: 0 });
});

it('lists from the cache of a server that has no WatchList, then watches from there', async () => {
  t.server.answer(
    status(422, 'Invalid'),
    list('5', [node('a', 1)]),
    watch([event('ADDED', node('b', 6))], 'end'),
    watch([bookmark('9')], 'end'),
    watch([]),
  );
  t.start();
  await eventually(() => expect(t.server.requests).toHaveLength(5));
  expect(t.names()).toEqual(['a', 'b']);
  expect(t.server.requests.slice(1)).toEqual([
    'GET /api/v1/nodes?resourceVersion=0',
    ...['5', '6', '9'].map((from) => `GET /api/v1/nodes?watch=true&allowWatchBookmarks=true&timeoutSeconds=N&resourceVersion=${from}`),
  ]);
});

it('falls back to a list when the initial events never end', async () => {
  t.server.answer(watch([event('ADDED', node('a', 1))]), list('5', [node('a', 1)]), watch([]));
  t.start({ ...hasty, snapshotIdleMs: 250 });
  await t.synced();
  expect(t.server.requests[1]).toBe('GET /api/v1/nodes?resourceVersion=0');
});

it('calls back with keys, and not for heartbeats', async () => {
  t.server.answer(
    watch([
      event('ADDED', node('a', 1)),
      bookmark('5', true),
      event('MODIFIED', node('a', 6, '10.0.0.0/24', { annotations: {} })),
      event('ADDED', node('b', 7)),
    ]),
  );
  t.start();
  await eventually(() => expect(t.changes.flat()).toEqual(['a', 'b']));
  expect(t.names()).toEqual(['a', 'b']);
});

it('relists after 410, and takes the difference in one step', async () => {
  t.server.answer(
    watch(
      [
        ...many(4).map((object) => event('ADDED', object)),
        bookmark('5', true),
        event('ERROR', { kind: 'Status', code: 410, reason: 'Expired' }),
      ],
      'end',
    ),
    watch([...many(3).map((object) => event('ADDED', object)), event('ADDED', node('new', 8)), bookmark('9', true)]),
  );
  t.start();
  await eventually(() => expect(t.names()).toEqual(['n0', 'n1', 'n2', 'new']));
  expect(t.server.requests[1]).toContain('resourceVersion=5&sendInitialEvents');
  expect(t.changes.filter((keys) => keys.length > 0)).toEqual([
    ['n0', 'n1', 'n2', 'n3'],
    ['n3', 'new'],
  ]);
});

it('keeps its copy and retries forever while the server is broken', async () => {
  t.server.answer(watch([event('ADDED', node('a', 1)), bookmark('5', true)], 'cut'));
  for (let round = 0; round < 4; round++)
    t.server.answer(
      status(500, 'InternalError'),
      watch(['garbage\n'], 'end'),
      watch(['{"type":"ADDED","object":{'], 'end'),
      watch([], 'cut'),
    );
  t.server.answer(watch([event('ADDED', node('b', 6))]));
  t.start();
  await eventually(() => expect(t.names()).toEqual(['a', 'b']));
  expect(t.server.requests.slice(1).every((request) => request.endsWith('resourceVersion=5'))).toBe(true);
  expect(t.reported('failed').length).toBeGreaterThanOrEqual(16);
});

it('ignores duplicates and events that come too late', async () => {
  t.server.answer(
    watch([
      event('ADDED', node('a', 1)),
      bookmark('5', true),
      event('MODIFIED', node('a', 8, '10.8.0.0/24')),
      event('MODIFIED', node('a', 7, '10.7.0.0/24')),
      event('MODIFIED', node('a', 8, '10.8.0.0/24')),
      event('ADDED', node('b', 10)),
      event('DELETED', node('b', 12)),
      event('MODIFIED', node('b', 11)),
      event('DELETED', node('a', 6)),
      event('ADDED', node('last', 13)),
    ]),
  );
  t.start();
  await eventually(() => expect(t.names()).toContain('last'));
  expect(t.names()).toEqual(['a', 'last']);
  expect(t.reflector.replica.get('a')?.podCidrs).toEqual(['10.8.0.0/24']);
  expect(t.reflector.status.version).toBe('13');
});

it('skips invalid objects, keeps their last good value, and names the field', async () => {
  const bad = node('a', 6, 'nonsense');
  t.server.answer(
    watch([
      event('ADDED', node('a', 1)),
      event('ADDED', node('c', 2, 'x')),
      bookmark('5', true),
      event('MODIFIED', bad),
      event('ADDED', { metadata: {} }),
      event('WHAT', {}),
      event('ADDED', node('b', 7)),
    ]),
  );
  t.start();
  await eventually(() => expect(t.names()).toEqual(['a', 'b']));
  expect(t.reflector.replica.get('a')?.podCidrs).toEqual(['10.0.0.0/24']);
  expect([...t.reflector.status.invalid.keys()].sort()).toEqual(['a', 'c']);
  expect(t.reflector.status.invalid.get('a')?.message).toContain('spec.podCIDRs[0]');
  expect(t.reported('unreadable')).toHaveLength(2);
});

it('keeps the last good value also when a snapshot has a bad one', async () => {
  t.server.answer(watch([event('ADDED', node('a', 1)), bookmark('5', true)], 'end'), status(410, 'Expired'));
  t.server.answer(watch([event('ADDED', node('a', 6, 'nonsense')), event('ADDED', node('b', 7)), bookmark('8', true)]));
  t.start();
  await eventually(() => expect(t.names()).toEqual(['a', 'b']));
  expect(t.reflector.replica.get('a')?.podCidrs).toEqual(['10.0.0.0/24']);
  expect([...t.reflector.status.invalid.keys()]).toEqual(['a']);
});

it('rejects a truncated snapshot', async () => {
  t.server.answer(
    watch([event('ADDED', node('a', 1))], 'end'),
    watch([event('ADDED', node('a', 1)), event('ADDED', node('b', 2)), bookmark('5', true)]),
  );
  t.start();
  await t.synced();
  expect(t.names()).toEqual(['a', 'b']);
  expect(t.server.requests[1]).toContain('resourceVersion=0&sendInitialEvents');
});

it('survives an object of 9 MB, and removes nothing because of a snapshot that has one', async () => {
  const huge = node('huge', 6, '10.0.0.0/24', { annotations: { x: 'y'.repeat(9_000_000) } });
  t.server.answer(
    watch(
      [...many(10).map((object) => event('ADDED', object)), bookmark('5', true), event('ADDED', huge), event('ADDED', node('b', 7))],
      'end',
    ),
    status(410, 'Expired'),
    status(400, 'BadRequest'),
    list('9', [...many(9), huge]),
    watch([]),
  );
  t.start();
  await eventually(() => expect(t.server.requests).toHaveLength(5));
  expect(t.names()).toEqual([...many(10).map(({ metadata }) => metadata.name), 'b'].sort());
  expect(t.reported('unreadable').length).toBe(2);
});

it('does not treat an answer that is not a list as an empty one', async () => {
  t.server.answer(
    watch([event('ADDED', node('a', 1)), bookmark('5', true)], 'end'),
    status(410, 'Expired'),
    status(400, 'BadRequest'),
    (_request, response) => void response.end('{}'),
    (_request, response) => void response.end('<html>'),
    (_request, response) => void response.end('{"metadata":{"resourceVersion":"9"}}'),
    list('9', []),
    list('9', []),
    watch([]),
  );
  t.start();
  await eventually(() => expect(t.server.requests).toHaveLength(9));
  expect(t.names()).toEqual([]);
  expect(t.reported('failed').length).toBeGreaterThanOrEqual(4);
});

it('abandons a snapshot that stalls or dribbles, and requests another', async () => {
  t.server.answer(
    status(400, 'BadRequest'),
    dribble('{"items":[]', 100),
    dribble('{"metadata":{"resourceVersion":"1"},"items":[]}', 20),
    list('5', [node('a', 1)]),
    watch([]),
  );
  t.start({ ...hasty, snapshotIdleMs: 60, snapshotMs: 200 });
  await t.synced();
  expect(t.reported('failed').map((report) => report.what === 'failed' && report.error.code)).toEqual(['UNAVAILABLE', 'UNAVAILABLE']);
});

it('ends a watch that outlives its own time', async () => {
  t.server.answer(watch([bookmark('5', true)]), watch([event('ADDED', node('a', 6))]));
  t.start({ ...hasty, minWatchSeconds: 0, maxWatchSeconds: 0, watchGraceMs: 50 });
  await eventually(() => expect(t.names()).toEqual(['a']));
});

it('ends a watch that falls silent, once it has brought a bookmark', async () => {
  t.server.answer(watch([bookmark('5', true), bookmark('6')]), ...manyTimes(watch([event('ADDED', node('a', 7))])));
  t.start({ ...hasty, watchSilenceMs: 50 });
  await eventually(() => expect(t.names()).toEqual(['a']));
  // On a busy host the watches after it may fall silent, too.
  const [first] = t.reported('failed').map((report) => report.what === 'failed' && report.error.message);
  expect(first).toContain('the API server has sent nothing for 0.05 s, not even a bookmark');
});

it.each([
  ['after its initial events', [bookmark('5', true)]],
  ['after an event', [bookmark('5', true), event('ADDED', node('a', 6))]],
])('replaces a watch that falls silent before its first bookmark, without a failure: %s', async (_, lines) => {
  t.server.answer(watch(lines), ...manyTimes(watch([event('ADDED', node('b', 7))])));
  t.start({ ...hasty, watchSilenceMs: 50 });
  await eventually(() => expect(t.names()).toContain('b'));
  expect(t.reported('failed')).toEqual([]);
});

it('replaces a watch that was accepted and is silent from its start', async () => {
  t.server.answer(watch([bookmark('5', true)], 'end'), watch([]), ...manyTimes(watch([event('ADDED', node('b', 7))])));
  t.start({ ...hasty, watchSilenceMs: 50 });
  await eventually(() => expect(t.names()).toEqual(['b']));
  expect(t.reported('failed')).toEqual([]);
});

it('requests a quorum read when the server has gone back in time', async () => {
  t.server.answer(watch([event('ADDED', node('a', 900)), bookmark('900', true), event('DELETED', node('b', 901))], 'end'));
  t.server.answer(
    status(504, 'Timeout', { causes: [{ reason: 'ResourceVersionTooLarge' }] }),
    list('3', [node('a', 2, '10.2.0.0/24')]),
    watch([event('MODIFIED', node('a', 4, '10.4.0.0/24')), event('ADDED', node('b', 5))]),
  );
  t.start();
  await eventually(() => expect(t.reflector.replica.get('a')?.podCidrs).toEqual(['10.4.0.0/24']));
  expect(t.server.requests[2]).toBe('GET /api/v1/nodes');
  await eventually(() => expect(t.names()).toEqual(['a', 'b']));
});

it('does not parse an object of the version it has, but reads everything once the server has gone back in time', async () => {
  t.server.answer(watch([event('ADDED', node('a', 900)), bookmark('900', true)], 'end'));
  t.server.answer(status(410, 'Expired'), watch([event('ADDED', node('a', 900, '10.9.0.0/24')), bookmark('902', true)], 'end'));
  t.server.answer(status(504, 'Timeout', { causes: [{ reason: 'ResourceVersionTooLarge' }] }));
  t.start();
  await eventually(() => expect(t.server.requests).toHaveLength(5));
  expect(t.reflector.replica.get('a')?.podCidrs).toEqual(['10.0.0.0/24']);
  t.server.answer(list('901', [node('a', 900, '10.9.0.0/24')]), watch([]));
  await eventually(() => expect(t.reflector.replica.get('a')?.podCidrs).toEqual(['10.9.0.0/24']));
  expect(t.server.requests[4]).toBe('GET /api/v1/nodes');
});
