import { mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { LoopTurns } from '../async/loop-turns.ts';
import { KubeHttp } from './http-client.ts';
import { type Node, nodes } from './node.ts';
import { Reflector, type ReflectorReport } from './reflector.ts';
import { type ReflectorPolicy, reflectorPolicy } from './reflector-machine.ts';
import { bookmark, dribble, event, list, ScriptedApiServer, status, watch } from './scripted-api-server.ts';

const hasty: ReflectorPolicy = {
  ...reflectorPolicy,
  minBackoffMs: 1,
  maxBackoffMs: 4,
  healthyWatchMs: 0,
  snapshotIdleMs: 300,
  snapshotMs: 2_000,
};

const node = (name: string, version: number, cidr = '10.0.0.0/24', more: object = {}) => ({
  metadata: { name, uid: name, resourceVersion: String(version), ...more },
  spec: { podCIDRs: [cidr] },
});
const many = (count: number, version = 1) => Array.from({ length: count }, (_, index) => node(`n${index}`, version));

describe('Reflector', () => {
  let server: ScriptedApiServer;
  let http: KubeHttp;
  let reflector: Reflector<Node>;
  let reports: ReflectorReport[];
  let changes: string[][];
  let stop: AbortController;
  let running: Promise<void>;
  let stateDir: string;

  beforeEach(async () => {
    server = new ScriptedApiServer();
    http = new KubeHttp(await server.listen(), 'test');
    stateDir = await mkdtemp(join(tmpdir(), 'seine-kube-'));
    reports = [];
    changes = [];
  });

  afterEach(async () => {
    stop.abort();
    await running;
    http.close();
    await server.close();
    await rm(stateDir, { recursive: true, force: true });
  });

  function start(policy: ReflectorPolicy = hasty): void {
    const onReport = (report: ReflectorReport) => reports.push(report);
    reflector = new Reflector({ http, resource: nodes, turns: new LoopTurns(5), onReport, stateDir, saveEveryMs: 1, policy });
    reflector.replica.subscribe((keys) => changes.push([...keys].sort()));
    stop = new AbortController();
    running = reflector.run(stop.signal);
  }

  async function restart(): Promise<void> {
    stop.abort();
    await running;
    reports = [];
    changes = [];
    server.requests.length = 0;
    start();
  }

  const names = () => Array.from(reflector.replica.entries(), ([key]) => key).sort();
  const synced = () => reflector.replica.whenSynced(AbortSignal.timeout(5_000));
  const eventually = (check: () => void) => vi.waitFor(check, { timeout: 5_000, interval: 2 });
  const reported = (what: ReflectorReport['what']) => reports.filter((report) => report.what === what);

  it('streams everything there is, then follows changes in the same watch', async () => {
    server.answer(
      watch([
        event('ADDED', node('a', 1)),
        event('ADDED', node('b', 2)),
        bookmark('5', true),
        event('MODIFIED', node('a', 6, '10.9.0.0/24')),
        event('DELETED', node('b', 7)),
        event('ADDED', node('c', 8)),
      ]),
    );
    start();
    await synced();
    await eventually(() => expect(names()).toEqual(['a', 'c']));
    expect(reflector.replica.get('a')?.podCidrs).toEqual(['10.9.0.0/24']);
    expect(server.requests).toEqual([
      'GET /api/v1/nodes?watch=true&allowWatchBookmarks=true&timeoutSeconds=N&resourceVersion=0&sendInitialEvents=true&resourceVersionMatch=NotOlderThan',
    ]);
    expect(reflector.status).toMatchObject({ kind: 'Node', doing: 'watch', synced: true, objects: 2, version: '8', failures: 0 });
  });

  it('lists from the cache of a server that has no WatchList, then watches from there', async () => {
    server.answer(
      status(422, 'Invalid'),
      list('5', [node('a', 1)]),
      watch([event('ADDED', node('b', 6))], 'end'),
      watch([bookmark('9')], 'end'),
      watch([]),
    );
    start();
    await eventually(() => expect(server.requests).toHaveLength(5));
    expect(names()).toEqual(['a', 'b']);
    expect(server.requests.slice(1)).toEqual([
      'GET /api/v1/nodes?resourceVersion=0',
      ...['5', '6', '9'].map((from) => `GET /api/v1/nodes?watch=true&allowWatchBookmarks=true&timeoutSeconds=N&resourceVersion=${from}`),
    ]);
  });

  it('falls back to a list when the initial events never end', async () => {
    server.answer(watch([event('ADDED', node('a', 1))]), list('5', [node('a', 1)]), watch([]));
    start({ ...hasty, snapshotIdleMs: 50 });
    await synced();
    expect(server.requests[1]).toBe('GET /api/v1/nodes?resourceVersion=0');
  });

  it('calls back with keys, and not for heartbeats', async () => {
    server.answer(
      watch([
        event('ADDED', node('a', 1)),
        bookmark('5', true),
        event('MODIFIED', node('a', 6, '10.0.0.0/24', { annotations: {} })),
        event('ADDED', node('b', 7)),
      ]),
    );
    start();
    await eventually(() => expect(names()).toEqual(['a', 'b']));
    expect(changes.flat()).toEqual(['a', 'b']);
  });

  it('relists after 410, and takes the difference in one step', async () => {
    server.answer(
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
    start();
    await eventually(() => expect(names()).toEqual(['n0', 'n1', 'n2', 'new']));
    expect(server.requests[1]).toContain('resourceVersion=5&sendInitialEvents');
    expect(changes.filter((keys) => keys.length > 0)).toEqual([
      ['n0', 'n1', 'n2', 'n3'],
      ['n3', 'new'],
    ]);
  });

  it('keeps its copy and tries for ever while the server is broken', async () => {
    server.answer(watch([event('ADDED', node('a', 1)), bookmark('5', true)], 'cut'));
    for (let round = 0; round < 4; round++)
      server.answer(
        status(500, 'InternalError'),
        watch(['garbage\n'], 'end'),
        watch(['{"type":"ADDED","object":{'], 'end'),
        watch([], 'cut'),
      );
    server.answer(watch([event('ADDED', node('b', 6))]));
    start();
    await eventually(() => expect(names()).toEqual(['a', 'b']));
    expect(server.requests.slice(1).every((request) => request.endsWith('resourceVersion=5'))).toBe(true);
    expect(reported('failed').length).toBeGreaterThanOrEqual(16);
  });

  it('ignores duplicates and events that come too late', async () => {
    server.answer(
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
    start();
    await eventually(() => expect(names()).toContain('last'));
    expect(names()).toEqual(['a', 'last']);
    expect(reflector.replica.get('a')?.podCidrs).toEqual(['10.8.0.0/24']);
    expect(reflector.status.version).toBe('13');
  });

  it('skips objects it cannot use, keeps their last good value, and says which field', async () => {
    const bad = node('a', 6, 'nonsense');
    server.answer(
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
    start();
    await eventually(() => expect(names()).toEqual(['a', 'b']));
    expect(reflector.replica.get('a')?.podCidrs).toEqual(['10.0.0.0/24']);
    expect([...reflector.status.invalid.keys()].sort()).toEqual(['a', 'c']);
    expect(reflector.status.invalid.get('a')?.message).toContain('spec.podCIDRs[0]');
    expect(reported('unreadable')).toHaveLength(2);
  });

  it('keeps the last good value also when a snapshot has a bad one', async () => {
    server.answer(watch([event('ADDED', node('a', 1)), bookmark('5', true)], 'end'), status(410, 'Expired'));
    server.answer(watch([event('ADDED', node('a', 6, 'nonsense')), event('ADDED', node('b', 7)), bookmark('8', true)]));
    start();
    await eventually(() => expect(names()).toEqual(['a', 'b']));
    expect(reflector.replica.get('a')?.podCidrs).toEqual(['10.0.0.0/24']);
    expect([...reflector.status.invalid.keys()]).toEqual(['a']);
  });

  it('believes no snapshot that ends before its end', async () => {
    server.answer(
      watch([event('ADDED', node('a', 1))], 'end'),
      watch([event('ADDED', node('a', 1)), event('ADDED', node('b', 2)), bookmark('5', true)]),
    );
    start();
    await synced();
    expect(names()).toEqual(['a', 'b']);
    expect(server.requests[1]).toContain('resourceVersion=0&sendInitialEvents');
  });

  it('survives an object of 5 MB, and removes nothing on the word of a snapshot that has one', async () => {
    const huge = node('huge', 6, '10.0.0.0/24', { annotations: { x: 'y'.repeat(5_000_000) } });
    server.answer(
      watch(
        [...many(10).map((object) => event('ADDED', object)), bookmark('5', true), event('ADDED', huge), event('ADDED', node('b', 7))],
        'end',
      ),
      status(410, 'Expired'),
      status(400, 'BadRequest'),
      list('9', [...many(9), huge]),
      watch([]),
    );
    start();
    await eventually(() => expect(server.requests).toHaveLength(5));
    expect(names()).toEqual([...many(10).map(({ metadata }) => metadata.name), 'b'].sort());
    expect(reported('unreadable').length).toBe(2);
  });

  it('does not take an answer that is no list for an empty one', async () => {
    server.answer(
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
    start();
    await eventually(() => expect(server.requests).toHaveLength(9));
    expect(names()).toEqual([]);
    expect(reported('failed').length).toBeGreaterThanOrEqual(4);
  });

  it('gives up a snapshot that stalls or dribbles, and asks again', async () => {
    server.answer(
      status(400, 'BadRequest'),
      dribble('{"items":[]', 100),
      dribble('{"metadata":{"resourceVersion":"1"},"items":[]}', 20),
      list('5', [node('a', 1)]),
      watch([]),
    );
    start({ ...hasty, snapshotIdleMs: 60, snapshotMs: 200 });
    await synced();
    expect(reported('failed').map((report) => report.what === 'failed' && report.error.code)).toEqual(['UNAVAILABLE', 'UNAVAILABLE']);
  });

  it('ends a watch that outlives its own time', async () => {
    server.answer(watch([bookmark('5', true)]), watch([event('ADDED', node('a', 6))]));
    start({ ...hasty, minWatchSeconds: 0, maxWatchSeconds: 0, watchGraceMs: 50 });
    await eventually(() => expect(names()).toEqual(['a']));
  });

  it('asks for a quorum read when the server has gone back in time', async () => {
    server.answer(watch([event('ADDED', node('a', 900)), bookmark('900', true), event('DELETED', node('b', 901))], 'end'));
    server.answer(
      status(504, 'Timeout', { causes: [{ reason: 'ResourceVersionTooLarge' }] }),
      list('3', [node('a', 2, '10.2.0.0/24')]),
      watch([event('MODIFIED', node('a', 4, '10.4.0.0/24')), event('ADDED', node('b', 5))]),
    );
    start();
    await eventually(() => expect(reflector.replica.get('a')?.podCidrs).toEqual(['10.4.0.0/24']));
    expect(server.requests[2]).toBe('GET /api/v1/nodes');
    await eventually(() => expect(names()).toEqual(['a', 'b']));
  });

  it('does not look into an object of the version it has, but reads everything once the server has gone back in time', async () => {
    server.answer(watch([event('ADDED', node('a', 900)), bookmark('900', true)], 'end'));
    server.answer(status(410, 'Expired'), watch([event('ADDED', node('a', 900, '10.9.0.0/24')), bookmark('902', true)], 'end'));
    server.answer(status(504, 'Timeout', { causes: [{ reason: 'ResourceVersionTooLarge' }] }));
    start();
    await eventually(() => expect(server.requests).toHaveLength(5));
    expect(reflector.replica.get('a')?.podCidrs).toEqual(['10.0.0.0/24']);
    server.answer(list('901', [node('a', 900, '10.9.0.0/24')]), watch([]));
    await eventually(() => expect(reflector.replica.get('a')?.podCidrs).toEqual(['10.9.0.0/24']));
    expect(server.requests[4]).toBe('GET /api/v1/nodes');
  });

  describe('the brake', () => {
    const full = watch([...many(10).map((object) => event('ADDED', object)), bookmark('5', true)], 'end');

    it('holds an empty snapshot until a quorum read disagrees', async () => {
      server.answer(full, status(410, 'Expired'), watch([bookmark('6', true)]), list('7', many(9)), watch([]));
      start();
      await eventually(() => expect(names()).toHaveLength(9));
      expect(server.requests[3]).toBe('GET /api/v1/nodes');
      expect(reported('held')).toEqual([{ what: 'held', known: 10, missing: 10 }]);
      expect(changes.flat().filter((key) => key === 'n0')).toHaveLength(1);
    });

    it('says that a quorum read has all that was missed', async () => {
      server.answer(full, status(410, 'Expired'), watch([bookmark('6', true)]), list('7', many(10)), watch([]));
      start();
      await eventually(() => expect(reported('refuted')).toEqual([{ what: 'refuted', missing: 10 }]));
      expect(names()).toHaveLength(10);
      expect([reported('released'), changes.flat().filter((key) => key === 'n0')]).toEqual([[], ['n0']]);
    });

    it('lets go once the quorum read agrees, and not before', async () => {
      server.answer(full, status(410, 'Expired'), watch([event('ADDED', node('new', 6)), bookmark('6', true)]), status(503, 'Unavailable'));
      start();
      await eventually(() => expect(server.requests).toHaveLength(5));
      expect(names()).toHaveLength(11);
      expect(reflector.status.held).toMatchObject({ known: 10, missing: 10 });
      server.answer(list('7', [node('new', 6)]), watch([]));
      await eventually(() => expect(names()).toEqual(['new']));
      expect(reflector.status.held).toBeUndefined();
    });

    it('also guards what an earlier process stored', async () => {
      server.answer(full, watch([]));
      start();
      await eventually(() => expect(server.requests).toHaveLength(2));
      await restart();
      server.answer(watch([bookmark('6', true)]));
      await eventually(() => expect(reported('held')).toHaveLength(1));
      expect(names()).toHaveLength(10);
      expect(reflector.replica.synced).toBe(false);
    });
  });

  describe('the stored copy', () => {
    const file = () => join(stateDir, 'node.jsonl');

    it('serves without an API server, unsynced, and is not gone behind', async () => {
      server.answer(watch([event('ADDED', node('a', 1)), bookmark('5', true), event('ADDED', node('b', 6))]));
      start();
      await eventually(() => expect(names()).toEqual(['a', 'b']));
      const before = reflector.replica.get('a');
      await restart();
      await eventually(() => expect(server.requests).toHaveLength(1));
      expect(names()).toEqual(['a', 'b']);
      expect(reflector.replica.synced).toBe(false);
      expect(reflector.replica.get('a')).toEqual(before);
      expect(server.requests[0]).toContain('resourceVersion=6&sendInitialEvents');
      changes = [];
      server.answer(watch([event('ADDED', node('a', 1)), event('ADDED', node('b', 6)), bookmark('9', true)]));
      await synced();
      expect(changes.flat()).toEqual([]);
    });

    it('is readable by its owner alone', async () => {
      server.answer(watch([event('ADDED', node('a', 1)), bookmark('5', true)]));
      start();
      await vi.waitFor(async () => expect((await stat(file())).mode & 0o777).toBe(0o600));
    });

    it('is passed over when it is damaged, cut off, or of another kind', async () => {
      server.answer(watch([event('ADDED', node('a', 1)), event('ADDED', node('b', 1)), bookmark('5', true)]));
      start();
      await synced();
      stop.abort();
      await running;
      const whole = await readFile(file(), 'utf8');
      for (const damaged of [
        whole.slice(0, -10),
        whole.replace(/\n.*end.*/, ''),
        whole.replace(/.*"key":"a".*\n/, ''),
        'garbage',
        '',
        whole.replace('"Node"', '"Pod"'),
      ]) {
        await writeFile(file(), damaged);
        start();
        await eventually(() => expect(server.requests.at(-1)).toContain('resourceVersion=0&'));
        expect(reflector.replica.size).toBe(0);
        server.requests.length = 0;
        stop.abort();
        await running;
        await writeFile(file(), whole);
      }
    });

    it('that cannot be written is reported, and nothing else suffers', async () => {
      await writeFile(join(stateDir, 'x'), '');
      stateDir = join(stateDir, 'x');
      server.answer(watch([event('ADDED', node('a', 1)), bookmark('5', true)]));
      start();
      await synced();
      await eventually(() => expect(reported('storage').length).toBeGreaterThan(0));
      expect(names()).toEqual(['a']);
    });
  });
});
