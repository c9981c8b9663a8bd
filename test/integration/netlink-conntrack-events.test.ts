import { execFileSync } from 'node:child_process';
import { expect, it } from 'vitest';
import { ConntrackEvents, type EndedConnection } from '../../src/netlink/conntrack.ts';
import { Nftables } from '../../src/netlink/nftables/nftables.ts';
import { writeSysctl } from '../../src/netlink/sysctl.ts';
import { withNamespaces } from './netlink-fixture.ts';

const TCP = 6;

it('reports connections that end, with mark, translated end, counters and times', () =>
  withNamespaces(1, async ({ name, path, namespace }) => {
    const nftables = Nftables.open(namespace);
    const ended: EndedConnection[] = [];
    namespace.run(() => {
      for (const parameter of ['nf_conntrack_acct', 'nf_conntrack_timestamp']) writeSysctl(['net', 'netfilter', parameter], 1);
    });
    const events = ConntrackEvents.open({ namespace }, (each) => void (each === 'overrun' || ended.push(each)));
    try {
      execFileSync('ip', ['-n', name, 'link', 'set', 'lo', 'up']);
      nftables.run(`table inet t {
        chain o { type nat hook output priority -100;
          ip daddr 127.0.0.9 tcp dport 80 dnat ip to 127.0.0.1:8080
        }
        chain f { type filter hook output priority 0;
          tcp dport 8080 ct mark set 0x13
        }
      }`);
      const startMs = Date.now();
      // 1,000 bytes out, 500 back; then both ends close, and conntrack is emptied.
      const code = `const net = require('net');
        const server = net.createServer((socket) => socket.on('data', () => {}).on('end', () => socket.end(Buffer.alloc(500))));
        server.listen(8080, '127.0.0.1', () => net.connect(80, '127.0.0.9').on('data', () => {}).on('close', () => process.exit()).end(Buffer.alloc(1000)));`;
      execFileSync('nsenter', [`--net=${path}`, process.execPath, '-e', code]);
      execFileSync('nsenter', [`--net=${path}`, 'conntrack', '-F'], { stdio: 'ignore' });
      await expect.poll(() => ended.filter(({ ipProtocol }) => ipProtocol === TCP).length).toBe(1);
      const [connection] = ended.filter(({ ipProtocol }) => ipProtocol === TCP);
      expect(connection).toMatchObject({
        mark: 0x13,
        original: { dst: { text: '127.0.0.9' }, dstPort: 80 },
        reply: { src: { text: '127.0.0.1' }, srcPort: 8080 },
      });
      // Payload, and headers of 40 to 60 bytes a packet.
      const { packets, bytes, startedMs = 0, removedMs = 0 } = connection ?? {};
      expect(bytes?.out).toBeGreaterThanOrEqual(1_000 + 40 * (packets?.out ?? 0));
      expect(bytes?.out).toBeLessThanOrEqual(1_000 + 60 * (packets?.out ?? 0));
      expect(bytes?.in).toBeGreaterThanOrEqual(500 + 40 * (packets?.in ?? 0));
      expect(startedMs).toBeGreaterThanOrEqual(startMs - 10);
      expect(removedMs).toBeGreaterThan(startedMs);
    } finally {
      events.close();
      nftables.close();
    }
  }));
