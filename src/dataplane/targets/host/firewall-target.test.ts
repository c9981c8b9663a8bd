import { describe, expect, it } from 'vitest';
import { SeineError } from '../../../base/errors/seine-error.ts';
import { FirewallTarget } from './firewall-target.ts';

const body = 'chain c {\ntype filter hook forward priority 5; policy accept;\n}';
const chain = { family: 'inet', table: 'seine', name: 'c', type: 'filter', hook: 'forward', prio: 5, policy: 'accept' };

/** Target whose table is present, and whose next transactions fail with the given errors. */
async function written(...failures: readonly SeineError[]) {
  const [transactions, reported] = [[] as string[], [] as string[]];
  const left = [...failures];
  const objects = [{ table: { family: 'inet', name: 'seine' } }, { chain }];
  const target = new FirewallTarget(
    {
      listTable: () => objects,
      listTableOffThread: () => Promise.resolve(objects),
      runOffThread: (commands) => {
        transactions.push(commands);
        const failure = left.shift();
        return failure ? Promise.reject(failure) : Promise.resolve('');
      },
    },
    ['seine'],
    (tables, { code, rawMessage }) => reported.push(`${tables.join()} ${code}: ${rawMessage}`),
  );
  await target.observe();
  const result = await target.apply({ put: new Map([['table/seine', body]]), remove: new Set() }).then(
    () => 'applied',
    ({ code }: SeineError) => code,
  );
  return { result, reported, transactions };
}

const refusal = new SeineError('REFUSED', 'nftables: Error: Could not process rule: Operation not supported');

describe('a table whose sets are declared as before', () => {
  it('gets new rules in place, without a report', async () => {
    const { result, reported, transactions } = await written();
    expect([result, reported, transactions.length]).toEqual(['applied', [], 1]);
    expect(transactions[0]).toContain('flush table inet seine');
  });

  it('is replaced as a whole if nft refuses that, which is reported with the reason', async () => {
    const { result, reported, transactions } = await written(refusal);
    expect([result, transactions.length]).toEqual(['applied', 2]);
    expect(reported).toEqual([`seine REFUSED: ${refusal.rawMessage}`]);
    expect(transactions[1]).toContain('delete table inet seine');
  });

  it('is reported also if nft refuses both', async () => {
    const { result, reported, transactions } = await written(refusal, refusal);
    expect([result, reported.length, transactions.length]).toEqual(['REFUSED', 1, 2]);
  });

  it.each(['UNAVAILABLE', 'PROTOCOL', 'INVARIANT'] as const)('is not replaced after another failure, such as %s', async (code) => {
    const { result, reported, transactions } = await written(new SeineError(code, 'test'));
    expect([result, reported, transactions.length]).toEqual([code, [], 1]);
  });
});
