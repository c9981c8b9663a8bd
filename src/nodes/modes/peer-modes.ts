import { type Cidr, cidrContains, type Family, type Ip } from '../../base/net/ip.ts';
import type { PeerIntent } from '../../dataplane/compile/compile-peer.ts';
import type { Peer } from '../../kubernetes/resources/peer-source.ts';
import { type ModeSettings, type PeerMode, type PeerPathFacts, selectPeerMode } from './peer-mode.ts';

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
  readonly echoOf: (peer: string, family: Family) => PeerPathFacts['echo'];
  /** Returns the current time (ms since 1970). */
  readonly now: () => number;
}

/** Mode of a peer in one family, with the time of the last change. */
type SelectedMode = PeerMode & { readonly since: number };

/** Families in their order, with an address of a peer each. */
type PeerEnds = readonly Ip[];

/**
 * Selects how this node sends to each peer, by family, from the settings and from what the kernel and the peers' Node objects show at that
 * moment. Stores the last selection of each peer, for changes and for display.
 */
export class PeerModes {
  readonly #options: PeerModesOptions;
  readonly #selected = new Map<string, ReadonlyMap<Family, SelectedMode>>();

  constructor(options: PeerModesOptions) {
    this.#options = options;
  }

  get settings(): NodeModeSettings {
    return this.#options.settings;
  }

  /**
   * Selects the modes of a peer again, and stores them.
   *
   * @param ends its transport addresses that this node accepts
   * @param families of this node
   */
  select(peer: Peer, ends: PeerEnds, families: readonly Family[]): Pick<PeerIntent, 'direct' | 'maySendDirectly'> {
    const before = this.#selected.get(peer.name);
    const selected = this.#selectedFor(peer, ends, families);
    this.#selected.set(
      peer.name,
      new Map([...selected].map(([family, mode]) => [family, withTime(mode, before?.get(family), this.#options.now())])),
    );
    const direct = Object.fromEntries([...selected].flatMap(([family, mode]) => (mode.mode === 'tunnel' ? [] : [[family, mode.path]])));
    return {
      ...(Object.keys(direct).length > 0 ? { direct } : {}),
      ...(this.maySendDirectly(peer) ? { maySendDirectly: true as const } : {}),
    };
  }

  /** Reports whether a selection would differ from the stored one. */
  isOutdated(peer: Peer, ends: PeerEnds, families: readonly Family[]): boolean {
    const stored = this.#selected.get(peer.name);
    const now = this.#selectedFor(peer, ends, families);
    return stored?.size !== now.size || [...now].some(([family, mode]) => !isSame(stored.get(family), mode));
  }

  forget(name: string): void {
    this.#selected.delete(name);
  }

  /** Returns the stored selection of a peer. */
  of(name: string): ReadonlyMap<Family, SelectedMode> {
    return this.#selected.get(name) ?? new Map();
  }

  /** Reports whether packets without a tunnel are accepted from a peer. */
  maySendDirectly({ announcesDirect }: Peer): boolean {
    return announcesDirect === true && this.#options.accepts();
  }

  #selectedFor(peer: Peer, ends: PeerEnds, families: readonly Family[]): ReadonlyMap<Family, PeerMode> {
    const { settings } = this.#options;
    return new Map(families.map((family) => [family, selectPeerMode(settings, this.#factsOf(peer, family, ends))]));
  }

  #factsOf({ name, announcesDirect }: Peer, family: Family, ends: PeerEnds): PeerPathFacts {
    const { settings, linkTo, isExpected, echoOf } = this.#options;
    const address = ends.find((ip) => ip.family === family);
    // In `encap` nothing is looked up: thousands of peers may join at once.
    const isPossible = settings.encapMode !== 'encap' && address !== undefined && announcesDirect === true;
    return {
      address,
      announces: announcesDirect === true,
      isExpected: isExpected(),
      link: isPossible ? linkTo(address) : undefined,
      isListed: address !== undefined && settings.directCidrs.some((cidr) => cidrContains(cidr, address)),
      echo: isPossible ? echoOf(name, family) : 'unknown',
    };
  }
}

function withTime(mode: PeerMode, before: SelectedMode | undefined, now: number): SelectedMode {
  return { ...mode, since: before?.mode === mode.mode ? before.since : now };
}

function isSame(before: PeerMode | undefined, mode: PeerMode): boolean {
  if (!before || before.mode !== mode.mode || before.reason !== mode.reason) return false;
  const hopOf = (one: PeerMode): string => (one.mode === 'tunnel' || !one.path.hop ? '' : `${one.path.hop.via?.text} ${one.path.hop.dev}`);
  return hopOf(before) === hopOf(mode);
}
