import { type Cidr, cidrContains, type Family, type Ip } from '../../base/net/ip.ts';
import type { DirectPath } from '../../dataplane/compile/compile-direct.ts';
import type { PeerIntent } from '../../dataplane/compile/compile-peer.ts';
import type { Peer } from '../../kubernetes/resources/peer-source.ts';
import type { CandidatePath } from './direct-echo.ts';
import { type ModeSettings, modeReasons, type PeerEncryption, type PeerMode, type PeerPathFacts, selectPeerMode } from './peer-mode.ts';

interface NodeModeSettings extends ModeSettings {
  /** Peers with a transport address in one of these are reached directly with `hybrid`, although a router is between. */
  readonly directCidrs: readonly Cidr[];
}

interface PeerModesOptions {
  readonly settings: NodeModeSettings;
  /** Returns the interface by which the kernel reaches an address without a router between. */
  readonly linkTo: (address: Ip) => string | undefined;
  /** Reports whether peers accept packets of this node without a tunnel: it has announced them for long enough. */
  readonly isExpected: () => boolean;
  /** Reports whether this node accepts packets without a tunnel from peers that announce them. */
  readonly accepts: () => boolean;
  /**
   * Returns the path by which a previous agent sent to a peer without a tunnel, as long as announcements may be out of date: Node objects are
   * those from disk; absent: none.
   */
  readonly previousPath?: (peer: Peer, family: Family) => DirectPath | undefined;
  /** Returns the encryption of what this node sends to a peer; absent: it does not encrypt. */
  readonly encryptionOf?: (peer: string) => PeerEncryption;
  readonly echoOf: (peer: Peer, family: Family) => PeerPathFacts['echo'];
  readonly resultOf: (peer: string, family: Family) => PeerPathFacts['echo'];
  /** Reports whether pods of this node have an MTU that leaves room for the tunnel; absent: always. */
  readonly fitsTunnel?: () => boolean;
  /** Called when a peer waits for such an MTU. */
  readonly needsTunnel?: () => void;
  /** Called when a peer is gone; absent: nothing is stored about it elsewhere. */
  readonly forgotten?: (peer: string) => void;
  /** Returns a monotonic time (ms). */
  readonly now: () => number;
  /** Returns the current date, for display. */
  readonly date: () => Date;
}

/** Mode of a peer in one family, with the time of its last change (RFC 3339). */
type SelectedMode = PeerMode & { readonly since: string };

/** How this node sends to a peer in one family, for display. */
export interface ShownMode {
  readonly family: Family;
  readonly mode: PeerMode['mode'];
  /** Reason in words. */
  readonly reason: string;
  /** Time of the last change of the mode (RFC 3339). */
  readonly since: string;
}

/** Time for which a peer that joins does not count as one that needs the tunnel (ms): it announces itself after its agent has started. */
const JOINING_MS = 60_000;

/** Selection for a peer. */
interface SelectedModes {
  readonly modes: ReadonlyMap<Family, SelectedMode>;
  readonly maySendDirectly: boolean;
  readonly joined: number;
  readonly accepted: AcceptedPeer;
}

/** Properties of a peer that this node accepts. */
type AcceptedPeer = Pick<PeerIntent, 'transport' | 'podCidrs'>;

/**
 * Selects how this node sends to each peer, by family, from the settings and from what the kernel and the peers' Node objects show at that
 * moment. Stores the last selection of each peer, for changes and for display.
 */
export class PeerModes {
  readonly #options: PeerModesOptions;
  readonly #selections = new Map<string, SelectedModes>();
  /** Time since when all peers are known; later ones are joining. */
  #knownSince = Number.POSITIVE_INFINITY;

  constructor(options: PeerModesOptions) {
    this.#options = options;
  }

  /** Selects the modes of a peer again, and stores them. @param families of this node */
  select(peer: Peer, accepted: AcceptedPeer, families: readonly Family[]): Pick<PeerIntent, 'direct' | 'maySendDirectly'> {
    const now = this.#options.now();
    const date = this.#options.date();
    const before = this.#selections.get(peer.name);
    const selected = this.#selectedFor(peer, accepted, families);
    if ([...selected.values()].some(({ reason }) => reason === 'resizing')) this.#options.needsTunnel?.();
    const modes = new Map([...selected].map(([family, mode]) => [family, withTime(mode, before?.modes.get(family), date)]));
    const maySendDirectly = this.maySendDirectly(peer);
    const { transport, podCidrs } = accepted;
    this.#selections.set(peer.name, { modes, maySendDirectly, joined: before?.joined ?? now, accepted: { transport, podCidrs } });
    const direct = Object.fromEntries([...selected].flatMap(([family, mode]) => (mode.mode === 'tunnel' ? [] : [[family, mode.path]])));
    return {
      ...(Object.keys(direct).length > 0 ? { direct } : {}),
      ...(maySendDirectly ? { maySendDirectly: true as const } : {}),
    };
  }

  /** Reports whether a selection would differ from the stored one. A change of what is accepted from the peer needs a new selection. */
  isOutdated(peer: Peer, families: readonly Family[]): boolean {
    const stored = this.#selections.get(peer.name);
    if (!stored) return true;
    const now = this.#selectedFor(peer, stored.accepted, families);
    if (stored.modes.size !== now.size || stored.maySendDirectly !== this.maySendDirectly(peer)) return true;
    for (const [family, mode] of now) if (!isSame(stored.modes.get(family), mode)) return true;
    return false;
  }

  forget(name: string): void {
    this.#selections.delete(name);
    this.#options.forgotten?.(name);
  }

  /** Returns the stored selection of a peer. */
  of(name: string): ReadonlyMap<Family, SelectedMode> {
    return this.#selections.get(name)?.modes ?? new Map();
  }

  /** Returns how this node sends to a peer, for display. */
  shown(name: string): readonly ShownMode[] {
    return [...this.of(name)].map(([family, { mode, reason, since }]) => ({
      family,
      mode,
      reason: modeReasons[reason],
      since,
    }));
  }

  /** Number of peers by mode and family. */
  counts(): readonly { readonly mode: PeerMode['mode']; readonly family: Family; readonly peers: number }[] {
    const all = [...this.#selections.values()].flatMap(({ modes }) => [...modes].map(([family, { mode }]) => `${mode} ${family}`));
    return (['tunnel', 'direct', 'wireguard', 'blocked'] as const).flatMap((mode) =>
      (['ipv4', 'ipv6'] as const).map((family) => ({ mode, family, peers: all.filter((text) => text === `${mode} ${family}`).length })),
    );
  }

  /** Returns peers that answer their own address but lose echoes without a tunnel, by family. */
  lost(): readonly { readonly peer: string; readonly family: Family }[] {
    const lost: { readonly peer: string; readonly family: Family }[] = [];
    for (const [peer, { modes }] of this.#selections)
      for (const family of modes.keys()) if (this.#isLost(peer, family)) lost.push({ peer, family });
    return lost;
  }

  /** Returns the paths without a tunnel that may be used, now or once they have answered. Selections may change meanwhile. */
  *candidates(): Generator<CandidatePath> {
    for (const [peer, { modes, accepted }] of this.#selections)
      for (const [family, mode] of modes) {
        const transport = accepted.transport.find((ip) => ip.family === family);
        const network = accepted.podCidrs.find((cidr) => cidr.family === family);
        if (isCandidate(mode) && transport && network) yield { peer, family, transport, network };
      }
  }

  /** Declares all peers known that are selected by now. */
  known(): void {
    if (this.#knownSince > this.#options.now()) this.#knownSince = this.#options.now();
  }

  /** Reports whether a peer is reached through the tunnel; one that has just joined does not count before its agent announces its modes. */
  usesTunnel(): boolean {
    const now = this.#options.now();
    const isJoining = ({ joined }: SelectedModes): boolean => joined > this.#knownSince && now - joined < JOINING_MS;
    const isThere = ({ mode, reason }: SelectedMode): boolean => (mode === 'tunnel' && reason !== 'noAddress') || reason === 'resizing';
    return [...this.#selections.values()].some((selection) => !isJoining(selection) && [...selection.modes.values()].some(isThere));
  }

  #isLost(peer: string, family: Family): boolean {
    const mode = this.#selections.get(peer)?.modes.get(family);
    return mode !== undefined && isCandidate(mode) && this.#options.resultOf(peer, family) === 'lost';
  }

  /** Reports whether packets without a tunnel are accepted from a peer. */
  maySendDirectly(peer: Peer): boolean {
    const { previousPath = () => undefined, accepts } = this.#options;
    const wasDirect = (['ipv4', 'ipv6'] as const).some((family) => previousPath(peer, family) !== undefined);
    return (peer.announces !== undefined || wasDirect) && accepts();
  }

  #selectedFor(peer: Peer, { transport }: AcceptedPeer, families: readonly Family[]): ReadonlyMap<Family, PeerMode> {
    const { settings } = this.#options;
    const common = families.filter((family) => peer.podCidrs.some((text) => text.includes(':') === (family === 'ipv6')));
    const stored = this.of(peer.name);
    return new Map(
      common.map((family) => [
        family,
        this.#afterResize(
          this.#unlessUnread(selectPeerMode(settings, this.#factsOf(peer, family, transport)), peer, family),
          stored.get(family),
        ),
      ]),
    );
  }

  /** Returns the mode for now: what is not announced in an object from disk may be announced. */
  #unlessUnread(selected: PeerMode, peer: Peer, family: Family): PeerMode {
    if (selected.reason !== 'notAnnounced' && selected.reason !== 'announcing') return selected;
    const path = this.#options.previousPath?.(peer, family);
    return path ? { mode: 'direct', reason: 'previous', path } : selected;
  }

  /** Returns the mode for now: a peer that was reached without a tunnel stays so until packets of pods fit into it. */
  #afterResize(selected: PeerMode, before: PeerMode | undefined): PeerMode {
    const { fitsTunnel = () => true } = this.#options;
    const isNeeded = selected.mode === 'tunnel' && selected.reason !== 'noAddress' && before?.mode === 'direct';
    return isNeeded && !fitsTunnel() ? { ...before, reason: 'resizing' } : selected;
  }

  #factsOf(peer: Peer, family: Family, ends: readonly Ip[]): PeerPathFacts {
    const { settings, linkTo, isExpected, echoOf, encryptionOf = () => ({ state: 'off' }) } = this.#options;
    const address = ends.find((ip) => ip.family === family);
    const announces = peer.announces === 'direct';
    // In `encap` nothing is looked up: thousands of peers may join at once.
    const isPossible = settings.encapMode !== 'encap' && address !== undefined && announces;
    return {
      encryption: encryptionOf(peer.name),
      address,
      announces,
      isExpected: isExpected(),
      link: isPossible ? linkTo(address) : undefined,
      isListed: address !== undefined && settings.directCidrs.some((cidr) => cidrContains(cidr, address)),
      echo: isPossible ? echoOf(peer, family) : 'unknown',
    };
  }
}

function withTime(mode: PeerMode, before: SelectedMode | undefined, date: Date): SelectedMode {
  return { ...mode, since: before?.mode === mode.mode ? before.since : date.toISOString() };
}

function isCandidate({ mode, reason }: PeerMode): boolean {
  return mode === 'direct' || reason === 'notVerified' || reason === 'echoLost';
}

function isSame(before: PeerMode | undefined, mode: PeerMode): boolean {
  if (!before || before.mode !== mode.mode || before.reason !== mode.reason) return false;
  const hopOf = (one: PeerMode): string => (one.mode === 'tunnel' || !one.path.hop ? '' : `${one.path.hop.via?.text} ${one.path.hop.dev}`);
  return hopOf(before) === hopOf(mode);
}
