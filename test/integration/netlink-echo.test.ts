import { expect, it } from 'vitest';
import { parseIp } from '../../src/base/net/ip.ts';
import { errnoOf } from '../../src/netlink/errno.ts';
import { EchoSocket } from '../../src/netlink/packets/icmp-echo.ts';
import { failureOf, inside, ip, type Lab, openDescriptors, withNamespaces } from './netlink-fixture.ts';

const never = new AbortController().signal;
const patienceMs = 300;

/** Joins two namespaces by a veth: 192.0.2.1, 2001:db8::1 and .2, ::2. */
function wire(a: Lab, b: Lab): void {
  ip(a, 'link', 'add', 'w0', 'type', 'veth', 'peer', 'name', 'w0', 'netns', b.name);
  for (const [lab, last] of [
    [a, 1],
    [b, 2],
  ] as const) {
    ip(lab, 'addr', 'add', `192.0.2.${last}/24`, 'dev', 'w0');
    ip(lab, 'addr', 'add', `2001:db8::${last}/64`, 'dev', 'w0', 'nodad');
    ip(lab, 'link', 'set', 'w0', 'up');
  }
}

function asks(a: Lab, from: string, to: string): EchoSocket {
  return a.namespace.run(() => EchoSocket.open({ from: parseIp(from), to: parseIp(to) }));
}

it.each([
  ['192.0.2.1', '192.0.2.2'],
  ['2001:db8::1', '2001:db8::2'],
])("sends from %s and receives from the far kernel, up to exactly the path's MTU", async (from, to) => {
  await withNamespaces(2, async (a, b) => {
    wire(a, b);
    const echo = asks(a, from, to);
    try {
      expect(await echo.ask(100, 5_000, never)).toBe('answered');
      expect(await echo.ask(1_500, patienceMs, never)).toBe('answered');
      expect(await echo.ask(1_501, patienceMs, never)).toBe('tooLong');
      // The far end has a smaller MTU: the packet is dropped there as a whole, and was not fragmented.
      ip(b, 'link', 'set', 'w0', 'mtu', '1400');
      expect(await echo.ask(1_500, patienceMs, never)).toBe('silent');
      ip(b, 'link', 'set', 'w0', 'mtu', '1500');
      const request = from.includes(':') ? 'icmpv6 type echo-request' : 'icmp type echo-request';
      inside(
        b,
        'nft',
        `add table inet deaf; add chain inet deaf in { type filter hook input priority 0; }; add rule inet deaf in ${request} drop`,
      );
      expect(await echo.ask(100, patienceMs, never)).toBe('silent');
    } finally {
      echo.close();
    }
    const before = openDescriptors();
    for (let count = 0; count < 10; count++) asks(a, from, to).close();
    expect(openDescriptors()).toBe(before);
  });
});

it('treats a request that a filter of this node drops as one without an answer', async () => {
  await withNamespaces(2, async (a, b) => {
    wire(a, b);
    const echo = asks(a, '192.0.2.1', '192.0.2.2');
    inside(
      a,
      'nft',
      'add table inet mute; add chain inet mute out { type filter hook output priority 0; }; add rule inet mute out icmp type echo-request drop',
    );
    try {
      expect(await echo.ask(100, patienceMs, never)).toBe('silent');
    } finally {
      echo.close();
    }
  });
});

it('reports a missing route, and ends with its signal', async () => {
  await withNamespaces(2, async (a, b) => {
    wire(a, b);
    expect(errnoOf(failureOf(() => asks(a, '192.0.2.1', '198.51.100.1')))).toBe('ENETUNREACH');
    expect(errnoOf(failureOf(() => asks(a, '192.0.2.77', '192.0.2.2')))).toBe('EADDRNOTAVAIL');
    const echo = asks(a, '192.0.2.1', '192.0.2.3');
    await expect(echo.ask(100, 60_000, AbortSignal.timeout(50))).rejects.toMatchObject({ code: 'CANCELLED' });
    echo.close();
  });
});
