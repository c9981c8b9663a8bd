import { expect, it } from 'vitest';
import { parseIp } from '../../src/base/net/ip.ts';
import { readCounters } from '../../src/netlink/nftables/nft-counters.ts';
import { elementChanges, type NftElement, nftText, readElements } from '../../src/netlink/nftables/nft-elements.ts';
import { Nftables } from '../../src/netlink/nftables/nftables.ts';
import { NetlinkSocket } from '../../src/netlink/socket.ts';
import { inside, type Lab, openDescriptors, withNamespaces } from './netlink-fixture.ts';

const services = { family: 'inet', table: 'seine', name: 'services' } as const;
const table = `table inet seine {
  map services {
    type ipv4_addr . inet_proto . inet_service : ipv4_addr . inet_service
  }
  chain pre {
    type nat hook prerouting priority dstnat
    dnat ip to ip daddr . meta l4proto . th dport map @services
  }
}
`;

function withNftables<T>(work: (nft: Nftables, lab: Lab) => T): Promise<T> {
  return withNamespaces(1, (lab) => {
    const nft = Nftables.open(lab.namespace);
    try {
      return work(nft, lab);
    } finally {
      nft.close();
    }
  });
}

const element = (index: number, port = 8080): NftElement => ({
  key: nftText(parseIp(`10.96.${index >> 8}.${index & 255}`), 'tcp', 80),
  value: nftText(parseIp('10.0.0.5'), port),
});

it('creates what nft lists, in one namespace only', () =>
  withNftables((nft, lab) => {
    expect(nft.listTable('inet', 'seine')).toBeUndefined();
    expect(nft.run(table + elementChanges(services, { remove: [], add: [element(1), element(2)] }))).toBe('');
    expect(inside(lab, 'nft', 'list', 'map', 'inet', 'seine', 'services')).toContain('10.96.0.1 . tcp . 80 : 10.0.0.5 . 8080');
    expect(readElements(nft.listTable('inet', 'seine') ?? [], 'services')).toEqual([element(1), element(2)]);
    const atHome = Nftables.open();
    expect(atHome.listTable('inet', 'seine')).toBeUndefined();
    atHome.close();
  }));

it('changes elements, all or none', () =>
  withNftables((nft) => {
    const listed = () => readElements(nft.listTable('inet', 'seine') ?? [], 'services');
    nft.run(table + elementChanges(services, { remove: [], add: [element(1), element(2)] }));
    nft.run(elementChanges(services, { remove: [element(1), element(2)], add: [element(1, 9090), element(3)] }));
    expect(listed()).toEqual([element(1, 9090), element(3)]);
    expect(() => nft.run(elementChanges(services, { remove: [element(3), element(99)], add: [element(4)] }))).toThrow('REFUSED');
    expect(() => nft.run(elementChanges(services, { remove: [], add: [element(4), element(1, 1)] }))).toThrow('File exists');
    expect(listed()).toEqual([element(1, 9090), element(3)]);
  }));

it('reads the named counters of a table, whatever the size of its sets', () =>
  withNftables((nft, lab) => {
    const socket = NetlinkSocket.open({ protocol: 'netfilter', namespace: lab.namespace });
    expect(readCounters(socket, 'seine')).toEqual(new Map());
    nft.run('table inet seine { counter in { }\n counter out { }\n chain c { type filter hook input priority 0; counter name "in"; }\n }');
    nft.run('table inet other { counter in { }\n quota q { 1 mbytes }\n }\ntable ip seine { counter third { }\n }');
    nft.run(table + elementChanges(services, { remove: [], add: Array.from({ length: 5000 }, (_, index) => element(index)) }));
    inside(lab, 'ip', 'link', 'set', 'lo', 'up');
    inside(lab, 'ping', '-c', '2', '-q', '127.0.0.1');
    expect(readCounters(socket, 'seine')).toEqual(
      new Map([
        ['in', 4],
        ['out', 0],
      ]),
    );
    socket.close();
  }));

it("reports nft's error text", () =>
  withNftables((nft) => {
    expect(() => nft.run('add rule inet seine nope accept')).toThrow('[REFUSED] nftables: Error: ');
    expect(() => nft.run('oops\n')).toThrow('syntax error');
    nft.run('add table inet seine\ndelete table inet seine\n');
    expect(nft.listTable('inet', 'seine')).toBeUndefined();
  }));

it('accepts thousands of elements and a change among them', () =>
  withNftables((nft) => {
    const all = Array.from({ length: 5000 }, (_, index) => element(index));
    nft.run(table + elementChanges(services, { remove: [], add: all }));
    nft.run(elementChanges(services, { remove: [element(17)], add: [element(17, 9)] }));
    const listed = readElements(nft.listTable('inet', 'seine') ?? [], 'services') ?? [];
    expect(listed).toHaveLength(5000);
    expect(listed).toContainEqual(element(17, 9));
  }));

it('works in the thread pool for its own namespace, one at a time', async () => {
  const nft = Nftables.open();
  const running = nft.runOffThread('list tables');
  expect(() => nft.run('list tables')).toThrow('[INVARIANT] nftables is busy');
  expect(() => nft.close()).toThrow('[INVARIANT]');
  expect(JSON.parse(await running)).toHaveProperty('nftables');
  await expect(nft.runOffThread('oops')).rejects.toMatchObject({ code: 'REFUSED' });
  nft.close();
  nft.close();
  await withNftables((inNamespace) => expect(inNamespace.runOffThread('list tables')).rejects.toMatchObject({ code: 'INVARIANT' }));
});

it('leaks no descriptor', () => {
  Nftables.open().close();
  const before = openDescriptors();
  for (let round = 0; round < 20; round++) Nftables.open().close();
  expect(openDescriptors()).toBe(before);
});
