import { afterAll, beforeAll } from 'vitest';
import { DriftLab, driftTests, type ForeignChange } from '../support/drift-lab.ts';

/** Our tables of nftables. */
let node: DriftLab;

beforeAll(async () => {
  node = await DriftLab.start();
});
afterAll(async () => {
  await node?.lab.remove();
});

const looked = async () => {
  const lists = await Promise.all(
    ['seine', 'seine-services', 'seine-external'].map((table) => node.exec('nft', 'list', 'table', 'inet', table).catch(() => null)),
  );
  return lists.includes(null) ? null : lists.join('').replaceAll(/ packets \d+ bytes \d+/g, '');
};
const nft = (what: string, command: string): ForeignChange => ({
  what,
  change: () => node.exec('nft', command),
  observed: looked,
  part: 'firewall',
});
const whole = (what: string, command: string): ForeignChange => ({ ...nft(what, command), whileStopped: 'never' });

driftTests('packet filter', () => node, [
  whole('everything flushed', 'flush ruleset'),
  nft('a table deleted', 'delete table inet seine-services'),
  nft('another table deleted', 'delete table inet seine-external'),
  whole('a table dormant', 'add table inet seine { flags dormant; }'),
  nft('a chain flushed', 'flush chain inet seine postrouting'),
  nft('a rule before ours', 'insert rule inet seine forward drop'),
]);
driftTests('packet filter', () => node, [
  nft('a policy changed', 'add chain inet seine input { type filter hook input priority filter; policy drop; }'),
  nft('a set emptied', 'flush set inet seine-services node-ports4'),
  nft('an element added', 'add element inet seine-services node-ports4 { tcp . 31999 }'),
  {
    ...nft('one element deleted', ''),
    change: async () => {
      const element = /tcp \. \d+/.exec(await node.exec('nft', 'list', 'set', 'inet', 'seine-services', 'node-ports6'))?.[0];
      await node.exec('nft', `delete element inet seine-services node-ports6 { ${element} }`);
    },
  },
]);
