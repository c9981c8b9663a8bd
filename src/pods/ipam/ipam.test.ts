import { describe, expect, it } from 'vitest';
import { silentLog } from '../../base/log/log.ts';
import { cidrAddress, parseCidr, parseIp } from '../../base/net/ip.ts';
import { type Mac, parseMac } from '../../base/net/mac.ts';
import { Ipam } from './ipam.ts';
import { decodeJournal } from './journal-records.ts';
import type { Lease, LeaseRequest } from './lease.ts';
import { MemoryJournalStore, type WriteOutcome } from './testing/memory-journal-store.ts';

const never = new AbortController().signal;
const attached = { hostIfName: 'web-1', hostMac: '02:00:00:00:00:01' as Mac, mtu: 1450 };

function request(containerId: string, extra: Partial<LeaseRequest> = {}): LeaseRequest {
  return { network: 'n', containerId, ifName: 'eth0', netns: `/run/netns/${containerId}`, addresses: [], ...extra };
}

const poolsOf = (...texts: readonly string[]) => texts.map(parseCidr).map((cidr) => ({ cidr, gateway: cidrAddress(cidr, 1n) }));

interface Opened {
  readonly store?: MemoryJournalStore;
  readonly pools?: readonly string[];
  readonly isAbsent?: (lease: Lease) => boolean;
  readonly bootId?: string;
}

async function open({
  store = new MemoryJournalStore(),
  pools = ['10.1.0.0/29', 'fd00::/64'],
  isAbsent = () => false,
  bootId = 'b',
}: Opened = {}) {
  const ipam = await Ipam.open({ store, pools: poolsOf(...pools), bootId, isAbsent: async (lease) => isAbsent(lease), log: silentLog });
  return { ipam, store };
}

/** Allocates a lease, and waits until it is durable. */
async function lend(ipam: Ipam, wanted: LeaseRequest, signal: AbortSignal): Promise<Lease> {
  const { lease, durable } = await ipam.allocate(wanted, signal);
  await durable;
  return lease;
}

const ipsOf = ({ addresses }: Lease) => addresses.map(({ ip }) => ip.text);

describe('IPAM', () => {
  it('allocates an address of each family, with prefix and gateway', async () => {
    const { ipam } = await open();
    const lease = await lend(ipam, request('a'), never);
    expect(lease.addresses.map(({ ip, prefixLength, gateway }) => [ip.text, prefixLength, gateway.text])).toEqual([
      ['10.1.0.2', 29, '10.1.0.1'],
      ['fd00::2', 64, 'fd00::1'],
    ]);
    expect(ipam.leaseOf(request('a'))).toEqual(lease);
    expect(ipam.usage()).toMatchObject([{ cidr: '10.1.0.0/29', size: 5, allocated: 1, quarantined: 0 }, {}]);
  });

  it('keeps confirmed and released leases immediately when only the agent dies', async () => {
    const { ipam, store } = await open();
    for (const id of ['a', 'b']) await lend(ipam, request(id), never);
    ipam.confirm(request('a'), attached);
    ipam.release(request('b'));
    const left = new MemoryJournalStore(Uint8Array.from(store.content));
    const again = await open({ store: left });
    expect(again.ipam.leaseOf(request('a'))).toMatchObject({ attached });
    expect(again.ipam.leaseOf(request('b'))).toBeUndefined();
    expect(again.ipam.leases()).toHaveLength(2);
  });

  it('keeps them too when its journal is just being replaced', async () => {
    let fate: WriteOutcome = 'done';
    const store = new MemoryJournalStore(undefined, (step) => (step === 'append' ? fate : 'done'));
    const { ipam } = await open({ store });
    await lend(ipam, request('a'), never);
    const replace = store.replace.bind(store);
    let go = (): void => {};
    store.replace = async (bytes) => {
      await new Promise<void>((resolve) => (go = resolve));
      await replace(bytes);
    };
    fate = 'failed'; // only a replacement can succeed
    const allocating = lend(ipam, request('c'), never);
    await new Promise((resolve) => setImmediate(resolve));
    ipam.confirm(request('a'), attached);
    const handedOver = ipam.handedOver();
    fate = 'done';
    go();
    await handedOver;
    await allocating;
    const again = await open({ store: new MemoryJournalStore(Uint8Array.from(store.content)) });
    expect(again.ipam.leaseOf(request('a'))).toMatchObject({ attached });
  });

  it('restores everything after a restart', async () => {
    const { ipam, store } = await open();
    const hostPorts = [
      { transport: 'tcp' as const, hostPort: 80, containerPort: 8_080 },
      { transport: 'udp' as const, hostPort: 53, containerPort: 53, hostIp: parseIp('::') },
    ];
    const limits = { egress: { rate: 1, burst: 2 }, ingress: { rate: 3, burst: 4 }, limits: 'both' as const };
    await lend(ipam, request('a', { pod: { namespace: 'ns', name: 'web', uid: 'u' }, hostPorts, ...limits }), never);
    ipam.confirm(request('a'), attached);
    await lend(ipam, request('b', { addresses: [parseIp('fd00::77')] }), never);
    await lend(ipam, request('c'), never);
    ipam.release(request('c'));
    await ipam.close();
    const again = await open({ store });
    expect(again.ipam.leases()).toEqual(ipam.leases());
    expect(again.ipam.leaseOf(request('a'))).toMatchObject({
      attached,
      pod: { namespace: 'ns', name: 'web', uid: 'u' },
      hostPorts,
      ...limits,
    });
    expect(again.ipam.rebooted).toBe(false);
    expect(ipsOf(await lend(again.ipam, request('d'), never))).toEqual(['10.1.0.5', 'fd00::4']);
  });

  it('detects that the host was rebooted', async () => {
    const { store } = await open({ bootId: 'first' });
    expect((await open({ store, bootId: 'second' })).ipam.rebooted).toBe(true);
  });

  it('allocates a released address to no pod until its absence is proven', async () => {
    const gone = new Set<string>();
    const { ipam } = await open({ isAbsent: ({ containerId }) => gone.has(containerId) });
    for (const id of ['a', 'b', 'c', 'd', 'e']) await lend(ipam, request(id), never);
    ipam.release(request('b'));
    await expect(lend(ipam, request('f'), never)).rejects.toMatchObject({
      code: 'REFUSED',
      message: expect.stringContaining('no address is left in 10.1.0.0/29'),
    });
    expect(ipam.usage()[0]).toMatchObject({ allocated: 4, quarantined: 1 });
    gone.add('b');
    expect(ipsOf(await lend(ipam, request('f'), never))[0]).toBe('10.1.0.3');
  });

  it('allocates in no family if one is exhausted', async () => {
    const { ipam } = await open({ pools: ['10.1.0.0/30', 'fd00::/64'] });
    await lend(ipam, request('a'), never);
    await expect(lend(ipam, request('b'), never)).rejects.toMatchObject({ code: 'REFUSED' });
    expect(ipam.usage()).toMatchObject([{ allocated: 1 }, { allocated: 1 }]);
    expect(ipam.leaseOf(request('b'))).toBeUndefined();
  });

  it('allocates a requested address, once', async () => {
    const { ipam } = await open();
    const addresses = [parseIp('10.1.0.5')];
    expect(ipsOf(await lend(ipam, request('a', { addresses }), never))).toEqual(['10.1.0.5', 'fd00::2']);
    await expect(lend(ipam, request('b', { addresses }), never)).rejects.toMatchObject({
      code: 'REFUSED',
      message: expect.stringContaining('10.1.0.5 is in use'),
    });
    for (const text of ['10.1.0.1', '10.1.0.7', '10.2.0.5'])
      await expect(lend(ipam, request('b', { addresses: [parseIp(text)] }), never)).rejects.toMatchObject({ code: 'INVALID_INPUT' });
    const two = ['10.1.0.3', '10.1.0.4'].map(parseIp);
    await expect(lend(ipam, request('b', { addresses: two }), never)).rejects.toThrow('more than one ipv4 address');
    expect(ipam.leases()).toHaveLength(1);
  });

  it('allocates it to the next request, as soon as it is proven absent', async () => {
    const { ipam } = await open({ isAbsent: () => true });
    const addresses = [parseIp('10.1.0.5')];
    await lend(ipam, request('a', { addresses }), never);
    ipam.release(request('a'));
    expect(ipsOf(await lend(ipam, request('b', { addresses }), never))[0]).toBe('10.1.0.5');
  });

  it('leases the same container again while its old lease is in quarantine', async () => {
    const { ipam } = await open();
    const first = await lend(ipam, request('a'), never);
    ipam.release(request('a'));
    const second = await lend(ipam, request('a'), never);
    expect(ipsOf(second)).not.toEqual(ipsOf(first));
    expect(second.mac).toBe(first.mac);
    await expect(lend(ipam, request('a'), never)).rejects.toMatchObject({ code: 'REFUSED' });
  });

  it('assigns a stable, local, unicast MAC, or the requested one', async () => {
    const { ipam } = await open();
    const { mac } = await lend(ipam, request('a'), never);
    expect(Number.parseInt(mac.slice(0, 2), 16) & 3).toBe(2);
    expect((await lend((await open()).ipam, request('a'), never)).mac).toBe(mac);
    const wanted = parseMac('0a:58:0a:01:00:05');
    expect((await lend(ipam, request('b', { mac: wanted }), never)).mac).toBe(wanted);
    await expect(lend(ipam, request('c', { mac: wanted }), never)).rejects.toMatchObject({ code: 'REFUSED' });
    await expect(lend(ipam, request('c', { mac: parseMac('01:00:5e:00:00:01') }), never)).rejects.toMatchObject({
      code: 'INVALID_INPUT',
    });
  });

  it('writes the leases of one moment together', async () => {
    const { ipam, store } = await open({ pools: ['10.1.0.0/24'] });
    await Promise.all(Array.from({ length: 64 }, (_, index) => lend(ipam, request(`c${index}`), never)));
    expect(store.syncs).toBeLessThanOrEqual(2);
    expect(new Set(ipam.leases().flatMap(ipsOf)).size).toBe(64);
  });

  it('allocates nothing that it cannot write, and recovers by itself', async () => {
    let fate: WriteOutcome = 'done';
    const store = new MemoryJournalStore(
      new Uint8Array(),
      () => fate,
      (below) => below - 1,
    );
    const { ipam } = await open({ store });
    await lend(ipam, request('a'), never);
    fate = 'failed';
    await expect(lend(ipam, request('b'), never)).rejects.toMatchObject({ code: 'UNAVAILABLE' });
    expect(ipam.failure).toMatchObject({ code: 'UNAVAILABLE' });
    ipam.release(request('a'));
    fate = 'done';
    const lease = await lend(ipam, request('c'), never);
    expect(ipam.failure).toBeUndefined();
    const again = await open({ store: new MemoryJournalStore(store.content) });
    expect(again.ipam.leases().map(({ containerId, state }) => [containerId, state])).toEqual([
      ['a', 'quarantined'],
      ['c', 'allocated'],
    ]);
    expect(again.ipam.leaseOf(request('c'))).toEqual(lease);
  });

  it('detects by itself that the disk can be written again: a runtime sends no pod after a negative STATUS', async () => {
    let fate: WriteOutcome = 'done';
    const store = new MemoryJournalStore(new Uint8Array(), () => fate);
    const { ipam } = await open({ store });
    fate = 'failed';
    await expect(lend(ipam, request('a'), never)).rejects.toMatchObject({ code: 'UNAVAILABLE' });
    await ipam.retryJournal();
    expect(ipam.failure).toMatchObject({ code: 'UNAVAILABLE' });
    fate = 'done';
    await ipam.retryJournal();
    expect(ipam.failure).toBeUndefined();
  });

  it('opens on a disk that cannot be written, and rejects new leases only', async () => {
    const { ipam, store } = await open();
    await lend(ipam, request('a'), never);
    const { ipam: readOnly } = await open({ store: new MemoryJournalStore(store.content, () => 'failed') });
    expect(readOnly.leaseOf(request('a'))).toBeDefined();
    await expect(lend(readOnly, request('b'), never)).rejects.toMatchObject({ code: 'UNAVAILABLE' });
  });

  it('stops when the caller gives up, and keeps nothing for it', async () => {
    const { ipam } = await open();
    const controller = new AbortController();
    const waiting = lend(ipam, request('a'), controller.signal);
    controller.abort();
    await expect(waiting).rejects.toMatchObject({ code: 'CANCELLED' });
    expect(ipam.leases()).toEqual([]);
  });

  it('keeps leases of a pod CIDR that is no longer the node’s', async () => {
    const { ipam } = await open({ pools: ['10.1.0.0/29'] });
    await lend(ipam, request('a'), never);
    ipam.setPools(poolsOf('10.2.0.0/29'));
    expect(ipsOf(await lend(ipam, request('b'), never))).toEqual(['10.2.0.2']);
    expect(ipam.leaseOf(request('a'))).toBeDefined();
    ipam.setPools(poolsOf('10.1.0.0/29'));
    expect(ipsOf(await lend(ipam, request('c'), never))).toEqual(['10.1.0.3']);
  });

  it('adopts attachments found on the node, unless the address is another pod’s', async () => {
    const { ipam } = await open();
    const { serial, state, ...found } = await lend(ipam, request('a'), never);
    expect([serial, state]).toEqual([1, 'allocated']);
    await ipam.adopt(found);
    expect(ipsOf(await lend(ipam, request('b'), never))).toEqual(['10.1.0.3', 'fd00::3']);
    await expect(ipam.adopt({ ...found, containerId: 'x' })).rejects.toMatchObject({ code: 'REFUSED' });
  });

  it('never calls an unwritten lease adopted, however often it is reported', async () => {
    const { serial, state, ...found } = await lend((await open()).ipam, request('a'), never);
    expect([serial, state]).toEqual([1, 'allocated']);
    let fate: WriteOutcome = 'done';
    const store = new MemoryJournalStore(new Uint8Array(), () => fate);
    const { ipam } = await open({ store });
    fate = 'failed';
    for (let time = 0; time < 2; time++) await expect(ipam.adopt(found)).rejects.toMatchObject({ code: 'UNAVAILABLE' });
    fate = 'done';
    const lease = await ipam.adopt(found);
    const again = await open({ store: new MemoryJournalStore(store.content) });
    expect(again.ipam.leaseOf(request('a'))).toEqual(lease);
    fate = 'failed';
    expect(await ipam.adopt(found)).toEqual(lease); // there is nothing left to be written
  });
});

describe('the journal', () => {
  async function written(): Promise<string> {
    const { ipam, store } = await open();
    for (const id of ['a', 'b', 'c']) await lend(ipam, request(id), never);
    await ipam.close();
    return Buffer.from(store.content).toString('utf8');
  }

  it('is read up to the last complete record wherever it was truncated', async () => {
    const text = await written();
    const whole = [...text.matchAll(/\n/g)].map(({ index }) => index + 1);
    for (let cut = 0; cut < text.length; cut++) {
      const { records, torn, damaged } = decodeJournal(text.slice(0, cut));
      expect(records).toHaveLength(whole.filter((end) => end <= cut).length);
      expect({ torn, damaged }).toEqual({ torn: cut > 0 && !whole.includes(cut), damaged: 0 });
    }
  });

  it('detects any changed byte in the middle', async () => {
    const bytes = Buffer.from(await written());
    const lastLine = bytes.lastIndexOf(0x0a, bytes.length - 2) + 1;
    for (let at = 0; at < lastLine - 1; at += 7) {
      const changed = Buffer.from(bytes);
      changed[at] = (changed[at] ?? 0) ^ 0x04;
      const { records, damaged } = decodeJournal(changed.toString('utf8'));
      expect(damaged, `byte ${at}`).toBeGreaterThan(0);
      expect(records.length).toBeLessThan(4);
    }
  });

  it('of a newer format stops the agent', async () => {
    const { store } = await open();
    const newer = Buffer.from(store.content).toString('utf8').replace('"v":1', '"v":2').slice(9);
    const { crc32 } = await import('node:zlib');
    const line = `${crc32(newer.trimEnd()).toString(16).padStart(8, '0')} ${newer}`;
    await expect(open({ store: new MemoryJournalStore(Buffer.from(line)) })).rejects.toThrow('format 2');
  });

  it('stays small however long the agent runs', async () => {
    const { ipam, store } = await open({ isAbsent: () => true });
    for (let round = 0; round < 3000; round++) {
      await lend(ipam, request(`c${round}`), never);
      ipam.release(request(`c${round}`));
      await ipam.reclaim(never);
    }
    expect(store.replaces).toBeGreaterThan(1);
    expect(store.content.length).toBeLessThan(400 * 1024);
  });
});

describe('the journal, read back', () => {
  it('equals the state in memory, after any operations', async () => {
    const { ipam, store } = await open();
    for (const id of ['a', 'b', 'c']) await lend(ipam, request(id), never);
    ipam.confirm(request('a'), attached);
    ipam.release(request('b'));
    expect(await ipam.checkJournal()).toBeUndefined();
    expect(store.replaces).toBe(1);
  });

  it.each<[string, (text: string) => string]>([
    ['cut off', (text) => text.slice(0, text.lastIndexOf('\n', text.length - 2) + 1)],
    ['empty', () => ''],
    ['damaged in the middle', (text) => text.replace('"containerId":"a"', '"containerId":"x"')],
    ['of another node', () => '9bc5ac5c {"op":"open"}\n'],
    ['of a newer format', (text) => text.replace(/^.*\n/, '')],
  ])('is written again if it is %s', async (_, damage) => {
    const { ipam, store } = await open();
    for (const id of ['a', 'b']) await lend(ipam, request(id), never);
    store.content = Buffer.from(damage(Buffer.from(store.content).toString('utf8')));
    expect(await ipam.checkJournal()).toMatch(/^it (was damaged|does not match|could not be read)/);
    expect(await ipam.checkJournal()).toBeUndefined();
    const again = await open({ store: new MemoryJournalStore(Uint8Array.from(store.content)) });
    expect(again.ipam.leases()).toEqual(ipam.leases());
  });

  it('is distinguished from one that cannot be written', async () => {
    let fate: WriteOutcome = 'done';
    const { ipam, store } = await open({ store: new MemoryJournalStore(undefined, () => fate) });
    await lend(ipam, request('a'), never);
    fate = 'failed';
    store.content = new Uint8Array();
    expect(await ipam.checkJournal()).toBeUndefined();
    expect(ipam.failure?.message).toContain('cannot be written');
  });
});
