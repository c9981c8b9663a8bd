import { expect, it, vi } from 'vitest';
import { ifIndex } from '../../src/netlink/interface-name.ts';
import { FrameTap } from '../../src/netlink/packets/frame-tap.ts';
import { inside, ip, withNamespaces } from './netlink-fixture.ts';

it('truncates long frames, and continues after the interface was down', async () => {
  await withNamespaces(2, async (a, b) => {
    ip(a, 'link', 'add', 'w0', 'mtu', '9000', 'type', 'veth', 'peer', 'name', 'w0', 'mtu', '9000', 'netns', b.name);
    for (const [lab, last] of [
      [a, 1],
      [b, 2],
    ] as const) {
      ip(lab, 'addr', 'add', `192.0.2.${last}/24`, 'dev', 'w0');
      ip(lab, 'link', 'set', 'w0', 'up');
    }
    const lengths: number[] = [];
    const whole: number[] = [];
    const seen = (frame: Uint8Array, bytes: number): void => {
      lengths.push(frame.length);
      whole.push(bytes);
    };
    const index = ifIndex(Number(ip(a, 'link', 'show', 'w0')[0]?.['ifindex']));
    const tap = a.namespace.run(() => FrameTap.open(index, seen));
    const ping = (bytes: number) => inside(b, 'ping', '-c1', '-W2', '-s', String(bytes - 28), '192.0.2.1');
    try {
      ping(5_000);
      // The echo and its answer.
      await vi.waitFor(() => expect(lengths.filter((length) => length === 2_048)).toHaveLength(2));
      expect(whole.filter((length) => length === 5_014)).toHaveLength(2);
      ip(a, 'link', 'set', 'w0', 'down');
      ip(a, 'link', 'set', 'w0', 'up');
      lengths.length = 0;
      ping(1_000);
      await vi.waitFor(() => expect(lengths.filter((length) => length === 1_014)).toHaveLength(2));
    } finally {
      tap.close();
    }
  });
});
