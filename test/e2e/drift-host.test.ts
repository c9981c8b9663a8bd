import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { DriftLab, driftTests, type ForeignChange } from '../support/drift-lab.ts';
import { heldStates } from '../support/held-states.ts';

/** The node's own stack: the gateway, its addresses, routes, rules and neighbours. */
let node: DriftLab;
const gateway = 'antrea-gw0';
/** A namespace outside the lab, and a bridge of the node that is not Open vSwitch's. */
const away = `harm-${randomBytes(3).toString('hex')}`;
const otherBridge = 'harm0';

const ip = (words: string) => node.ip(...words.split(' '));

beforeAll(async () => {
  node = await DriftLab.start();
  await ip(`netns add ${away}`);
  await ip(`link add ${otherBridge} type bridge`);
});
afterAll(async () => {
  await ip(`netns delete ${away}`);
  await node?.lab.remove();
});

/** Null while there is no gateway. */
const ofGateway = async (words: string): Promise<string | null> => await ip(`${words} dev ${gateway}`).catch(() => null);
const sorted = (text: string, but: RegExp): string =>
  text
    .split('\n')
    .filter((line) => !but.test(line))
    .toSorted()
    .join('\n');
/** Flags, MTU, bridge and MAC; the other fields depend on the interface's age. */
const link = async () =>
  (await ofGateway('-o link show'))
    ?.match(/(?<=<)\S+(?=>)|mtu \d+|master \S+|link\/ether \S+/g)
    ?.join(' ')
    .replace('NO-CARRIER,', '') ?? null;
const addresses = async () =>
  (await ofGateway('-br address show'))
    ?.match(/\S+\/\d+/g)
    ?.filter((text) => !text.startsWith('fe80'))
    .join(' ') ?? null;
const overGateway = async () => {
  const found = await Promise.all(['-4', '-6'].map((family) => ofGateway(`${family} route show table all`)));
  return found.includes(null) ? null : sorted(found.join(''), /fe80|ff00|anycast/);
};
const ours = async () => (await Promise.all(['-4', '-6'].map((family) => ip(`${family} route show table all proto 94`)))).join('');
const rules = async () =>
  (await Promise.all(['-4', '-6'].map((family) => ip(`${family} rule show`))))
    .join('')
    .split('\n')
    .filter((line) => line.includes('proto 94'))
    .join('\n');
const neighbours = async () => {
  const found = await ofGateway('neighbour show nud permanent');
  return found === null ? null : sorted(found, /^$/);
};

const foreignChange = (
  what: string,
  change: string | (() => Promise<unknown>),
  ...observers: readonly ForeignChange['observed'][]
): ForeignChange => ({
  what,
  change: async () => (typeof change === 'string' ? await ip(change) : await change()),
  observed: async () => {
    const seen = await Promise.all(observers.map((look) => look()));
    return seen.includes(null) ? null : seen.join('\n');
  },
  part: 'host',
});
const alive = (...of: Parameters<typeof foreignChange>): ForeignChange => ({ ...foreignChange(...of), whileStopped: 'never' });
const everything = [link, addresses, overGateway, neighbours];

const mtu: ForeignChange = { what: 'MTU', change: () => ip(`link set ${gateway} mtu 1300`), observed: link };
driftTests('gateway', () => node, [
  foreignChange('down', `link set ${gateway} down`, ...everything),
  mtu,
  foreignChange('MAC', `link set ${gateway} address 0e:00:00:00:99:99`, link),
  foreignChange('without ARP', `link set ${gateway} arp off`, link, neighbours),
]);
driftTests('gateway', () => node, [
  alive('in another bridge', `link set ${gateway} master ${otherBridge}`, ...everything),
  { ...foreignChange('deleted', `link delete ${gateway}`, ...everything), whileStopped: 'alone' },
  alive('in another namespace', `link set ${gateway} netns ${away}`, ...everything),
]);

driftTests('addresses', () => node, [
  alive('deleted', `address flush dev ${gateway} scope global`, addresses, overGateway),
  foreignChange('a foreign one', `address add 192.0.2.7/24 dev ${gateway}`, addresses, overGateway),
  foreignChange('a foreign one of IPv6', `address add 2001:db8::7/64 dev ${gateway}`, addresses, overGateway),
  foreignChange(
    'a second time, for a smaller network',
    async () => await ip(`address add ${/\d+(\.\d+){3}/.exec((await addresses()) ?? '')?.[0]}/30 dev ${gateway}`),
    addresses,
  ),
]);

/** The route to the pod network of the other node: its destination and next hop. */
async function way(family: '-4' | '-6' = '-4'): Promise<{ readonly to: string; readonly via: string }> {
  const listed = await ip(`${family} route show proto 94`);
  const peer = /^(?<to>\S+\/\d+) via (?<via>\S+)/m.exec(listed)?.groups;
  if (peer?.['to'] === undefined || peer['via'] === undefined) throw new Error(`no way to the other node: ${listed}`);
  return { to: peer['to'], via: peer['via'] };
}
const route = (what: string, words: (peer: { to: string; via: string }) => string, family: '-4' | '-6' = '-4'): ForeignChange =>
  foreignChange(what, async () => await ip(`${family} route ${words(await way(family))}`), ours);

driftTests('routes', () => node, [
  foreignChange('deleted', 'route flush proto 94', ours),
  foreignChange('of IPv6 deleted', '-6 route flush proto 94', ours),
  alive('all over the gateway deleted', `route flush dev ${gateway}`, ours),
]);
driftTests('rules', () => node, [
  foreignChange('of marked packets deleted', 'rule delete priority 94', rules),
  foreignChange('of other packets deleted', '-6 rule delete priority 32800', rules),
  foreignChange('to another table', 'rule add priority 94 fwmark 0x1000/0x1000 lookup 77 proto 94', rules),
  foreignChange('a narrower one', '-6 rule add priority 94 fwmark 0x1000/0x1000 iif lo lookup 24158 proto 94', rules),
]);
driftTests('routes', () => node, [
  route('blocked', ({ to }) => `replace blackhole ${to} proto 94`),
  route('of IPv6 blocked', ({ to }) => `replace blackhole ${to} proto 94`, '-6'),
  route('by another next hop', ({ to }) => `replace ${to} via 192.0.2.9 dev ${gateway} onlink proto 94`),
  route('for small packets only', ({ to, via }) => `replace ${to} via ${via} dev ${gateway} onlink proto 94 mtu lock 600`),
]);
driftTests('routes', () => node, [
  route('a second one', ({ to }) => `add blackhole ${to} metric 50 proto 94`),
  route('a better one of IPv6', ({ to }) => `add blackhole ${to} metric 1 proto 94`, '-6'),
  alive(
    'in another table',
    async () => {
      const { to, via } = await way();
      await ip(`route add ${to} via ${via} dev ${gateway} onlink proto 94 table 77`);
      await ip(`route delete ${to} table main`);
    },
    ours,
  ),
]);

const neighbour = (what: string, words: (ip: string, mac: string) => string): ForeignChange =>
  foreignChange(
    what,
    async () => {
      const [found, , mac] = ((await neighbours()) ?? '').split('\n').at(-1)?.split(' ') ?? [];
      await ip(`neighbour ${words(found ?? '', mac ?? '')} dev ${gateway}`);
    },
    neighbours,
  );
driftTests('neighbours', () => node, [
  alive('deleted', `neighbour flush dev ${gateway} nud permanent`, neighbours),
  neighbour('one deleted', (address) => `delete ${address}`),
  neighbour('another MAC', (address) => `replace ${address} lladdr 0e:00:00:00:99:99 nud permanent`),
  neighbour('one that ages', (address, mac) => `replace ${address} lladdr ${mac} nud reachable`),
  // The kernel may have an entry for this address that it could not resolve.
  neighbour('a foreign one', () => 'replace 192.0.2.9 lladdr 0e:00:00:00:99:99 nud permanent'),
]);

const settings = async () => {
  const ofGatewayAndNode = `^net\\.(ipv4\\.ip_forward|ipv6\\.conf\\.all\\.forwarding|ipv[46]\\.conf\\.${gateway}\\.(forwarding|rp_filter|send_redirects|accept_ra|accept_redirects|accept_source_route|disable_ipv6))$`;
  return await node.exec('sysctl', '-a', '-r', ofGatewayAndNode);
};
const setting = (what: string, ...values: readonly string[]): ForeignChange => ({
  what,
  change: () => node.exec('sysctl', '-w', ...values),
  observed: settings,
  part: 'settings',
});
driftTests('kernel settings', () => node, [
  setting('no forwarding', 'net.ipv4.ip_forward=0', 'net.ipv6.conf.all.forwarding=0'),
  setting('strict reverse path filter', `net.ipv4.conf.${gateway}.rp_filter=1`),
  setting('redirects and source routes', `net.ipv4.conf.${gateway}.accept_redirects=1`, `net.ipv6.conf.${gateway}.accept_source_route=0`),
  {
    ...setting('no IPv6', `net.ipv6.conf.${gateway}.disable_ipv6=1`),
    observed: async () => (await settings()) + (await overGateway()) + (await addresses()),
  },
]);

/** Routes and rules of other programs that divert traffic for our networks: only reported, so the test undoes them. */
interface Taking {
  readonly what: string;
  readonly family: '-4' | '-6';
  readonly words: (to: string) => string;
}
const rule: Taking = { what: 'a rule', family: '-4', words: (to) => `rule VERB to ${to} blackhole priority 100` };
const smaller: Taking = {
  what: 'a smaller network',
  family: '-4',
  words: (to) => `route VERB unreachable ${to.replace(/\/\d+$/, '/28')} proto static`,
};
const better: Taking = { what: 'a better metric', family: '-6', words: (to) => `route VERB blackhole ${to} metric 1 proto static` };
/** Those of one test are in different families, and so about different networks: the test waits for the check of both together. */
const takings: readonly (readonly Taking[])[] = [[rule, better], [smaller]];

describe('a foreign route or rule that diverts traffic', () => {
  const take = async (verb: 'add' | 'delete', { family, words }: Taking, to: string) =>
    await ip(`${family} ${words(to).replace('VERB', verb)}`);
  const untilReported = async (to: string, reported: boolean) =>
    await expect
      .poll(async () => (await node.status()).problems?.some(({ about }) => about === `routing/${to}`), {
        timeout: heldStates.routing.withinMs,
      })
      .toBe(reported);

  it.each(takings.map((together) => ({ together, what: together.map(({ what }) => what).join('; ') })))(
    'is reported while the agent runs, and until it is removed: $what',
    async ({ together }) => {
      await Promise.all(
        together.map(async (taking) => {
          const { to } = await way(taking.family);
          await take('add', taking, to);
          await untilReported(to, true);
          await take('delete', taking, to);
          await untilReported(to, false);
        }),
      );
    },
  );

  it('is reported by an agent that starts', async () => {
    const { to } = await way(rule.family);
    await node.lab.agent(1, 'kill');
    await take('add', rule, to);
    await node.lab.agent(1, 'start');
    await node.lab.untilReady(1, 90_000);
    await untilReported(to, true);
    await take('delete', rule, to);
    await untilReported(to, false);
  });
});
