import { execFileSync } from 'node:child_process';
import { SeineError } from '../../src/base/errors/seine-error.ts';
import { parseCidr, parseIp } from '../../src/base/net/ip.ts';
import {
  peerKey,
  sameWireGuardEntry,
  type WireGuardEntry,
  type WireGuardKey,
  wantedDevice,
} from '../../src/dataplane/targets/wireguard/wireguard-entry.ts';
import { WireGuardTarget } from '../../src/dataplane/targets/wireguard/wireguard-target.ts';
import { NetworkNamespace } from '../../src/netlink/namespace.ts';
import type { WantedWireGuardPeer } from '../../src/netlink/wireguard/wireguard.ts';
import { WireGuardPrivateKey } from '../../src/netlink/wireguard/wireguard-key.ts';
import type { Specimen } from './target.ts';
import { joinedNamespaces, removeNamespaces, type UnderlayNamespace } from './wireguard-namespaces.ts';
import { socketFolder } from './wireguard-processes.ts';

/** Kind of WireGuard device: creates and ends devices of a namespace. */
export interface DeviceKind {
  /** Creates a device that is not Seine's. */
  create(namespace: string, device: string): Promise<void>;
  /** Prepares what the target itself does not create. */
  prepare(end: UnderlayNamespace): Promise<void>;
  /** Ends what `create` and `prepare` started. */
  close(): Promise<void>;
}

/** Opens a target with a device in a namespace of its own, beside a foreign device. */
export async function openWireGuardTarget(kind: DeviceKind): Promise<Specimen<WireGuardKey, WireGuardEntry>> {
  const pair = joinedNamespaces();
  const [own] = pair;
  const other = `${own.device}o`;
  const wg = (...words: readonly string[]): string =>
    execFileSync('ip', ['netns', 'exec', own.namespace, 'wg', ...words], { encoding: 'utf8' });
  const link = (...words: readonly string[]): string =>
    execFileSync('ip', ['-n', own.namespace, 'link', ...words], { stdio: ['ignore', 'ignore', 'pipe'], encoding: 'utf8' });
  await kind.create(own.namespace, other);
  wg('set', other, 'listen-port', '4711', 'peer', WireGuardPrivateKey.generate().publicKey, 'allowed-ips', '10.0.0.0/8');
  await kind.prepare(own);
  const namespace = NetworkNamespace.open(`/run/netns/${own.namespace}`);
  const target = new WireGuardTarget({ device: own.device, socketFolder, namespace });
  namespace.close();
  const peers = Array.from({ length: 4 }, (_, index) => peerOf(index));
  const [first, second, third] = peers.map(({ publicKey }) => publicKey);
  const apply = target.apply.bind(target);
  let reachable = true;
  target.apply = async (...of) => {
    if (!reachable) throw new SeineError('UNAVAILABLE', 'test: no device');
    await apply(...of);
  };
  const clear = (): void => {
    for (const key of wg('show', own.device, 'peers').split('\n').filter(Boolean)) wg('set', own.device, 'peer', key, 'remove');
  };
  return {
    target,
    equal: sameWireGuardEntry,
    base: new Map([['device', wantedDevice(WireGuardPrivateKey.generate(), 51820, 1380)]]),
    entries: entriesOf(peers),
    changes: entriesOf([
      { ...peerOf(0), endpoint: { address: parseIp('fd00:16::77'), port: 51821 } },
      { ...peerOf(1), allowedNetworks: [parseCidr('10.77.0.0/16')] },
    ]),
    impossible: entriesOf([
      { ...peerOf(9), allowedNetworks: Array.from({ length: 1001 }, (_, index) => parseCidr(`10.${index >> 8}.${index & 255}.0/24`)) },
    ]),
    foreign: () => wg('show', other, 'dump'),
    disturb: async () => {
      wg('set', own.device, 'peer', first ?? '', 'remove');
      wg('set', own.device, 'peer', second ?? '', 'allowed-ips', '10.99.0.0/16');
      wg('set', own.device, 'peer', third ?? '', 'persistent-keepalive', 'off');
      wg('set', own.device, 'peer', third ?? '', 'endpoint', '192.0.2.99:1');
      wg('set', own.device, 'peer', WireGuardPrivateKey.generate().publicKey, 'allowed-ips', '10.98.0.0/16');
      wg('set', own.device, 'listen-port', '1234');
      link('set', own.device, 'down', 'mtu', '1300');
    },
    wipe: async () => {
      clear();
      link('set', own.device, 'down');
    },
    die: async () => {
      reachable = false;
      clear();
      link('set', own.device, 'down');
    },
    revive: async () => {
      reachable = true;
    },
    close: async () => {
      await target.close();
      await kind.close();
      removeNamespaces(pair);
    },
  };
}

function entriesOf(peers: readonly WantedWireGuardPeer[]): ReadonlyMap<WireGuardKey, WireGuardEntry> {
  return new Map(peers.map((peer) => [peerKey(peer.publicKey), { kind: 'peer', peer }]));
}

const keys = new Map<number, WireGuardPrivateKey>();

function peerOf(index: number): WantedWireGuardPeer {
  const key = keys.get(index) ?? WireGuardPrivateKey.generate();
  keys.set(index, key);
  return {
    publicKey: key.publicKey,
    endpoint: { address: parseIp(index % 2 === 0 ? `192.0.2.${index + 1}` : `fd00:16::${index + 1}`), port: 51820 },
    allowedNetworks: [parseCidr(`10.10.${index}.0/24`), parseCidr(`fd00:10:${index}::/64`)],
    keepaliveSeconds: 25,
  };
}
