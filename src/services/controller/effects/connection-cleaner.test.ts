import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it, vi } from 'vitest';
import { SeineError } from '../../../base/errors/seine-error.ts';
import { silentLog } from '../../../base/log/log.ts';
import { parseIp } from '../../../base/net/ip.ts';
import { type Owner, ownerOf } from '../../../dataplane/pipeline/cookie.ts';
import type { ServiceIntent } from '../../compile/service-intent.ts';
import type { ServiceChange } from '../service-changes.ts';
import { ConnectionCleaner } from './connection-cleaner.ts';
import { type StaleHostConnections, servedKey } from './stale-connections.ts';

const zone = 65_520;
const UDP = 17;
const cluster = { kind: 'cluster', ip: parseIp('10.96.0.10'), port: 53 } as const;
const [one, two] = [
  { ip: parseIp('10.10.0.5'), port: 5353 },
  { ip: parseIp('10.10.1.5'), port: 5353 },
];
const dns: ServiceIntent = {
  name: 'dns/ipv4',
  family: 'ipv4',
  transport: 'udp',
  port: 53,
  addresses: [cluster],
  internalPolicy: 'Cluster',
  externalPolicy: 'Cluster',
  translation: 'endpoint',
  sourceRanges: [],
  cluster: [one, two],
  local: [],
  anyEndpoint: true,
  objections: [],
};

function change(was: ServiceIntent | undefined, is: ServiceIntent | undefined, service = 'default/dns'): ServiceChange {
  const owner: Owner = ownerOf('service', `${service}:dns/ipv4`);
  const arrival = { atMs: 0, triggeredMs: [] };
  return { key: service, service: undefined, ports: [{ owner, was, is }], hasMore: false, occasion: 'news', arrival };
}

/** OVS and a node that fail the given number of times, and count the requests to delete. */
function scene({ bridgeFails = 0, answersLost = 0, hostFails = 0 } = {}) {
  const left = { bridgeFails, answersLost, hostFails };
  const stop = new AbortController();
  const sent: number[] = [];
  const sentMs: number[] = [];
  const forgotten: StaleHostConnections[] = [];
  const lost = () => new SeineError('UNAVAILABLE', 'connection lost');
  const bridge = {
    untilUp: async () => {},
    send: async (messages: readonly Uint8Array[]) => {
      if (left.bridgeFails-- > 0) throw lost();
      sent.push(messages.length);
      sentMs.push(performance.now());
    },
    barrier: async () => {
      if (left.answersLost-- > 0) throw lost();
    },
  };
  const host = {
    forget: (stale: readonly StaleHostConnections[]) => {
      if (left.hostFails-- > 0) throw new SeineError('REFUSED', 'EBUSY');
      forgotten.push(...stale);
      return stale.length;
    },
  };
  const cleaner = new ConnectionCleaner({ bridge, host, log: silentLog, signal: stop.signal });
  return { cleaner, sent, sentMs, forgotten, stop };
}

describe('a clean-up that fails', () => {
  it('is retried until OVS has accepted it', async () => {
    const { cleaner, sent, stop } = scene({ bridgeFails: 2 });
    cleaner.clean({ bridge: [{ zone, ipProtocol: UDP, address: cluster, endpoint: one }], host: [] }, Promise.resolve());
    await vi.waitFor(() => expect(sent.length).toBeGreaterThan(0), { timeout: 5_000 });
    expect(cleaner.counters.failures).toBe(2);
    await vi.waitFor(() => expect(cleaner.waiting).toBe(0), { timeout: 5_000 });
    stop.abort();
  });

  it('is made again after OVS has updated its cache, like one that does not fail', async () => {
    const { cleaner, sentMs, stop } = scene({ bridgeFails: 1 });
    const beginMs = performance.now();
    cleaner.clean({ bridge: [{ zone, ipProtocol: UDP, address: cluster, endpoint: one }], host: [] }, Promise.resolve());
    await vi.waitFor(() => expect(sentMs.length).toBeGreaterThan(0), { timeout: 5_000 });
    await vi.waitFor(() => expect(cleaner.waiting).toBe(0), { timeout: 5_000 });
    expect((sentMs.at(-1) ?? 0) - beginMs).toBeGreaterThanOrEqual(600);
    stop.abort();
  });

  it('is retried when its answer was lost', async () => {
    const { cleaner, sent, stop } = scene({ answersLost: 1 });
    cleaner.clean({ bridge: [{ zone, ipProtocol: UDP, address: cluster }], host: [] }, Promise.resolve());
    await vi.waitFor(() => expect(cleaner.counters.failures).toBe(1));
    await vi.waitFor(() => expect(cleaner.waiting).toBe(0), { timeout: 5_000 });
    expect(sent.length).toBeGreaterThan(1);
    stop.abort();
  });

  it('is retried in the node’s conntrack, and does not delay the bridge', async () => {
    const { cleaner, sent, forgotten, stop } = scene({ hostFails: 1 });
    const stale = { ipProtocol: UDP, address: cluster };
    cleaner.clean({ bridge: [{ ...stale, zone }], host: [stale] }, Promise.resolve());
    await vi.waitFor(() => expect(sent.length).toBeGreaterThan(0));
    await vi.waitFor(() => expect(forgotten.length).toBeGreaterThan(0), { timeout: 5_000 });
    expect(cleaner.counters.failures).toBe(1);
    stop.abort();
  });

  it('is given up once the endpoint serves again', async () => {
    const { cleaner, sent, stop } = scene({ bridgeFails: 1 });
    const gone = { ...dns, cluster: [two] };
    cleaner.changed(change(undefined, dns), new Promise(() => {}));
    cleaner.changed(change(dns, gone), Promise.resolve());
    await vi.waitFor(() => expect(cleaner.counters.failures).toBe(1));
    cleaner.changed(change(gone, dns), Promise.resolve());
    await vi.waitFor(() => expect(cleaner.waiting).toBe(0), { timeout: 5_000 });
    expect(sent).toEqual([]);
    stop.abort();
  });
});

it('a full queue is replaced by deletion by address, without loss', async () => {
  const { cleaner, stop } = scene({ bridgeFails: Number.POSITIVE_INFINITY });
  const endpoints = Array.from({ length: 30_000 }, (_, at) => ({
    ip: parseIp(`10.${10 + (at >> 16)}.${(at >> 8) & 255}.${at & 255}`),
    port: 1,
  }));
  const half = endpoints.length / 2;
  for (const part of [endpoints.slice(0, half), endpoints.slice(half)])
    cleaner.clean(
      { bridge: part.map((endpoint, at) => ({ zone, ipProtocol: UDP, address: { ...cluster, port: 1 + (at % 7) }, endpoint })), host: [] },
      Promise.resolve(),
    );
  await vi.waitFor(() => expect(cleaner.waiting).toBe(7));
  expect(cleaner.counters.merged).toBeGreaterThan(0);
  stop.abort();
});

describe('a cluster address of many ports', () => {
  const never = new Promise<void>(() => {});
  const ports = Array.from({ length: 250 }, (_, at) => ({ ...dns, name: `dns-${at}/ipv4`, addresses: [{ ...cluster, port: 1 + at }] }));
  const owner = ({ name }: ServiceIntent): Owner => ownerOf('service', `default/dns:${name}`);
  /** Changes all ports at once or in parts, as Services are compared. */
  const report = (
    cleaner: ConnectionCleaner,
    changed: readonly (readonly [was: ServiceIntent | undefined, is: ServiceIntent | undefined])[],
    done: Promise<void>,
  ): void => {
    for (let at = 0; at < changed.length; at += 100) {
      const part = changed.slice(at, at + 100).map(([was, is]) => ({ owner: owner((is ?? was) as ServiceIntent), was, is }));
      cleaner.changed({ ...change(undefined, undefined), ports: part, hasMore: at + 100 < changed.length }, done);
    }
  };
  /** All ports are served, and nothing is deleted for that. */
  const served = (): ReturnType<typeof scene> => {
    const made = scene();
    report(
      made.cleaner,
      ports.map((port) => [undefined, port]),
      never,
    );
    return made;
  };
  const requests = async ({ cleaner, sent, stop }: ReturnType<typeof scene>): Promise<number> => {
    await vi.waitFor(() => expect(cleaner.waiting).toBeGreaterThan(0));
    await vi.waitFor(() => expect(cleaner.waiting).toBe(0), { timeout: 20_000 });
    stop.abort();
    return sent.reduce((sum, count) => sum + count, 0);
  };

  it('gets few requests when it comes, and when it goes', { timeout: 30_000 }, async () => {
    const coming = scene();
    report(
      coming.cleaner,
      ports.map((port) => [undefined, port]),
      Promise.resolve(),
    );
    expect(await requests(coming)).toBeLessThanOrEqual(6);
    const going = served();
    report(
      going.cleaner,
      ports.map((port) => [port, undefined]),
      Promise.resolve(),
    );
    // The first pass has begun before it is known that no port remains.
    expect(await requests(going)).toBeLessThanOrEqual(20);
  });

  it('gets a request for each port while another is served', { timeout: 30_000 }, async () => {
    const going = served();
    report(
      going.cleaner,
      ports.slice(0, 40).map((port) => [port, undefined]),
      Promise.resolve(),
    );
    expect(await requests(going)).toBe(80);
  });
});

describe('served ports', () => {
  const never = new Promise<void>(() => {});
  const key = servedKey(UDP, cluster);

  it('exclude removed ones, although their Service is recreated', () => {
    const { cleaner } = scene();
    cleaner.changed(change(undefined, dns), never);
    expect(cleaner.served.get(key)).toBe(dns);
    cleaner.changed(change({ ...dns }, undefined), never);
    expect(cleaner.served.size).toBe(0);
  });

  it('keep one that took an address before its last owner was known to have left it', () => {
    const { cleaner } = scene();
    const taken = { ...dns, cluster: [two] };
    cleaner.changed(change(undefined, dns), never);
    cleaner.changed(change(undefined, taken, 'default/other'), never);
    cleaner.changed(change({ ...dns }, undefined), never);
    expect(cleaner.served.get(key)).toBe(taken);
  });
});

describe('many stale connections of one namespace', () => {
  /** OVS that takes time for each request, as in a queue with changes of flows. */
  function slowScene(eachMs: number) {
    const stop = new AbortController();
    const passes: string[][] = [];
    const bridge = {
      untilUp: async () => {},
      send: async (messages: readonly Uint8Array[]) => void passes.push(messages.map(addressIn)),
      barrier: () => sleep(eachMs * (passes.at(-1)?.length ?? 0)),
    };
    const cleaner = new ConnectionCleaner({ bridge, host: { forget: () => 0 }, log: silentLog, signal: stop.signal });
    return { cleaner, passes, stop };
  }
  /** IPv4 addresses are mapped: `::ffff:10.96.0.10`. */
  const addressIn = (message: Uint8Array): string => {
    const at = message.findIndex((byte, index) => byte === 0xff && message[index + 1] === 0xff);
    return message.subarray(at + 2, at + 6).join('.');
  };
  const remove = (cleaner: ConnectionCleaner, service: string, ip: string, count: number): void => {
    for (let port = 1; port <= count; port++)
      cleaner.changed(change({ ...dns, addresses: [{ kind: 'external', ip: parseIp(ip), port }] }, undefined, service), Promise.resolve());
  };

  const patience = { timeout: 20_000 };

  it('are deleted a few at a time, fewer while OVS is slow', patience, async () => {
    const { cleaner, passes, stop } = slowScene(6);
    remove(cleaner, 'tenant/large', '10.96.1.1', 20);
    await vi.waitFor(() => expect(passes.flat().length).toBeGreaterThanOrEqual(20), patience);
    await vi.waitFor(() => expect(cleaner.waiting).toBe(0), patience);
    stop.abort();
    expect(Math.max(...passes.map((pass) => pass.length))).toBeLessThanOrEqual(16);
    expect(passes.at(-1)?.length).toBeLessThanOrEqual(4);
  });

  it('are all deleted once before any of them is deleted again', patience, async () => {
    const { cleaner, passes, stop } = slowScene(6);
    const addresses = Array.from({ length: 24 }, (_, at) => ({ ...cluster, ip: parseIp(`10.96.2.${at}`) }));
    const stale = addresses.map((address) => ({ zone, ipProtocol: UDP, address, endpoint: one }));
    cleaner.clean({ bridge: stale, host: [] }, Promise.resolve(), 'tenant');
    await vi.waitFor(() => expect(passes.flat().length).toBeGreaterThanOrEqual(stale.length), patience);
    stop.abort();
    expect(new Set(passes.flat().slice(0, stale.length))).toEqual(new Set(addresses.map(({ ip }) => ip.text)));
  });

  it('do not delay those of another namespace', patience, async () => {
    const { cleaner, passes, stop } = slowScene(1);
    remove(cleaner, 'tenant/large', '10.96.1.1', 2_000);
    await vi.waitFor(() => expect(passes.length).toBeGreaterThan(2), patience);
    const before = passes.length;
    remove(cleaner, 'victim/dns', '10.96.0.10', 1);
    await vi.waitFor(() => expect(passes.flat()).toContain('10.96.0.10'), patience);
    stop.abort();
    expect(passes.findIndex((pass) => pass.includes('10.96.0.10'))).toBeLessThanOrEqual(before);
    expect(cleaner.waiting).toBeGreaterThan(1_000);
  });
});
