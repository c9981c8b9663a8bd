import { setImmediate as nextTurn } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { parseIp } from '../../base/net/ip.ts';
import { ListenerReads } from './listener-reads.ts';
import type { ListeningSocket } from './listening-sockets.ts';

const at = (text: string): ListeningSocket => ({ family: 'ipv4', address: parseIp(text), isIpv6Only: false, user: 0, backlog: 1 });
const sockets = new Map(Array.from({ length: 5_000 }, (_, port) => [port, [at(`10.0.${port >> 8}.${port & 255}`)]] as const));

it('answers for thousands of ports in one turn with few requests, and as for single ones', async () => {
  let requests = 0;
  const reads = new ListenerReads({
    ofPort: (_, port) => {
      requests++;
      return sockets.get(port) ?? [];
    },
    ofAll: () => {
      requests++;
      return sockets;
    },
  });
  for (let turn = 1; turn <= 2; turn++) {
    for (const transport of ['tcp', 'udp'] as const)
      for (let port = 0; port < 5_001; port++) expect(reads.on(transport, port)).toEqual(sockets.get(port) ?? []);
    expect(requests).toBeLessThanOrEqual(turn * 10);
    await nextTurn();
    await nextTurn();
  }
});
