import { createServer } from 'node:http';
import { afterEach, describe, expect, it } from 'vitest';
import { lookForKubeProxy } from '../../src/agent/proxy/kube-proxy.ts';
import { Nftables } from '../../src/netlink/nftables.ts';
import { withNamespaces } from './netlink-fixture.ts';

const signal = new AbortController().signal;

function looking(commands: string) {
  return withNamespaces(1, async ({ namespace }) => {
    const nftables = Nftables.open(namespace);
    try {
      if (commands !== '') nftables.run(commands);
      return await lookForKubeProxy(nftables, signal);
    } finally {
      nftables.close();
    }
  });
}

describe('a kube-proxy', () => {
  it('is not there where nothing of it is', async () => {
    expect(await looking('table ip other {\n}\n')).toEqual({ rules: [], alive: false });
  });
  it('is known by its tables of nftables', async () => {
    expect(await looking('table ip kube-proxy {\n}\ntable ip6 kube-proxy {\n}\n')).toMatchObject({
      rules: ['nftables table ip kube-proxy', 'nftables table ip6 kube-proxy'],
    });
  });
  it('is known by the canary among its chains of iptables', async () => {
    expect(await looking('table ip mangle {\n chain KUBE-PROXY-CANARY {\n }\n}\n')).toMatchObject({
      rules: ['iptables chain KUBE-PROXY-CANARY'],
    });
  });

  describe('that answers on its health address', () => {
    const servers: ReturnType<typeof createServer>[] = [];
    afterEach(() => Promise.all(servers.splice(0).map((server) => new Promise((resolve) => server.close(resolve)))));

    async function serve(body: string): Promise<void> {
      const server = createServer((_, response) => response.end(body));
      servers.push(server);
      await new Promise<void>((resolve) => server.listen(10_256, '127.0.0.1', () => resolve()));
    }

    it('is known by what it says', async () => {
      await serve('{"lastUpdated": "2026-01-01 00:00:00","currentTime": "2026-01-01 00:00:01", "nodeEligible": true}');
      expect(await looking('')).toEqual({ rules: [], alive: true });
    });
    it('is not taken for somebody else, however long he talks', async () => {
      await serve('x'.repeat(100_000));
      expect(await looking('')).toEqual({ rules: [], alive: false });
    });
  });
});
