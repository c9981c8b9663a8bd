import type { LoopTurns } from '../../base/async/loop-turns.ts';
import { idle } from '../../base/async/pause.ts';
import { SeineError } from '../../base/errors/seine-error.ts';
import type { Log } from '../../base/log/log.ts';
import { UnservedReasons } from '../../base/log/unserved-reasons.ts';
import { type Cidr, cidrAddress, cidrContains, type Family, hostCidr, type Ip, overlaps, parseCidr, parseIp } from '../../base/net/ip.ts';
import { overlapsAny } from '../../base/net/network-index.ts';
import type { DirectPath } from '../../dataplane/compile/compile-direct.ts';
import { type PeerIntent, reachedEnd, reachedNetworks } from '../../dataplane/compile/compile-peer.ts';
import { familiesOf, type NodeEnvironment } from '../../dataplane/compile/environment.ts';
import { type Owner, ownerOf } from '../../dataplane/pipeline/cookie.ts';
import type { NodeState } from '../../dataplane/targets/node-state.ts';
import type { Peer, PeerSource } from '../../kubernetes/resources/peer-source.ts';
import { transportOf } from '../local/node-environment.ts';
import type { PeerModes, ShownMode } from '../modes/peer-modes.ts';
import type { Encryption } from '../wireguard/encryption.ts';
import { type AddressClaim, AddressClaims, differing, type ReservedRange } from './address-claims.ts';
import { Blackholes } from './blackholes.ts';
import { PeerInstaller } from './peer-installer.ts';
import { claimsOf } from './peer-pod-networks.ts';
import { PreviousPodCidrs } from './previous-pod-cidrs.ts';
import { objectionsToFamily } from './tunnel-addresses.ts';
import { encryptedNetworkElements, podNetworkElements, tunnelPeerElements } from './tunnel-peer-elements.ts';

type HoldersListener = (ranges: readonly Cidr[]) => void;

/** Interval between checks whether the node still refuses a change of a peer's mode (ms). */
const REFUSED_CHECK_MS = 2_000;

/** Number of peers handled between turns of the event loop: a millisecond of work. */
const AT_ONCE = 4;

interface PeersOptions {
  readonly source: PeerSource;
  readonly nodeState: NodeState;
  /** Returns the current environment; call `checkAgain` after it has changed. */
  readonly environment: () => NodeEnvironment;
  /** Returns the current ranges, read from the kernel; call `reservedChanged` after they may have changed. */
  readonly reserved: () => readonly ReservedRange[];
  readonly dataPath: 'system' | 'netdev';
  /** Encryption of what is sent to each peer; absent: none. */
  readonly encryption?: Encryption;
  /** Selects tunnel or another way for each peer; absent: the tunnel. */
  readonly modes?: PeerModes;
  /** Returns the path by which a previous agent sent to a network without a tunnel. */
  readonly inheritedPath?: (network: Cidr) => DirectPath | undefined;
  /** Waits until packets are forwarded by the flows that the bridge has now; absent: they are as soon as it has them. */
  readonly whenFlowsApplied?: () => Promise<void>;
  /** Waits before a refused change of a peer's mode is checked again; absent: a few seconds. */
  readonly pause?: (signal: AbortSignal) => Promise<void>;
  /** Turns of the event loop: thousands of nodes may join at once, and pods start meanwhile. */
  readonly turns: LoopTurns;
  readonly log: Log;
}

/**
 * Keeps this node's entries for each other node synced with the peer source, one peer at a time. Invalid claims of a Node object are left
 * out and reported.
 *
 * A few changes are handled at once; many are handled in turns with the rest of the agent.
 */
export class Peers {
  /** Rejection reasons by node name. */
  readonly objections: UnservedReasons;
  readonly #options: PeersOptions;
  readonly #claims: AddressClaims;
  readonly #previousCidrs = new PreviousPodCidrs();
  readonly #installer: PeerInstaller;
  readonly #blackholes: Blackholes;
  #pending = new Set<string>();
  #isWorking = false;
  #work: Promise<void> = Promise.resolve();
  #reserved: readonly ReservedRange[];
  readonly #listeners = new Set<HoldersListener>();

  constructor(options: PeersOptions) {
    this.#options = options;
    this.#reserved = options.reserved();
    this.#claims = new AddressClaims(this.#reserved);
    this.#installer = new PeerInstaller({ pause: (signal) => idle(REFUSED_CHECK_MS, signal), ...options });
    this.#blackholes = new Blackholes(options.nodeState);
    this.objections = new UnservedReasons('Node', options.log);
  }

  /**
   * Handles known peers and follows changes.
   *
   * @param previousGone resolves once the bridge has no flows of a previous agent; absent: there are none
   * @returns a function that ends it
   */
  follow(previousGone: Promise<void> = Promise.resolve()): () => void {
    previousGone.catch(() => undefined); // the agent ends; a change that waits for it ends as well
    this.#installer.previousGone = previousGone;
    const { source } = this.#options;
    this.#refresh([...source.peers()].map(({ name }) => name));
    return source.subscribe((names) => this.#refresh(names));
  }

  /** Handles every peer again after a change of this node's environment. */
  checkAgain(): void {
    this.reservedChanged();
    this.#refresh([...this.#options.source.peers()].map(({ name }) => name));
  }

  /** Reads the reserved ranges again, and compares the peers whose claims they concern. Call after a change of the node's addresses. */
  reservedChanged(): void {
    const { source, reserved } = this.#options;
    const before = this.#reserved;
    this.#reserved = reserved();
    const ranges = differing(before, this.#reserved, ({ range, what, against }) => `${range.text} ${against} ${what}`);
    if (ranges.length === 0) return;
    this.#claims.reserve(this.#reserved);
    const isChanged = overlapsAny(ranges);
    const isConcerned = (peer: Peer): boolean => this.#claimsOf(peer).some(({ range }) => isChanged(range));
    this.#refresh([...source.peers()].filter(isConcerned).map(({ name }) => name));
    this.#announce(ranges);
  }

  /** Selects the modes of all peers again after facts about them may have changed; each may ask the kernel for a route. */
  async checkModes(): Promise<void> {
    const { source, modes, turns } = this.#options;
    if (!modes) return;
    const families = this.#families();
    const outdated: string[] = [];
    for (const peer of [...source.peers()]) {
      if (modes.isOutdated(peer, families)) outdated.push(peer.name);
      if (turns.due) await turns.next();
    }
    this.#refresh(outdated);
  }

  /** Handles some peers again after a change that their objects do not show. */
  checkPeers(names: Iterable<string>): void {
    this.#refresh(names);
  }

  /** Returns how this node sends to a peer. A mode that the node refuses is shown as the reason of the present one. */
  modesOf(name: string): readonly ShownMode[] {
    const shown = this.#options.modes?.shown(name) ?? [];
    const refusal = this.#installer.refusalOf(name);
    return refusal === undefined
      ? shown
      : shown.map((mode) => ({
          ...mode,
          mode: this.#installer.sendsOf(name).direct?.[mode.family] ? mode.mode : 'tunnel',
          reason: refusal,
        }));
  }

  /** Returns the reasons why the node refuses the new modes of peers, by name; these are still reached in the previous ones. */
  refusedModes(): ReadonlyMap<string, string> {
    return this.#installer.refusals;
  }

  /** Returns the gateway addresses of a peer, one for each pod network that this node accepts. */
  gatewaysOf(name: string): readonly Ip[] {
    const peer = this.#options.source.get(name);
    return peer ? this.#intentWith(peer, []).podCidrs.map((cidr) => cidrAddress(cidr, 1n)) : [];
  }

  /** Number of peers by mode and family. */
  modeCounts(): ReturnType<PeerModes['counts']> {
    return this.#options.modes?.counts() ?? [];
  }

  /** Calls back with networks for which `holderOf` may have changed. @returns a function that ends it */
  subscribe(listener: HoldersListener): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  /** Resolves once all known peers are in the desired state. */
  async settled(): Promise<void> {
    await this.#work;
  }

  /** Returns the compiler's input for each peer. */
  *intents(): Generator<PeerIntent> {
    for (const peer of this.#options.source.peers()) {
      const former = this.#formerClaims(peer.name).filter((claim) => this.#isFine(claim));
      yield {
        ...this.#intentWith(
          peer,
          former.map(({ range }) => range),
        ),
        ...this.#installer.sendsOf(peer.name),
      };
    }
  }

  /**
   * Returns the current holder of this address, as text for operators; a Service must not have it. A range of Services does not count as a
   * holder.
   *
   * @param service requests the address as its cluster address: a Node's claim counts only if it takes precedence over this Service
   */
  holderOf(ip: Ip, service?: { readonly createdAt?: string }): string | undefined {
    const { serviceCidrs } = this.#options.environment();
    const holds = ({ range, against }: ReservedRange): boolean =>
      against === 'both' && !serviceCidrs.includes(range) && cidrContains(range, ip);
    const counts = (claim: AddressClaim): boolean => service === undefined || this.#precedes(claim, service.createdAt);
    return this.#reserved.find(holds)?.what ?? this.#claims.claimantOf(hostCidr(ip), counts);
  }

  /**
   * Reports whether a Node's claim to a cluster address takes precedence over the Service that has it. Without a configured Service range,
   * a Node could otherwise take any Service from all nodes. A node can write its own tunnel address at any time: it counts only in the
   * network that carries the tunnels. A network of pods does not change after the Node has joined: it counts against Services created
   * later.
   */
  #precedes({ use, since, range }: AddressClaim, createdAt: string | undefined): boolean {
    if (use === 'tunnel') return this.#reserved.some(({ against, range: link }) => against === 'pods' && overlaps(link, range));
    return createdAt === undefined || (since !== '' && since <= createdAt);
  }

  #announce(ranges: readonly Cidr[]): void {
    if (ranges.length > 0) for (const listener of this.#listeners) listener(ranges);
  }

  #refresh(names: Iterable<string>): void {
    for (const name of names) this.#pending.add(name);
    if (!this.#isWorking) this.#work = this.#workOff();
  }

  /**
   * Handles pending peers. First the claims of all, then the entries of each: no node gets an address for a moment that another had first.
   */
  async #workOff(): Promise<void> {
    const { turns, source, encryption } = this.#options;
    this.#isWorking = true;
    while (this.#pending.size > 0) {
      const concerned = this.#pending;
      this.#pending = new Set();
      const ranges: Cidr[] = [];
      for (const name of [...concerned]) {
        const peer = source.get(name);
        this.#previousCidrs.note(name, peer?.podCidrs);
        const before = this.#claims.of(name);
        for (const other of this.#claims.set(name, peer ? this.#claimsOf(peer) : [])) concerned.add(other);
        for (const other of encryption?.note(name, peer) ?? []) concerned.add(other);
        ranges.push(...differing(before, this.#claims.of(name), ({ range, use }) => `${range.text} ${use}`));
        if (concerned.size > AT_ONCE && turns.due) await turns.next();
      }
      for (const name of concerned) {
        this.#want(name);
        if (concerned.size > AT_ONCE && turns.due) await turns.next();
      }
      this.#installer.wantRoutes();
      this.#blackholes.wantRoutes();
      this.#announce(ranges);
    }
    this.#isWorking = false;
  }

  /** Sets the entries of a peer. One invalid Node object must not end the agent, which serves all others. */
  #want(name: string): void {
    const { source } = this.#options;
    const owner = ownerOf('peer', name);
    const peer = source.get(name);
    try {
      if (!peer) this.#options.modes?.forget(name);
      const intent = peer && this.#withMode(peer, this.#intent(peer));
      this.#wantElements(name, peer, intent);
      this.#wantWireGuard(owner, intent);
      this.#installer.set(name, intent);
      this.objections.set(name, peer ? this.#objectionsTo(peer) : []);
    } catch (thrown) {
      this.#installer.set(name, undefined);
      this.#wantElements(name, peer, undefined);
      this.#wantWireGuard(owner, undefined);
      this.objections.set(name, [SeineError.from(thrown, `node ${name}`).message]);
    }
  }

  /** Sets the peer's nftables elements, also if this node has no tunnel to it. */
  #wantElements(name: string, peer: Peer | undefined, intent: PeerIntent | undefined): void {
    const { nodeState, environment } = this.#options;
    const families = familiesOf(environment());
    const networks = (intent?.podCidrs ?? []).filter(({ family }) => families.includes(family));
    const mustEncrypt = intent !== undefined && this.#mustEncrypt(intent);
    this.#blackholes.set(name, mustEncrypt ? networks : []);
    const isPlain = peer !== undefined && !mustEncrypt && this.#options.modes?.maySendDirectly(peer) === true;
    const encrypted = mustEncrypt ? encryptedNetworkElements(networks) : [];
    nodeState.wantElements(
      ownerOf('peer', name),
      new Map([...tunnelPeerElements((peer?.addresses ?? []).map(parseIp)), ...podNetworkElements(networks, isPlain), ...encrypted]),
    );
  }

  /** Sets the peer in the WireGuard device, also while packets are not sent to it that way yet: it accepts those that the peer sends. */
  #wantWireGuard(owner: Owner, intent: PeerIntent | undefined): void {
    const { nodeState, environment, encryption } = this.#options;
    if (!encryption) return;
    const end = intent && reachedEnd(intent, environment());
    nodeState.wantWireGuard(owner, intent ? encryption.entries(intent.name, end, reachedNetworks(intent, environment())) : new Map());
  }

  /** Reports whether packets to a peer and from it are dropped where they are not encrypted. */
  #mustEncrypt({ name }: PeerIntent): boolean {
    const { encryption } = this.#options;
    if (!encryption) return false;
    const { state } = encryption.of(name);
    return state === 'encrypted' || (state !== 'off' && encryption.refusesClear());
  }

  #intent(peer: Peer): PeerIntent {
    return this.#intentWith(peer, this.#formerOf(peer.name));
  }

  #intentWith(peer: Peer, former: readonly Cidr[]): PeerIntent {
    const { name, podCidrs, since = '' } = peer;
    const ends = this.#endsOf(peer);
    const shared = ends.filter((ip) => this.#claims.isShared({ node: name, since, use: 'tunnel', range: hostCidr(ip) }));
    const isFine = (range: Cidr): boolean => this.#isFine({ node: name, since, use: 'pods', range });
    return {
      name,
      podCidrs: [...podCidrs.map(parseCidr).filter(isFine), ...former],
      transport: ends,
      ...(shared.length > 0 ? { sharedTransport: shared } : {}),
    };
  }

  /** Returns the tunnel ends of a peer that it may have. */
  #endsOf({ name, transport, since = '' }: Peer): readonly Ip[] {
    return transportOf(transport).filter((ip) => this.#isFine({ node: name, since, use: 'tunnel', range: hostCidr(ip) }));
  }

  #families(): readonly Family[] {
    return familiesOf(this.#options.environment());
  }

  /** Returns the intent with the peer's mode, selected now. */
  #withMode(peer: Peer, intent: PeerIntent): PeerIntent {
    const { modes, encryption } = this.#options;
    const selected = modes ? { ...intent, ...modes.select(peer, intent, this.#families()) } : intent;
    if (!encryption) return selected;
    return {
      ...selected,
      ...(encryption.accepts(peer.name) ? { maySendDirectly: true as const } : {}),
      ...(this.#mustEncrypt(intent) && encryption.refusesClear() ? { refusesTunnel: true as const } : {}),
    };
  }

  #isFine(claim: AddressClaim): boolean {
    return this.#claims.objection(claim) === undefined;
  }

  /** Returns previous networks of a node. A node that now has such a network is its owner. */
  #formerOf(name: string): readonly Cidr[] {
    return this.#formerClaims(name).flatMap((claim) => {
      if (this.#isFine(claim)) return [claim.range];
      this.#previousCidrs.forget(name, claim.range.text);
      this.#pending.add(name); // it claims less now
      return [];
    });
  }

  #objectionsTo(peer: Peer): readonly string[] {
    const claims = this.#ownClaims(peer).flatMap((claim) => {
      const why = this.#claims.objection(claim);
      return why === undefined ? [] : [`${claim.use === 'pods' ? 'pod network' : 'tunnel address'} ${claim.range.text} ${why}`];
    });
    const { encryption } = this.#options;
    return [
      ...(peer.refusedPodCidrs ?? []),
      ...(peer.refusedAddresses ?? []),
      ...claims,
      ...objectionsToFamily(peer, this.#options.environment(), this.#options.dataPath),
      ...(encryption?.objections(peer.name) ?? []),
    ];
  }

  #claimsOf(peer: Peer): readonly AddressClaim[] {
    return [...this.#ownClaims(peer), ...this.#formerClaims(peer.name)];
  }

  /** Returns claims to previous networks. It is unknown how long they are needed, so every other claim takes precedence. */
  #formerClaims(node: string): readonly AddressClaim[] {
    const families = familiesOf(this.#options.environment());
    return this.#previousCidrs
      .of(node)
      .map(parseCidr)
      .filter(({ family }) => families.includes(family))
      .map((range): AddressClaim => ({ node, since: '', use: 'pods', range }));
  }

  /** Returns the claims in the families that this node has; others do not matter to it. */
  #ownClaims(peer: Peer): readonly AddressClaim[] {
    const families = familiesOf(this.#options.environment());
    return claimsOf(peer).filter(({ use, range }) => use === 'tunnel' || families.includes(range.family));
  }
}
