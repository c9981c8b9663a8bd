import { describe, expect, it, vi } from 'vitest';
import { exampleNode } from '../../../test/support/example-node.ts';
import { SeineError } from '../../base/errors/seine-error.ts';
import { silentLog } from '../../base/log/log.ts';
import type { WireGuardEntry, WireGuardKey } from '../../dataplane/targets/wireguard/wireguard-entry.ts';
import { wantedDevice } from '../../dataplane/targets/wireguard/wireguard-entry.ts';
import { wireGuardKeyAnnotation, wireGuardNextKeyAnnotation } from '../../kubernetes/resources/node-annotations.ts';
import type { WireGuardPeer } from '../../netlink/wireguard/wireguard.ts';
import { WireGuardPrivateKey } from '../../netlink/wireguard/wireguard-key.ts';
import { OwnAnnotations } from '../modes/own-annotations.ts';
import type { NodeKeys } from './key-file.ts';
import { NodeEncryption } from './node-encryption.ts';
import { nextKeyText } from './rotation.ts';

const wireGuardOf = (unencryptedPeers: 'drop' | 'allow') => ({ device: 'antrea-wg0', port: 51820, unencryptedPeers });
const current = WireGuardPrivateKey.generate();

interface Before {
  readonly isEnabled: boolean;
  readonly keys?: NodeKeys;
  readonly device?: boolean;
  readonly unencryptedPeers?: 'drop' | 'allow';
  /** Number of writes of the key file, and of the table against cleartext, that fail first. */
  readonly failures?: { readonly writes?: number; readonly tables?: number };
}

/** Node with a clock that the test moves, an API server that accepts every annotation, and a device that accepts every change. */
async function nodeWith({ isEnabled, keys, device = false, unencryptedPeers = 'drop', failures = {} }: Before) {
  const inDevice: WireGuardPeer[] = [];
  let failedWrites = 0;
  let refusedTables = failures.tables ?? 0;
  let stored = keys;
  let time = 1_000_000;
  let annotations: Record<string, string> = {};
  const listeners = new Set<() => void>();
  const order: string[] = [];
  const wanted = new Map<WireGuardKey, WireGuardEntry>();
  const observed = new Map<WireGuardKey, WireGuardEntry>(device ? [['device', wantedDevice(current, 51820, 1390)]] : []);
  const encryption = await NodeEncryption.open({
    isEnabled,
    file: {
      exists: () => stored !== undefined,
      open: async () => (stored ??= { current }),
      write: async (next) => {
        if (failedWrites < (failures.writes ?? 0)) {
          failedWrites++;
          throw new SeineError('UNAVAILABLE', 'no space left on device');
        }
        order.push(`file ${next.current.publicKey === current.publicKey ? 'old' : 'new'}`);
        stored = next;
      },
    },
    observe: async () => observed,
    read: async () => ({ publicKey: undefined, listenPort: 51820, peers: inDevice }),
    now: () => time,
    monotonic: () => time,
  });
  const own = new OwnAnnotations({
    present: () => annotations,
    write: async (changed) => {
      order.push(`annotations ${Object.keys(changed).length}`);
      annotations = Object.fromEntries(
        Object.entries({ ...annotations, ...changed }).flatMap(([key, value]) => (value === null ? [] : [[key, value]])),
      );
      for (const listener of listeners) listener();
    },
    subscribe: (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    log: silentLog,
    pauses: { first: 1, most: 1 },
    now: () => time,
  });
  const done = () => Promise.resolve();
  const acceptTable = async (): Promise<void> => {
    order.push('table');
    if (refusedTables-- > 0) throw new SeineError('REFUSED', 'no such file');
  };
  const calls = { modesChanged: vi.fn(), keysChanged: vi.fn(), deviceReady: () => void order.push('settings'), ended: vi.fn() };
  encryption.use({
    nodeState: {
      wantWireGuard: (_: unknown, entries: ReadonlyMap<WireGuardKey, WireGuardEntry>) => {
        const entry = entries.get('device');
        if (entry?.kind === 'device' && wanted.get('device') !== entry) order.push('device');
        wanted.clear();
        for (const [key, value] of entries) wanted.set(key, value);
        return 0;
      },
      reconcilers: { firewall: { realizedFor: acceptTable }, wireguard: { realizedFor: done } },
      firewall: { revision: 0 },
      wireguard: { revision: 0 },
    } as never,
    environment: () => ({
      ...exampleNode,
      wireGuard: { ...wireGuardOf(unencryptedPeers), ...(isEnabled ? {} : { isEnding: true as const }) },
    }),
    annotations: own,
    log: silentLog,
    ...calls,
  });
  const stop = new AbortController();
  const running = Promise.all([encryption.run(stop.signal), own.run(stop.signal)]);
  return {
    encryption,
    calls,
    order,
    inDevice,
    annotations: () => annotations,
    stored: () => stored,
    failedWrites: () => failedWrites,
    device: () => wanted.get('device'),
    advance: (ms: number) => {
      time += ms;
      encryption.check();
    },
    end: async () => {
      stop.abort();
      await running;
    },
  };
}

describe('encryption of a node', () => {
  it('announces its key after the table against cleartext and the device with its settings are there', async () => {
    const node = await nodeWith({ isEnabled: true });
    await vi.waitFor(() => expect(node.annotations()).toEqual({ [wireGuardKeyAnnotation]: current.publicKey }));
    expect(node.order.slice(0, 4)).toEqual(['table', 'device', 'settings', 'annotations 1']);
    await node.end();
  });

  it('selects the modes of peers again when they are established', async () => {
    const node = await nodeWith({ isEnabled: true });
    const peer = { name: 'n2', podCidrs: [], transport: {}, addresses: [], wireGuardKey: WireGuardPrivateKey.generate().publicKey };
    await vi.waitFor(() => expect(node.annotations()).toEqual({ [wireGuardKeyAnnotation]: current.publicKey }));
    node.calls.modesChanged.mockClear();
    node.encryption.peers.note('n2', peer);
    await vi.waitFor(() => expect(node.calls.modesChanged).toHaveBeenCalled()); // a timer is set for the peer
    expect(node.encryption.peers.of('n2').state).toBe('establishing');
    node.calls.modesChanged.mockClear();
    node.advance(2_000);
    await vi.waitFor(() => expect(node.calls.modesChanged).toHaveBeenCalled());
    expect(node.encryption.peers.of('n2').state).toBe('encrypted');
    await node.end();
  });

  it('reads the device until it shows a handshake with a peer, and selects the modes of peers again', async () => {
    const node = await nodeWith({ isEnabled: true, unencryptedPeers: 'allow' });
    await vi.waitFor(() => expect(node.annotations()).toEqual({ [wireGuardKeyAnnotation]: current.publicKey }));
    const { publicKey } = WireGuardPrivateKey.generate();
    node.encryption.peers.note('n2', { name: 'n2', podCidrs: [], transport: {}, addresses: [], wireGuardKey: publicKey });
    node.advance(2_000);
    await vi.waitFor(() => expect(node.encryption.peers.awaitsHandshakes()).toBe(true));
    expect(node.encryption.peers.of('n2').state).toBe('establishing');
    node.calls.modesChanged.mockImplementation(() => node.encryption.peers.of('n2'));
    const counters = { keepaliveSeconds: 25, handshakeAt: 1, receivedBytes: 0, sentBytes: 0 };
    node.inDevice.push({ publicKey, endpoint: undefined, allowedNetworks: [], ...counters });
    await vi.waitFor(() => expect(node.encryption.peers.of('n2').state).toBe('encrypted')); // by its own timer
    await node.end();
  });

  it('changes its key after it has announced the new one, peers first', async () => {
    const node = await nodeWith({ isEnabled: true, keys: { current }, device: true });
    const at = await node.encryption.rotate();
    expect(await node.encryption.rotate()).toBe(at);
    const next = node.stored()?.next;
    await vi.waitFor(() => expect(node.annotations()[wireGuardNextKeyAnnotation]).toBe(next && nextKeyText(next)));
    expect(node.encryption.publicKey).toBe(current.publicKey);
    node.advance(30_000);
    await vi.waitFor(() => expect(node.calls.modesChanged).toHaveBeenCalled());
    expect(node.encryption.publicKey).toBe(current.publicKey);
    node.advance(100);
    await vi.waitFor(() => expect(node.annotations()).toEqual({ [wireGuardKeyAnnotation]: next?.key.publicKey }));
    expect(node.stored()).toEqual({ current: next?.key });
    expect(node.device()).toMatchObject({ publicKey: next?.key.publicKey });
    await node.end();
  });

  it('announces nothing while the node refuses the table against cleartext, and tries again', async () => {
    const node = await nodeWith({ isEnabled: true, failures: { tables: 2 } });
    await vi.waitFor(() => expect(node.order).toEqual(['table']));
    expect([node.device(), node.annotations()]).toEqual([undefined, {}]);
    node.encryption.check();
    await vi.waitFor(() => expect(node.order).toEqual(['table', 'table']));
    expect([node.device(), node.annotations()]).toEqual([undefined, {}]);
    node.encryption.check();
    await vi.waitFor(() => expect(node.annotations()).toEqual({ [wireGuardKeyAnnotation]: current.publicKey }));
    await node.end();
  });

  it('keeps its key while the new one cannot be stored, and changes it later', async () => {
    const next = { key: WireGuardPrivateKey.generate(), at: 1_000_000 };
    const node = await nodeWith({ isEnabled: true, keys: { current, next }, device: true, failures: { writes: 1 } });
    await vi.waitFor(() => expect(node.annotations()[wireGuardNextKeyAnnotation]).toBe(nextKeyText(next)));
    node.advance(200);
    await vi.waitFor(() => expect(node.failedWrites()).toBe(1));
    expect(node.encryption.publicKey).toBe(current.publicKey);
    node.encryption.check();
    await vi.waitFor(() => expect(node.encryption.publicKey).toBe(next.key.publicKey));
    await node.end();
  });

  it('ends only after its key has not been announced for some time', async () => {
    const node = await nodeWith({ isEnabled: false, keys: { current }, device: true });
    expect(node.encryption.isEnding).toBe(true);
    await vi.waitFor(() => expect(node.device()).toBeDefined());
    node.advance(9_999);
    expect([node.calls.ended.mock.calls.length, node.device() !== undefined]).toEqual([0, true]);
    node.advance(2);
    await vi.waitFor(() => expect(node.calls.ended).toHaveBeenCalledOnce());
    expect([node.encryption.isEnding, node.device()]).toEqual([false, undefined]);
    await node.end();
  });

  it('wants no device and writes nothing where it was never on', async () => {
    const node = await nodeWith({ isEnabled: false });
    expect([node.encryption.isEnding, node.device(), node.order, node.stored()]).toEqual([false, undefined, [], undefined]);
    await expect(node.encryption.rotate()).rejects.toThrow('trafficEncryptionMode is not wireGuard');
    await node.end();
  });
});
