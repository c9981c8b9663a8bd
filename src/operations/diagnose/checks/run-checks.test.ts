import { expect, it } from 'vitest';
import { type Check, type CheckContext, fine } from './check.ts';
import { type CheckNews, runChecks } from './run-checks.ts';

const context: CheckContext = {
  peers: { most: 1 },
  clocks: { wallMs: () => 0, monotonicMs: () => 0, originMs: 0 },
  blocked: async () => [],
};
const hangs: Check = { name: 'pods', run: () => new Promise(() => undefined) };

async function all(checks: readonly Check[], signal: AbortSignal): Promise<readonly CheckNews[]> {
  const news: CheckNews[] = [];
  for await (const each of runChecks(checks, context, signal)) news.push(each);
  return news;
}

const names = (news: readonly CheckNews[]): readonly string[] =>
  news.map((each) => (each.kind === 'finding' ? `${each.finding.check} ${each.finding.state}` : each.says));

it('reports findings of each, independent of failures of others', async () => {
  const checks: Check[] = [
    { name: 'disk', run: (_, reporter) => reporter.finding(fine('disk', 'well')) },
    {
      name: 'kernel',
      run: () => {
        throw new Error('no such file');
      },
    },
    {
      name: 'node',
      run: async (_, reporter) => {
        reporter.progress('half');
        reporter.finding(fine('node.flows', 'well'));
      },
    },
  ];
  const news = names(await all(checks, AbortSignal.timeout(5_000)));
  expect(new Set(news)).toEqual(new Set(['disk ok', 'kernel unknown', 'half', 'node.flows ok']));
});

it('ends in time with present results, and ignores a check that ends later', async () => {
  let late: (() => void) | undefined;
  const goesOn: Check = {
    name: 'tunnel',
    run: (_, reporter) =>
      new Promise((resolve) => {
        reporter.finding(fine('tunnel.reach', 'well'));
        late = () => {
          reporter.finding(fine('tunnel.mtu', 'well'));
          resolve();
        };
      }),
  };
  const news = await all([hangs, goesOn], AbortSignal.timeout(30));
  late?.();
  expect(new Set(names(news))).toEqual(new Set(['tunnel.reach ok', 'tunnel unknown', 'pods unknown']));
  expect(JSON.stringify(news)).toContain('not finished in time');
});

it('ends its checks when the reader leaves', async () => {
  let ended: AbortSignal | undefined;
  const watcher: Check = {
    name: 'api',
    run: (_, reporter, signal) => {
      ended = signal;
      reporter.finding(fine('api', 'well'));
      return new Promise(() => undefined);
    },
  };
  for await (const _ of runChecks([watcher], context, new AbortController().signal)) break;
  expect(ended?.aborted).toBe(true);
});
