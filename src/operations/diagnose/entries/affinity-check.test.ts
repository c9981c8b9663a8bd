import { expect, it } from 'vitest';
import { learnedCookie, learnedCookieOf, ownerOf } from '../../../dataplane/pipeline/cookie.ts';
import { affinityCheck } from './affinity-check.ts';
import { readAffinityUse } from './affinity-clients.ts';

const signal = new AbortController().signal;
const [web, other] = [ownerOf('service', 'default/web:http/ipv4'), ownerOf('service', 'default/other:http/ipv4')];

/** Bridge with this number of learned flows by cookie; counts the times that they are listed. */
function bridge(counts: ReadonlyMap<bigint, number>) {
  const seen = { dumps: 0 };
  const of = (cookie: bigint, mask: bigint) => [...counts].filter(([each]) => (each & mask) === (cookie & mask));
  const openflow = {
    aggregate: async ({ cookie = 0n, cookieMask = 0n }: { readonly cookie?: bigint; readonly cookieMask?: bigint }) => {
      return { packets: 0n, bytes: 0n, flows: of(cookie, cookieMask).reduce((sum, [, count]) => sum + count, 0) };
    },
    dumpFlows: async (_: unknown, visit: (flow: never) => void) => {
      seen.dumps++;
      for (const [cookie, count] of counts) for (let flow = 0; flow < count; flow++) visit({ cookie } as never);
    },
  };
  return { openflow, seen };
}

it('names ports that remember the maximum number of clients', async () => {
  const { openflow } = bridge(
    new Map([
      [learnedCookieOf(web), 10_000],
      [learnedCookieOf(other), 9_999],
    ]),
  );
  const { problems } = await affinityCheck(openflow, { served: () => new Map([web, other].map((owner) => [owner, undefined])) }).run(
    signal,
  );
  expect(problems.map(({ kind, about }) => `${kind} ${about}`)).toEqual(['service.affinity default/web:http/ipv4']);
});

it('lists no flows while no port can be full, and does not count fragments', async () => {
  const { openflow, seen } = bridge(
    new Map([
      [learnedCookieOf(web), 9_999],
      [learnedCookie, 10_000],
    ]),
  );
  expect(await readAffinityUse(openflow, signal)).toEqual({ clients: 9_999, full: new Set() });
  expect(seen.dumps).toBe(0);
});
