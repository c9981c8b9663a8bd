import { expect, it } from 'vitest';
import { associationCookieOf } from '../../../dataplane/pipeline/cookie.ts';
import { tables } from '../../../dataplane/pipeline/tables.ts';
import { encodeMatch } from '../../../openflow/match/match.ts';
import { associationCheck } from './association-check.ts';

const signal = new AbortController().signal;
const cookie = associationCookieOf(7);
const match = encodeMatch({ eth_type: 0x0800, ip_proto: 132, ip_src: 0x0a0a0107, ip_dst: 0x0a0a0005, sctp_src: 1, sctp_dst: 2 });

it('reports a sender whose share of SCTP associations is full, for as long as it is', async () => {
  let [learned, unlearned, dumps] = [500, 0n, 0];
  const check = associationCheck({
    dumpFlows: async (filter, visit) => {
      const see = visit as (flow: object) => void;
      if (filter?.table === tables.unlearnedAssociations.id) see({ packets: unlearned });
      else {
        dumps++;
        for (let flow = 0; flow < learned; flow++) see({ cookie, match });
      }
    },
  });
  const found = async () => (await check.run(signal)).problems.map(({ kind, about }) => `${kind} ${about}`);
  expect([await found(), dumps]).toEqual([[], 0]); // nothing was without room
  unlearned = 3n;
  expect(await found()).toEqual(['policy.associations 10.10.1.7']);
  expect(await found()).toEqual(['policy.associations 10.10.1.7']);
  learned = 400;
  expect([await found(), dumps]).toEqual([[], 3]);
  expect([await found(), dumps]).toEqual([[], 3]);
});
