import { SeineError } from '../../base/errors/seine-error.ts';
import { type Cidr, isIp, parseCidr, parseIp } from '../../base/net/ip.ts';
import type { WantedWireGuardPeer, WireGuardChange, WireGuardDevice, WireGuardEndpoint, WireGuardPeer } from './wireguard.ts';
import { publicKeyBytes, publicKeyOf, WireGuardPrivateKey, type WireGuardPublicKey } from './wireguard-key.ts';

/*
 * Text protocol of WireGuard implementations that are processes ("cross-platform userspace implementation"): lines `key=value`, keys as
 * lower-case hexadecimal, an empty line at the end of each request and answer. An answer ends with `errno=0`, or the number of an error.
 */

/** Request for the whole device. */
export const deviceRequest = 'get=1\n\n';

/** Encodes a change, with the private key in it: never log the text. */
export function encodeChangeText({ privateKey, listenPort, put = [], remove = [] }: WireGuardChange): string {
  const lines = [
    'set=1',
    ...(privateKey === undefined ? [] : [`private_key=${hexOf(privateKey.bytes)}`]),
    ...(listenPort === undefined ? [] : [`listen_port=${listenPort}`]),
    ...put.flatMap(peerLines),
    ...remove.flatMap((key) => [`public_key=${hexOf(publicKeyBytes(key))}`, 'remove=true']),
  ];
  return `${lines.join('\n')}\n\n`;
}

function peerLines({ publicKey, endpoint: { address, port }, allowedNetworks, keepaliveSeconds }: WantedWireGuardPeer): string[] {
  return [
    `public_key=${hexOf(publicKeyBytes(publicKey))}`,
    `endpoint=${address.family === 'ipv6' ? `[${address.text}]` : address.text}:${port}`,
    ...(keepaliveSeconds === undefined ? [] : [`persistent_keepalive_interval=${keepaliveSeconds}`]),
    'replace_allowed_ips=true',
    ...allowedNetworks.map(({ text }) => `allowed_ip=${text}`),
  ];
}

/** Peer while its lines are read. */
interface PeerDraft {
  publicKey: WireGuardPublicKey;
  endpoint: WireGuardEndpoint | undefined;
  allowedNetworks: Cidr[];
  keepaliveSeconds: number;
  seconds: number;
  nanoseconds: number;
  receivedBytes: number;
  sentBytes: number;
}

/**
 * Decodes an answer to `deviceRequest`.
 *
 * @throws SeineError `REFUSED` with the error's number, `PROTOCOL`
 */
export function decodeDeviceText(text: string): WireGuardDevice {
  let [publicKey, listenPort]: [WireGuardPublicKey | undefined, number] = [undefined, 0];
  const peers: PeerDraft[] = [];
  for (const [key, value] of linesOf(text)) {
    const peer = peers.at(-1);
    if (key === 'public_key') peers.push(newDraft(parsed(key, () => publicKeyOf(bytesOf(value)))));
    else if (peer !== undefined) readPeerLine(peer, key, value);
    else if (key === 'private_key') publicKey = ownKeyOf(value);
    else if (key === 'listen_port') listenPort = numberOf(key, value);
  }
  return { publicKey, listenPort, peers: peers.map(peerOf) };
}

/** @throws SeineError `REFUSED` with the error's number, `PROTOCOL` */
export function checkAnswer(text: string): void {
  linesOf(text);
}

/** Splits an answer into lines, checks its end, and leaves the end out. */
function linesOf(text: string): (readonly [string, string])[] {
  const lines = text.split('\n').filter((line) => line !== '');
  const pairs = lines.map((line) => {
    const at = line.indexOf('=');
    if (at < 0) throw new SeineError('PROTOCOL', `${what}: a line without "="`);
    return [line.slice(0, at), line.slice(at + 1)] as const;
  });
  const last = pairs.pop();
  if (last?.[0] !== 'errno') throw new SeineError('PROTOCOL', `${what}: an answer without errno`);
  const errno = numberOf('errno', last[1].replace('-', ''));
  if (errno !== 0) throw new SeineError('REFUSED', `${what}: error ${errno}`, { context: { errno } });
  return pairs;
}

/** Lines with other keys, also unknown ones, are ignored. */
function readPeerLine(peer: PeerDraft, key: string, value: string): void {
  if (key === 'endpoint') peer.endpoint = endpointOf(value);
  else if (key === 'allowed_ip') peer.allowedNetworks.push(parsed(key, () => parseCidr(value)));
  else if (key === 'last_handshake_time_sec') peer.seconds = numberOf(key, value);
  else if (key === 'last_handshake_time_nsec') peer.nanoseconds = numberOf(key, value);
  else if (key === 'persistent_keepalive_interval') peer.keepaliveSeconds = numberOf(key, value);
  else if (key === 'rx_bytes') peer.receivedBytes = numberOf(key, value);
  else if (key === 'tx_bytes') peer.sentBytes = numberOf(key, value);
}

function newDraft(publicKey: WireGuardPublicKey): PeerDraft {
  const counters = { seconds: 0, nanoseconds: 0, receivedBytes: 0, sentBytes: 0 };
  return { publicKey, endpoint: undefined, allowedNetworks: [], keepaliveSeconds: 0, ...counters };
}

function peerOf({ seconds, nanoseconds, ...peer }: PeerDraft): WireGuardPeer {
  const handshakeAt = seconds === 0 && nanoseconds === 0 ? undefined : seconds * 1000 + Math.floor(nanoseconds / 1e6);
  return { ...peer, handshakeAt };
}

function endpointOf(value: string): WireGuardEndpoint {
  const match = /^(?:\[([0-9a-fA-F:.]+)(?:%[^\]]*)?\]|([0-9.]+)):([0-9]{1,5})$/.exec(value);
  const address = match?.[1] ?? match?.[2] ?? '';
  if (!isIp(address)) throw new SeineError('PROTOCOL', `${what}: ${JSON.stringify(value.slice(0, 80))} is not an endpoint`);
  return { address: parseIp(address), port: numberOf('endpoint', match?.[3] ?? '') };
}

/** A device without a key shows 32 zero bytes, or no key. */
function ownKeyOf(value: string): WireGuardPublicKey | undefined {
  const bytes = bytesOf(value);
  if (bytes.every((byte) => byte === 0)) return undefined;
  return parsed('private_key', () => WireGuardPrivateKey.parse(Buffer.from(bytes).toString('base64')).publicKey);
}

function bytesOf(hex: string): Uint8Array {
  return Buffer.from(hex, 'hex');
}

function hexOf(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString('hex');
}

/** @throws SeineError `PROTOCOL`, without the value: it may be a secret */
function parsed<T>(key: string, read: () => T): T {
  try {
    return read();
  } catch {
    throw new SeineError('PROTOCOL', `${what}: an invalid ${key}`);
  }
}

function numberOf(key: string, value: string): number {
  if (!/^[0-9]{1,19}$/.test(value)) throw new SeineError('PROTOCOL', `${what}: an invalid ${key}`);
  return Number(value);
}

const what = 'WireGuard process';
