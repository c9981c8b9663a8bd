import { SeineError } from '../../base/errors/seine-error.ts';
import { type Cidr, ipToBytes } from '../../base/net/ip.ts';
import { Attributes, attributesIn } from '../attributes.ts';
import { genericHeader, genericHeaderBytes } from '../generic.ts';
import { familyNumber, familyOf, ipIn, networkIn } from '../kernel-values.ts';
import { Batch, type NetlinkMessage, splitPayload } from '../message.ts';
import { internetAddress } from '../sockets/socket-address.ts';
import { littleEndian } from '../sys.ts';
import type { WantedWireGuardPeer, WireGuardChange, WireGuardDevice, WireGuardEndpoint, WireGuardPeer } from './wireguard.ts';
import { publicKeyBytes, publicKeyOf, type WireGuardPublicKey } from './wireguard-key.ts';

/*
 * Messages of the generic netlink family "wireguard", version 1 (linux/wireguard.h):
 *   device  { index · name · private key · public key · flags · port · mark · peers { peer } }
 *   peer    { public key · flags · endpoint (struct sockaddr_in or sockaddr_in6) · u16 keepalive interval · time of handshake · bytes · networks { network } }
 *   network { u16 address family · address · u8 prefix length }
 */

/** Name of the family. */
export const wireGuardFamily = 'wireguard';

/** Adds a request for a device, to be sent as a dump. */
export function encodeDeviceRequest(batch: Batch, device: string): void {
  genericHeader(batch, WG_CMD_GET_DEVICE, WG_GENL_VERSION).attributeText(WGDEVICE_A_IFNAME, device);
}

/** Part of a device in one message. A peer may continue in the next part, with further networks. */
export interface DevicePart {
  readonly publicKey: WireGuardPublicKey | undefined;
  readonly listenPort: number;
  readonly peers: readonly WireGuardPeer[];
}

/** @throws SeineError `PROTOCOL` */
export function decodeDevicePart({ payload }: Pick<NetlinkMessage, 'payload'>): DevicePart {
  const { attributes } = splitPayload(payload, genericHeaderBytes, what);
  const publicKey = attributes.bytes(WGDEVICE_A_PUBLIC_KEY);
  const peers = attributes.bytes(WGDEVICE_A_PEERS);
  return {
    publicKey: publicKey && keyIn(publicKey),
    listenPort: attributes.u16(WGDEVICE_A_LISTEN_PORT) ?? 0,
    peers: peers ? attributesIn(peers, what).map(({ value }) => decodePeer(value)) : [],
  };
}

/** Joins the parts of one dump. @returns undefined if there are none */
export function joinParts(parts: readonly DevicePart[]): WireGuardDevice | undefined {
  const [first] = parts;
  if (first === undefined) return undefined;
  const peers: WireGuardPeer[] = [];
  for (const peer of parts.flatMap((part) => part.peers)) {
    const last = peers.at(-1);
    if (last?.publicKey !== peer.publicKey) peers.push(peer);
    else peers[peers.length - 1] = { ...last, allowedNetworks: [...last.allowedNetworks, ...peer.allowedNetworks] };
  }
  return { publicKey: first.publicKey, listenPort: first.listenPort, peers };
}

/**
 * Encodes a change as messages that each fit into one send: an attribute has at most 64 KiB.
 *
 * @param family number of `wireGuardFamily`
 * @throws SeineError `INVALID_INPUT` if a peer has more than 1,000 networks
 */
export function encodeChange(family: number, device: string, change: WireGuardChange): Batch {
  const batch = new Batch();
  const { privateKey, listenPort, put = [], remove = [] } = change;
  if (privateKey !== undefined || listenPort !== undefined)
    deviceMessage(batch, family, device, () => {
      if (privateKey !== undefined) batch.attribute(WGDEVICE_A_PRIVATE_KEY, privateKey.bytes);
      if (listenPort !== undefined) batch.attribute(WGDEVICE_A_LISTEN_PORT, hostU16(listenPort));
    });
  for (const peers of groupsOf(put))
    deviceMessage(batch, family, device, () =>
      batch.nested(NLA_F_NESTED | WGDEVICE_A_PEERS, () => peers.forEach((peer) => void encodePeer(batch, peer))),
    );
  for (let at = 0; at < remove.length; at += peersPerMessage)
    deviceMessage(batch, family, device, () =>
      batch.nested(NLA_F_NESTED | WGDEVICE_A_PEERS, () =>
        remove.slice(at, at + peersPerMessage).forEach((key) => void encodeRemoval(batch, key)),
      ),
    );
  return batch;
}

function deviceMessage(batch: Batch, family: number, device: string, body: () => void): void {
  batch.message(family, 0, `change WireGuard device ${device}`, () => {
    genericHeader(batch, WG_CMD_SET_DEVICE, WG_GENL_VERSION).attributeText(WGDEVICE_A_IFNAME, device);
    body();
  });
}

/** Splits peers into groups of at most 100 peers and 1,000 networks, about 36 KiB. */
function* groupsOf(peers: readonly WantedWireGuardPeer[]): Generator<readonly WantedWireGuardPeer[]> {
  let [group, networks]: [WantedWireGuardPeer[], number] = [[], 0];
  for (const peer of peers) {
    const count = peer.allowedNetworks.length;
    if (count > networksPerMessage)
      throw new SeineError('INVALID_INPUT', `WireGuard peer ${peer.publicKey} has ${count} networks; ${networksPerMessage} are supported`);
    if (group.length === peersPerMessage || networks + count > networksPerMessage) {
      yield group;
      [group, networks] = [[], 0];
    }
    group.push(peer);
    networks += count;
  }
  if (group.length > 0) yield group;
}

function encodePeer(batch: Batch, { publicKey, endpoint, allowedNetworks, keepaliveSeconds }: WantedWireGuardPeer): void {
  batch.nested(NLA_F_NESTED, () => {
    batch.attribute(WGPEER_A_PUBLIC_KEY, publicKeyBytes(publicKey));
    batch.attributeU32(WGPEER_A_FLAGS, WGPEER_F_REPLACE_ALLOWEDIPS);
    batch.attribute(WGPEER_A_ENDPOINT, internetAddress(endpoint.address, endpoint.port));
    if (keepaliveSeconds !== undefined) batch.attribute(WGPEER_A_PERSISTENT_KEEPALIVE_INTERVAL, hostU16(keepaliveSeconds));
    batch.nested(NLA_F_NESTED | WGPEER_A_ALLOWEDIPS, () => allowedNetworks.forEach((network) => void encodeNetwork(batch, network)));
  });
}

function encodeNetwork(batch: Batch, { family, network, prefixLength }: Cidr): void {
  batch.nested(NLA_F_NESTED, () => {
    batch.attribute(WGALLOWEDIP_A_FAMILY, hostU16(familyNumber[family]));
    batch.attribute(WGALLOWEDIP_A_IPADDR, ipToBytes(network));
    batch.attributeU8(WGALLOWEDIP_A_CIDR_MASK, prefixLength);
  });
}

function encodeRemoval(batch: Batch, key: WireGuardPublicKey): void {
  batch.nested(NLA_F_NESTED, () => {
    batch.attribute(WGPEER_A_PUBLIC_KEY, publicKeyBytes(key));
    batch.attributeU32(WGPEER_A_FLAGS, WGPEER_F_REMOVE_ME);
  });
}

function decodePeer(bytes: Uint8Array): WireGuardPeer {
  const attributes = new Attributes(bytes, what);
  const [key, endpoint, networks] = [WGPEER_A_PUBLIC_KEY, WGPEER_A_ENDPOINT, WGPEER_A_ALLOWEDIPS].map((type) => attributes.bytes(type));
  if (key === undefined) throw new SeineError('PROTOCOL', `${what}: a peer without a key`);
  return {
    publicKey: keyIn(key),
    endpoint: endpoint && endpointIn(endpoint),
    allowedNetworks: networks ? attributesIn(networks, what).map(({ value }) => decodeNetwork(value)) : [],
    keepaliveSeconds: attributes.u16(WGPEER_A_PERSISTENT_KEEPALIVE_INTERVAL) ?? 0,
    handshakeAt: handshakeIn(attributes.bytes(WGPEER_A_LAST_HANDSHAKE_TIME)),
    receivedBytes: counterIn(attributes.bytes(WGPEER_A_RX_BYTES)),
    sentBytes: counterIn(attributes.bytes(WGPEER_A_TX_BYTES)),
  };
}

/** Reads a struct sockaddr_in or sockaddr_in6. The kernel fills in no other. */
function endpointIn(bytes: Uint8Array): WireGuardEndpoint {
  const view = viewOf(bytes, 16);
  const family = familyOf(view.getUint16(0, littleEndian));
  if (family === undefined) throw new SeineError('PROTOCOL', `${what}: an endpoint of an unknown address family`);
  const address = family === 'ipv4' ? bytes.subarray(4, 8) : bytes.subarray(8, 24);
  return { address: ipIn(address, family, what), port: view.getUint16(2, false) };
}

function decodeNetwork(bytes: Uint8Array): Cidr {
  const attributes = new Attributes(bytes, what);
  const family = familyOf(attributes.u16(WGALLOWEDIP_A_FAMILY) ?? 0);
  const prefixLength = attributes.u8(WGALLOWEDIP_A_CIDR_MASK);
  const address = attributes.bytes(WGALLOWEDIP_A_IPADDR);
  if (family === undefined || prefixLength === undefined || address === undefined)
    throw new SeineError('PROTOCOL', `${what}: a network without address or prefix length`);
  return networkIn(address, prefixLength, family, what);
}

/** Reads a struct __kernel_timespec: i64 seconds · i64 nanoseconds; all zero for none. */
function handshakeIn(bytes: Uint8Array | undefined): number | undefined {
  if (bytes === undefined) return undefined;
  const view = viewOf(bytes, 16);
  const [seconds, nanoseconds] = [view.getBigInt64(0, littleEndian), view.getBigInt64(8, littleEndian)];
  return seconds === 0n && nanoseconds === 0n ? undefined : Number(seconds) * 1000 + Math.floor(Number(nanoseconds) / 1e6);
}

/** Exact up to 2^53. */
function counterIn(bytes: Uint8Array | undefined): number {
  return bytes === undefined ? 0 : Number(viewOf(bytes, 8).getBigUint64(0, littleEndian));
}

/** @throws SeineError `PROTOCOL` */
function keyIn(bytes: Uint8Array): WireGuardPublicKey {
  try {
    return publicKeyOf(bytes);
  } catch (cause) {
    throw new SeineError('PROTOCOL', `${what}: a key of ${bytes.length} bytes`, { cause });
  }
}

function viewOf(bytes: Uint8Array, atLeast: number): DataView {
  if (bytes.length < atLeast) throw new SeineError('PROTOCOL', `${what}: a value of ${bytes.length} bytes, ${atLeast} expected`);
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
}

function hostU16(value: number): Uint8Array {
  const bytes = new Uint8Array(2);
  new DataView(bytes.buffer).setUint16(0, value, littleEndian);
  return bytes;
}

const what = 'WireGuard device';
const peersPerMessage = 100;
const networksPerMessage = 1000;

const NLA_F_NESTED = 0x8000;
const WG_GENL_VERSION = 1;
const WG_CMD_GET_DEVICE = 0;
const WG_CMD_SET_DEVICE = 1;
const WGDEVICE_A_IFNAME = 2;
const WGDEVICE_A_PRIVATE_KEY = 3;
const WGDEVICE_A_PUBLIC_KEY = 4;
const WGDEVICE_A_LISTEN_PORT = 6;
const WGDEVICE_A_PEERS = 8;
const WGPEER_A_PUBLIC_KEY = 1;
const WGPEER_A_FLAGS = 3;
const WGPEER_F_REMOVE_ME = 1;
const WGPEER_F_REPLACE_ALLOWEDIPS = 2;
const WGPEER_A_ENDPOINT = 4;
const WGPEER_A_PERSISTENT_KEEPALIVE_INTERVAL = 5;
const WGPEER_A_LAST_HANDSHAKE_TIME = 6;
const WGPEER_A_RX_BYTES = 7;
const WGPEER_A_TX_BYTES = 8;
const WGPEER_A_ALLOWEDIPS = 9;
const WGALLOWEDIP_A_FAMILY = 1;
const WGALLOWEDIP_A_IPADDR = 2;
const WGALLOWEDIP_A_CIDR_MASK = 3;
