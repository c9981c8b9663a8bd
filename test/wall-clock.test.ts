import { readdirSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { expect, it } from 'vitest';

const src = resolve(import.meta.dirname, '..', 'src');

/** Where the time of day is read, and that nothing that matters is decided by it: it may jump, by hours and backwards. */
const readers: Readonly<Record<string, string>> = {
  'agent/agent.ts': 'says since when the agent runs, and which occasion an Event is of',
  'agent/check/check.ts': 'compares clocks, which is what it is for',
  'agent/cni-server-deletions.ts':
    'tells a draft that a plugin left long ago by the time of its file; whose draft goes too early is called again',
  'agent/main.ts': 'stamps a line of the log',
  'agent/metrics/scrape.ts': 'says since when the agent runs',
  'agent/proxy/programming-times.ts': 'takes the age of a change for a metric; one that is impossible is not counted',
  'agent/repair-history.ts': 'stamps repairs for people',
  'kube/events.ts': 'stamps Events',
  'kube/node-condition.ts': 'stamps a condition',
};
const rooms = ['agent', 'async', 'cni', 'connectivity', 'datapath', 'kube', 'netlink', 'openflow', 'ovsdb', 'proxy'];

it('nothing that lasts is timed by the clock on the wall', () => {
  const found = rooms.flatMap((room) =>
    readdirSync(join(src, room), { recursive: true, encoding: 'utf8' })
      .map((file) => `${room}/${file}`)
      .filter((file) => file.endsWith('.ts') && !file.endsWith('.test.ts'))
      .filter((file) => /\bDate\.now\b|\bnew Date\(\)/.test(readFileSync(join(src, file), 'utf8'))),
  );
  expect(found.filter((file) => !Object.hasOwn(readers, file))).toEqual([]);
});
