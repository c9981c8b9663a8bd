import { execFileSync } from 'node:child_process';
import { expect, it } from 'vitest';
import { SeineError } from '../../src/base/errors/seine-error.ts';
import { firewallBody } from '../../src/dataplane/compile/compile-firewall.ts';
import { elementKey, type FirewallKey, FirewallTarget } from '../../src/dataplane/targets/host/firewall-target.ts';
import { createNamedNamespace, deleteNamedNamespace } from '../../src/netlink/namespace.ts';
import { Nftables } from '../../src/netlink/nftables/nftables.ts';
import { randomName } from '../integration/netlink-fixture.ts';
import { exampleNode } from '../support/example-node.ts';
import { type Specimen, targetContract } from './target.ts';

function chain(name: string, ...rules: readonly string[]): string {
  return `chain ${name} {\n${['type filter hook forward priority 5; policy accept;', ...rules].join('\n')}\n}`;
}

const nodeTable = firewallBody(exampleNode, { dataPath: 'system', noSnat: false });

const sets = ['set ports { type inet_proto . inet_service; }', 'map to { type ipv4_addr : ipv4_addr; }', 'set six { type ipv6_addr; }'];
const elements = new Map<FirewallKey, string>([
  [elementKey('seine_sets', 'ports', '6 . 30080'), ''],
  [elementKey('seine_sets', 'ports', '17 . 30053'), ''],
  [elementKey('seine_sets', 'to', '192.0.2.1'), '10.0.0.1'],
  [elementKey('seine_sets', 'six', 'fd00::1'), ''],
]);

interface FirewallSpecimen extends Specimen<FirewallKey, string> {
  readonly listedOffThread: () => number;
  /** Returns a target that knows nothing, as after a restart of the agent. */
  readonly restarted: () => FirewallTarget;
  readonly nft: (...words: readonly string[]) => string;
  /** Number that the kernel gives to each new table. */
  readonly handleOf: (table: string) => string | undefined;
}

async function openFirewall(): Promise<FirewallSpecimen> {
  const name = randomName('nfc');
  const namespace = createNamedNamespace(name);
  const nftables = Nftables.open(namespace);
  const nft = (...words: readonly string[]): string => execFileSync('ip', ['netns', 'exec', name, 'nft', ...words], { encoding: 'utf8' });
  nft(`table ip seine {\n${chain('theirs', 'counter')}\n}`); // our name, in another family
  nft(`table inet other {\n${chain('theirs', 'ip saddr 10.0.0.1 drop')}\n}`);
  let reachable = true;
  let listed = 0;
  const reach = (): void => {
    if (!reachable) throw new SeineError('UNAVAILABLE', 'test: no packet filter');
  };
  // The pool's threads are in the namespace of this process.
  const inNamespace = {
    listTable: (...of: Parameters<Nftables['listTable']>) => {
      reach();
      return nftables.listTable(...of);
    },
    listTableOffThread: async (...of: Parameters<Nftables['listTable']>) => {
      reach();
      listed++;
      return nftables.listTable(...of);
    },
    runOffThread: async (commands: string) => {
      reach();
      return nftables.run(commands);
    },
  };
  const restarted = () => new FirewallTarget(inNamespace, ['seine', 'seine_sets', 'seine_a', 'seine_b', 'seine_bad']);
  return {
    listedOffThread: () => listed,
    restarted,
    nft,
    handleOf: (table) => /# handle (\d+)/.exec(nft('-a', 'list', 'table', 'inet', table))?.[1],
    target: restarted(),
    equal: (a, b) => a === b,
    base: new Map([['table/seine_sets', [...sets, chain('c', 'ip saddr @to drop')].join('\n')]]),
    entries: new Map([
      ['table/seine', nodeTable],
      ['table/seine_a', chain('a', 'ip saddr 10.0.0.1 counter drop')],
      ['table/seine_b', chain('b', 'ip6 saddr fd00::1 drop')],
      ...elements,
    ]),
    changes: new Map<FirewallKey, string>([
      ['table/seine_a', chain('a', 'ip saddr 10.0.0.2 counter drop')],
      [elementKey('seine_sets', 'to', '192.0.2.1'), '10.0.0.2'],
    ]),
    impossible: new Map([['table/seine_bad', chain('bad', 'jump nowhere')]]),
    foreign: () => nft('list', 'table', 'ip', 'seine') + nft('list', 'table', 'inet', 'other'),
    disturb: async () =>
      void nft(
        'add rule inet seine_a a accept; delete element inet seine_sets ports { tcp . 30080 }; add element inet seine_sets six { fd00::2 }',
      ),
    wipe: async () =>
      void nft('delete table inet seine; delete table inet seine_a; delete table inet seine_b; delete table inet seine_sets'),
    die: async () => void (reachable = false),
    revive: async () => void (reachable = true),
    close: async () => {
      nftables.close();
      namespace.close();
      deleteNamedNamespace(name);
    },
  };
}

targetContract('FirewallTarget', openFirewall, { refusal: 'all' });

it('keeps elements when the table of their sets is replaced, if the new one has the sets', async () => {
  const specimen = await openFirewall();
  try {
    const { target, base } = specimen;
    const signal = AbortSignal.timeout(20_000);
    await target.apply({ put: new Map([...base, ...elements]), remove: new Set() }, signal);
    const other = [...sets.slice(0, 2), chain('d', 'ip saddr @to accept')].join('\n');
    const gone = elementKey('seine_sets', 'ports', '6 . 30080');
    await target.apply({ put: new Map([['table/seine_sets', other]]), remove: new Set([gone]) }, signal);
    const left = [...elements].filter(([key]) => key !== gone && !key.includes('/six/'));
    expect(await target.observe(signal)).toEqual(new Map([['table/seine_sets', other], ...left]));
  } finally {
    await specimen.close();
  }
});

it('replaces rules and keeps the table with its sets, also after a restart: packets find their elements all the time', async () => {
  const specimen = await openFirewall();
  try {
    const { target, restarted, handleOf, base } = specimen;
    const signal = AbortSignal.timeout(20_000);
    await target.apply({ put: new Map([...base, ...elements]), remove: new Set() }, signal);
    const before = handleOf('seine_sets');
    const other = [...sets, chain('d', 'ip saddr @to accept')].join('\n');
    const again = restarted();
    await again.observe();
    await again.apply({ put: new Map([['table/seine_sets', other]]), remove: new Set() });
    expect(await again.observe()).toEqual(new Map([['table/seine_sets', other], ...elements]));
    expect(handleOf('seine_sets')).toBe(before);
  } finally {
    await specimen.close();
  }
});

it.each([
  [
    'a chain with another hook',
    ['delete', 'chain', 'inet', 'seine_sets', 'c'],
    'chain c { type filter hook input priority 5; policy drop; }',
  ],
  ['a chain that drops', ['flush', 'chain', 'inet', 'seine_sets', 'c'], 'chain c { policy drop; }'],
  ['a set of its own', [], 'set mine { type ipv4_addr; }'],
  ['a chain of its own', [], 'chain mine { type filter hook input priority 0; policy drop; }'],
])('restores a table in which another program has %s', async (_, command, content) => {
  const specimen = await openFirewall();
  try {
    const { target, restarted, nft, base } = specimen;
    const signal = AbortSignal.timeout(20_000);
    await target.apply({ put: new Map([...base, ...elements]), remove: new Set() }, signal);
    const whole = nft('list', 'table', 'inet', 'seine_sets');
    if (command.length > 0) nft(...command);
    nft(`table inet seine_sets {\n${content}\n}`);
    expect(nft('list', 'table', 'inet', 'seine_sets')).not.toBe(whole);
    const again = restarted();
    await again.observe();
    await again.apply({ put: base, remove: new Set() });
    expect(nft('list', 'table', 'inet', 'seine_sets')).toBe(whole);
    expect(await again.observe()).toEqual(new Map([...base, ...elements]));
  } finally {
    await specimen.close();
  }
});

it('replaces networks of a set by one that contains them, in one change', async () => {
  const specimen = await openFirewall();
  try {
    const { target } = specimen;
    const signal = AbortSignal.timeout(20_000);
    const network = (text: string): FirewallKey => elementKey('seine', text.includes(':') ? 'pods6' : 'pods4', text);
    const small = ['10.10.4.0/24', '10.10.5.0/24', '10.10.8.0/22', 'fd00:10:0:1::/64'].map(network);
    await target.apply(
      { put: new Map([['table/seine', nodeTable], ...small.map((key) => [key, ''] as const)]), remove: new Set() },
      signal,
    );
    expect(new Set((await target.observe(signal)).keys())).toEqual(new Set(['table/seine', ...small]));
    const large = network('10.10.4.0/22');
    await target.apply({ put: new Map([[large, '']]), remove: new Set(small.slice(0, 2)) }, signal);
    expect(new Set((await target.observe(signal)).keys())).toEqual(new Set(['table/seine', large, ...small.slice(2)]));
    expect((await target.observe(signal)).get('table/seine')).toBe(nodeTable);
  } finally {
    await specimen.close();
  }
});

it('lists a table of many elements off the main thread', async () => {
  const specimen = await openFirewall();
  try {
    const signal = AbortSignal.timeout(20_000);
    const ports = Array.from({ length: 1_500 }, (_, at): [FirewallKey, string] => [elementKey('seine_sets', 'ports', `6 . ${at + 1}`), '']);
    await specimen.target.apply({ put: new Map([...specimen.base, ...ports]), remove: new Set() }, signal);
    const before = specimen.listedOffThread();
    expect((await specimen.target.observe(signal)).size).toBe(ports.length + specimen.base.size);
    expect(specimen.listedOffThread()).toBe(before + 1);
  } finally {
    await specimen.close();
  }
});

it('can be observed during writes', async () => {
  let busy = false;
  const target = new FirewallTarget(
    {
      listTable: () => {
        expect(busy).toBe(false);
        return undefined;
      },
      listTableOffThread: async () => undefined,
      runOffThread: async () => {
        busy = true;
        await new Promise((resolve) => setImmediate(resolve));
        busy = false;
        return '';
      },
    },
    ['seine'],
  );
  const writing = target.apply({ put: new Map([['table/seine', '']]), remove: new Set() });
  expect((await target.observe()).size).toBe(0);
  await writing;
});
