import type { Cidr, Ip } from '../../base/net/ip.ts';
import type { NodeEnvironment, NodeWireGuard } from '../../dataplane/compile/environment.ts';
import { peerKey, type WireGuardEntry, type WireGuardKey } from '../../dataplane/targets/wireguard/wireguard-entry.ts';
import type { Peer } from '../../kubernetes/resources/peer-source.ts';
import type { WireGuardDevice } from '../../netlink/wireguard/wireguard.ts';
import type { WireGuardPublicKey } from '../../netlink/wireguard/wireguard-key.ts';
import type { PeerEncryption } from '../modes/peer-mode.ts';
import { PeerKeys } from './peer-keys.ts';

/**
 * Time between the exchange of two nodes' keys and the first encrypted packet (ms). Each node has read the other's key by then: the first
 * handshake with an unknown key is lost, and the next one follows after 5 s.
 */
const establishingMs = 2_000;

/** Intervals between readings of the device while a peer has not completed its first handshake (ms), and time from which on it is longer. */
const handshakeReading = { everyMs: 250, laterEveryMs: 2_000, laterMs: 10_000 } as const;

/**
 * Interval at which each peer of the device gets a packet (s). The first one begins the handshake before pods' packets are sent that way:
 * WireGuard keeps only 128 packets of a peer until the handshake is complete, and discards others.
 */
const keepaliveSeconds = 25;

/** Time for which the device keeps a peer that has no key any more (ms): packets are sent there until bridge and routes have changed. */
const leavingMs = 5_000;

interface EncryptionOptions {
  readonly environment: () => NodeEnvironment;
  /** Reports whether a key is one of this node's. */
  readonly isOwnKey: (key: WireGuardPublicKey) => boolean;
  /** Returns since when this node's object announces its key (`monotonic`); undefined while it does not. */
  readonly announcedSince: () => number | undefined;
  /** Keys of peers with a handshake in the device when the agent started. */
  readonly inherited: ReadonlySet<WireGuardPublicKey>;
  /** Called when a peer announces another key. */
  readonly announced: () => void;
  /** Current Unix time (ms). */
  readonly now: () => number;
  /** Time (ms) that no clock change affects. */
  readonly monotonic: () => number;
}

/**
 * Encryption of what this node sends to each peer, from the keys that the peers' Node objects announce. Where packets are otherwise sent
 * without encryption (`allow`), a peer is established by its first handshake; where they are dropped, without one. A peer that was
 * established stays so while it has a key: nothing is sent to it without encryption again.
 */
export class Encryption {
  readonly #options: EncryptionOptions;
  readonly #keys: PeerKeys;
  /** Time (`monotonic`) since which a peer has had a key. */
  readonly #keyedSince = new Map<string, number>();
  readonly #established = new Set<string>();
  /** Keys of `inherited` that peers have had since. */
  readonly #inherited: Set<WireGuardPublicKey>;
  /** Keys of peers that had completed a handshake when the device was last read. */
  #answering: ReadonlySet<WireGuardPublicKey> = new Set();
  /** Last keys of peers, and until when (`monotonic`) the device keeps those that are not announced any more. */
  readonly #lastKeys = new Map<string, WireGuardPublicKey>();
  readonly #leaving = new Map<string, { readonly key: WireGuardPublicKey; readonly until: number }>();

  constructor(options: EncryptionOptions) {
    this.#options = options;
    this.#inherited = new Set(options.inherited);
    this.#keys = new PeerKeys(options.isOwnKey);
  }

  /** Notes what a peer announces; undefined: its Node is gone. @returns other peers whose keys may be decided differently now */
  note(name: string, peer: Peer | undefined): ReadonlySet<string> {
    const concerned = this.#keys.set(name, peer);
    this.#noteKey(name);
    for (const other of concerned) this.#noteKey(other);
    this.#options.announced();
    return concerned;
  }

  /** Reports whether a peer is established as soon as the device shows a handshake with it. */
  awaitsHandshakes(): boolean {
    const now = this.#options.monotonic();
    return this.#isClearAllowed() && this.#pendingSince().some((since) => since + establishingMs <= now);
  }

  /** Notes with which peers the device has completed a handshake. */
  noteHandshakes(device: WireGuardDevice | undefined): void {
    const peers = device?.peers ?? [];
    this.#answering = new Set(peers.filter(({ handshakeAt }) => handshakeAt !== undefined).map(({ publicKey }) => publicKey));
  }

  /** Returns how packets to a peer are encrypted. */
  of(name: string): PeerEncryption {
    const { wireGuard } = this.#options.environment();
    if (wireGuard === undefined || wireGuard.isEnding) return { state: 'off' };
    const { unencryptedPeers: otherwise, device } = wireGuard;
    const key = this.#keyOf(name);
    if (key === undefined) return { state: 'noKey', otherwise };
    if (!this.#isEstablished(name, key)) return { state: 'establishing', otherwise };
    return { state: 'encrypted', device };
  }

  /** Reports whether packets from a peer are accepted by the WireGuard device. */
  accepts(name: string): boolean {
    return this.#options.environment().wireGuard !== undefined && this.#keyOf(name) !== undefined;
  }

  /** Reports whether packets of a peer that are not encrypted are dropped. */
  refusesClear(): boolean {
    return this.#options.environment().wireGuard?.unencryptedPeers === 'drop';
  }

  /** Returns the entries of a peer for the WireGuard device. @param end address at which it is reached; undefined if there is none */
  entries(name: string, end: Ip | undefined, networks: readonly Cidr[]): ReadonlyMap<WireGuardKey, WireGuardEntry> {
    const { wireGuard } = this.#options.environment();
    const key = this.#keyOf(name) ?? this.#leavingKey(name);
    if (wireGuard === undefined || key === undefined || end === undefined) return new Map();
    const peer = { publicKey: key, endpoint: endpointAt(end, wireGuard), allowedNetworks: networks, keepaliveSeconds };
    return new Map([[peerKey(key), { kind: 'peer', peer }]]);
  }

  /** Returns the peer that has a key now. */
  nodeOf(key: WireGuardPublicKey): string | undefined {
    return this.#keys.nodeOf(key, this.#options.now());
  }

  /** Returns the reason for not accepting the key of a peer, or for not having one where that is a fault. */
  objections(name: string): readonly string[] {
    const { wireGuard } = this.#options.environment();
    if (wireGuard === undefined || wireGuard.isEnding) return [];
    const objection = this.#keys.objection(name, this.#options.now());
    if (objection !== undefined) return [objection];
    return wireGuard.unencryptedPeers === 'drop' && this.#keyOf(name) === undefined
      ? ['has no WireGuard key: its packets are dropped (wireGuard.unencryptedPeers: drop)']
      : [];
  }

  /** Returns peers whose entries changed between two Unix times (ms), or because the device need not keep them any longer. */
  changedBetween(from: number, until: number): readonly string[] {
    const now = this.#options.monotonic();
    const left = [...this.#leaving].filter(([, leaving]) => leaving.until <= now).map(([name]) => name);
    for (const name of left) this.#leaving.delete(name);
    return [...this.#keys.changedBetween(from, until), ...left];
  }

  /** Returns the time (ms) until the next change that no event reports; undefined if there is none. */
  nextChangeIn(): number | undefined {
    const { now, monotonic } = this.#options;
    const rotation = this.#keys.nextChange(now());
    const established = this.#checkedIn();
    const waits = [
      ...Array.from(this.#leaving.values(), ({ until }) => until - monotonic()),
      ...(rotation === undefined ? [] : [rotation - now()]),
      ...(established === undefined ? [] : [established]),
    ];
    return waits.length === 0 ? undefined : Math.max(0, Math.min(...waits));
  }

  /** Returns the time until a peer may be established (ms). */
  #checkedIn(): number | undefined {
    const now = this.#options.monotonic();
    const { everyMs, laterEveryMs, laterMs } = handshakeReading;
    const waits = this.#pendingSince().map((since) => {
      const leftMs = since + establishingMs - now;
      if (leftMs > 0) return leftMs;
      return -leftMs < laterMs ? everyMs : laterEveryMs;
    });
    return waits.length === 0 ? undefined : waits.reduce((least, wait) => Math.min(least, wait));
  }

  /** Returns since when this node and each peer that is not established have had each other's key (`monotonic`). */
  #pendingSince(): readonly number[] {
    const announced = this.#options.announcedSince();
    if (announced === undefined) return [];
    return [...this.#keyedSince].flatMap(([name, since]) => (this.#established.has(name) ? [] : [Math.max(announced, since)]));
  }

  #isClearAllowed(): boolean {
    return this.#options.environment().wireGuard?.unencryptedPeers === 'allow';
  }

  #noteKey(name: string): void {
    const key = this.#keyOf(name);
    if (key === undefined) {
      this.#noteLeaving(name);
      this.#keyedSince.delete(name);
      this.#established.delete(name);
      return;
    }
    this.#lastKeys.set(name, key);
    this.#leaving.delete(name);
    if (!this.#keyedSince.has(name)) this.#keyedSince.set(name, this.#options.monotonic());
  }

  /** Keeps the entry of a peer that is reached without encryption from now on. */
  #noteLeaving(name: string): void {
    const key = this.#lastKeys.get(name);
    if (key === undefined) return;
    this.#lastKeys.delete(name);
    this.#inherited.delete(key);
    this.#answering = new Set([...this.#answering].filter((other) => other !== key));
    if (this.#isClearAllowed()) this.#leaving.set(name, { key, until: this.#options.monotonic() + leavingMs });
  }

  #leavingKey(name: string): WireGuardPublicKey | undefined {
    const key = this.#leaving.get(name)?.key;
    return key !== undefined && this.#keys.isFree(key) ? key : undefined;
  }

  #isEstablished(name: string, key: WireGuardPublicKey): boolean {
    if (this.#established.has(name)) return true;
    const { announcedSince, monotonic } = this.#options;
    const [keyed, announced] = [this.#keyedSince.get(name), announcedSince()];
    const isOldEnough = keyed !== undefined && announced !== undefined && monotonic() >= Math.max(keyed, announced) + establishingMs;
    const isAnswering = !this.#isClearAllowed() || this.#answering.has(key);
    if (!this.#inherited.has(key) && !(isOldEnough && isAnswering)) return false;
    this.#established.add(name);
    return true;
  }

  #keyOf(name: string): WireGuardPublicKey | undefined {
    return this.#keys.keyOf(name, this.#options.now());
  }
}

function endpointAt(address: Ip, { port }: NodeWireGuard): { readonly address: Ip; readonly port: number } {
  return { address, port };
}
