import { idle } from '../../base/async/pause.ts';
import { Doorbell } from '../../base/async/wake-signal.ts';
import { SeineError } from '../../base/errors/seine-error.ts';
import type { Log } from '../../base/log/log.ts';
import type { Cidr, Family } from '../../base/net/ip.ts';
import type { DirectPath } from '../../dataplane/compile/compile-direct.ts';
import { wireGuardDevice } from '../../dataplane/pipeline/well-known.ts';
import type { NodeState } from '../../dataplane/targets/node-state.ts';
import type { Replica } from '../../kubernetes/client/replica/replica.ts';
import type { Node } from '../../kubernetes/resources/node.ts';
import { peerModesAnnotation } from '../../kubernetes/resources/node-annotations.ts';
import type { Peer } from '../../kubernetes/resources/peer-source.ts';
import { getLink } from '../../netlink/links.ts';
import { listRoutes, ourProtocol } from '../../netlink/routing/routes.ts';
import type { NetlinkSocket } from '../../netlink/socket.ts';
import type { LiveEnvironment } from '../../nodes/local/live-environment.ts';
import type { PeerPaths } from '../../nodes/local/node-environment.ts';
import type { Readiness } from '../../nodes/local/readiness.ts';
import { Announcement } from '../../nodes/modes/announcement.ts';
import type { CandidatePath } from '../../nodes/modes/direct-echo.ts';
import type { OwnAnnotations } from '../../nodes/modes/own-annotations.ts';
import { PathVerification } from '../../nodes/modes/path-verification.ts';
import { linkTo } from '../../nodes/modes/peer-link.ts';
import { PeerModes } from '../../nodes/modes/peer-modes.ts';
import { RecentLinks } from '../../nodes/modes/recent-links.ts';
import { TunnelResize } from '../../nodes/modes/tunnel-resize.ts';
import { openPathProbe, verifyPaths } from '../../nodes/modes/verify-paths.ts';
import type { Peers } from '../../nodes/peers/peers.ts';
import type { Encryption } from '../../nodes/wireguard/encryption.ts';
import type { AgentConfig } from '../config/agent-config.ts';

/** Interval between checks of the kernel's routes to peers, and between echoes to them (ms). */
const CHECK_EVERY_MS = 10_000;
/** The same while a path has no result yet. */
const FIRST_CHECK_EVERY_MS = 1_000;

interface PeerPathParts {
  readonly config: AgentConfig;
  readonly nodes: Pick<Replica<Node>, 'get' | 'synced'>;
  readonly socket: NetlinkSocket;
  /** Returns the encryption of peers, once it is known. */
  readonly encryption: () => Pick<Encryption, 'of'> | undefined;
}

/** Ways between this node and its peers: their selection, and what it depends on. */
export interface PeerPathSelection {
  readonly modes: PeerModes;
  readonly announcement: Announcement;
  readonly verification: PathVerification;
  /** Options of `Peers`. */
  readonly ofPeers: { readonly modes: PeerModes; readonly inheritedPath: (network: Cidr) => DirectPath | undefined };
  readonly current: () => Pick<PeerPaths, 'acceptsDirect' | 'usesTunnel'>;
  /** Determines again whether the tunnel is used, once all peers are known. */
  readonly settle: () => void;
  /** MTU of pods before a peer is reached through the tunnel. */
  readonly resize: TunnelResize;
  /** Forgets the paths of a previous agent, if Node objects are read: this one has results of its own. */
  readonly forgetInherited: () => void;
}

/** Opens the selection of ways to peers, beginning with those of a previous agent. */
export function openPeerPaths(parts: PeerPathParts): PeerPathSelection {
  const { config, nodes, socket } = parts;
  const now = () => performance.now();
  const { trafficEncapMode: encapMode, hostGateway } = config;
  const announcement = new Announcement({ encapMode, node: () => nodes.get(config.nodeName), isSynced: () => nodes.synced, now });
  const verification = new PathVerification(now);
  const inherited = routesOfPreviousAgent(socket, hostGateway);
  const resize = new TunnelResize(encapMode !== 'noEncap' || !hasWholeMtu(socket, hostGateway, config));
  const modes = openModes(parts, { announcement, verification, inherited, resize, now });
  return {
    modes,
    announcement,
    verification,
    ofPeers: { modes, inheritedPath: takenOnce(inherited) },
    current: () => {
      announcement.check();
      return { acceptsDirect: announcement.accepts, usesTunnel: resize.usesTunnel };
    },
    settle: () => {
      modes.known();
      resize.want(encapMode !== 'noEncap' || modes.usesTunnel());
    },
    resize,
    forgetInherited: () => {
      if (nodes.synced) inherited.clear(); // until then they are the paths to peers whose announcements are not read
    },
  };
}

interface ModeFacts {
  readonly announcement: Announcement;
  readonly verification: PathVerification;
  /** Paths by pod network. */
  readonly inherited: ReadonlyMap<string, DirectPath>;
  readonly resize: TunnelResize;
  readonly now: () => number;
}

function openModes({ config, nodes, socket, encryption }: PeerPathParts, facts: ModeFacts): PeerModes {
  const { announcement, verification, inherited, resize, now } = facts;
  const { trafficEncapMode: encapMode, directRoutes, hybrid } = config;
  const inheritedOf = ({ podCidrs }: Peer, family: Family): DirectPath | undefined => {
    const network = podCidrs.find((text) => text.includes(':') === (family === 'ipv6') && inherited.has(text));
    return network === undefined ? undefined : inherited.get(network);
  };
  const previousPath = (peer: Peer, family: Family): DirectPath | undefined => {
    const path = nodes.synced ? undefined : inheritedOf(peer, family);
    return path?.hop?.dev === wireGuardDevice ? undefined : path; // of WireGuard, encryption decides
  };
  const echoOf = (peer: Peer, family: Family) => {
    if (inheritedOf(peer, family)) verification.inherit(peer.name, family);
    return verification.resultOf(peer.name, family);
  };
  const links = new RecentLinks({ read: (index) => getLink(socket, index), now });
  return new PeerModes({
    settings: { encapMode, directRoutes, verifyDirect: hybrid.verifyDirect, directCidrs: hybrid.directCIDRs },
    linkTo: (address) => linkTo(socket, links, address),
    isExpected: () => announcement.isExpected,
    accepts: () => announcement.accepts,
    ...(encapMode === 'encap' ? {} : { previousPath }),
    encryptionOf: (peer) => encryption()?.of(peer) ?? { state: 'off' },
    echoOf,
    resultOf: (peer, family) => verification.resultOf(peer, family),
    fitsTunnel: () => resize.fits,
    needsTunnel: () => resize.needed(),
    forgotten: (peer) => verification.forget(peer),
    now,
    date: () => new Date(),
  });
}

/** Returns a function that returns each path once. */
function takenOnce(paths: ReadonlyMap<string, DirectPath>): (network: Cidr) => DirectPath | undefined {
  const untaken = new Map(paths);
  return ({ text }) => {
    const path = untaken.get(text);
    untaken.delete(text);
    return path;
  };
}

/** Returns the networks for which the node has a route of Seine's that is not one to the bridge: a previous agent sent there directly. */
function routesOfPreviousAgent(socket: NetlinkSocket, gateway: string): Map<string, DirectPath> {
  const bridge = getLink(socket, gateway)?.index;
  const routes = (['ipv4', 'ipv6'] as const).flatMap((family) => listRoutes(socket, { family, protocol: ourProtocol }));
  const paths = new Map<string, DirectPath>();
  for (const { destination, gateway: via, link } of routes) {
    const dev = link === undefined || link === bridge ? undefined : getLink(socket, link)?.name;
    if (dev !== undefined && dev !== 'lo') paths.set(destination.text, { hop: { ...(via ? { via } : {}), dev } });
  }
  return paths;
}

/** Reports whether the gateway has an MTU without room for a tunnel's header: a previous agent needed none. */
function hasWholeMtu(socket: NetlinkSocket, gateway: string, { defaultMTU, transportInterface }: AgentConfig): boolean {
  const mtu = getLink(socket, gateway)?.mtu;
  const transport = transportInterface === undefined ? undefined : getLink(socket, transportInterface)?.mtu;
  return mtu !== undefined && defaultMTU === 0 && mtu === (transport ?? defaultRouteMtu(socket));
}

/** Returns the MTU of the interface that carries the node's default route, where the transport interface is not configured. */
function defaultRouteMtu(socket: NetlinkSocket): number | undefined {
  const routes = (['ipv4', 'ipv6'] as const).flatMap((family) => listRoutes(socket, { family }));
  const link = routes.find(({ destination, link: of }) => destination.prefixLength === 0 && of !== undefined)?.link;
  return link === undefined ? undefined : getLink(socket, link)?.mtu;
}

interface KeepParts {
  readonly config: AgentConfig;
  readonly paths: PeerPathSelection;
  readonly annotations: Pick<OwnAnnotations, 'want' | 'subscribe'>;
  readonly sources: { readonly nodes: { readonly replica: Pick<Replica<Node>, 'synced'> } };
  readonly nodeState: Pick<NodeState, 'firewall' | 'host' | 'links' | 'reconcilers'>;
  readonly readiness: Pick<Readiness, 'whenReady'>;
  readonly log: Log;
}

interface KeptNode {
  readonly peers: Peers;
  readonly live: LiveEnvironment;
}

/** Keeps the ways to peers, and this node's announcement of them, up to date until the signal is aborted. */
export async function keepPeerPaths(parts: KeepParts, node: KeptNode, signal: AbortSignal): Promise<void> {
  const changed = new Doorbell();
  parts.paths.resize.needed = () => changed.ring();
  await Promise.all([announce(parts, changed, signal), checkModes(parts, node, changed, signal), verify(parts, node, changed, signal)]);
}

/** Announces direct packets once this node accepts them. */
async function announce(parts: KeepParts, changed: Doorbell, signal: AbortSignal): Promise<void> {
  const { paths, annotations, nodeState, readiness } = parts;
  const { firewall, reconcilers } = nodeState;
  const unsubscribe = annotations.subscribe(() => changed.ring());
  try {
    await readiness.whenReady(signal);
    await reconcilers.firewall.realized(firewall.revision, signal);
    await wantWhenDue(paths.announcement, annotations, signal);
  } catch (thrown) {
    if (!signal.aborted) throw thrown;
  } finally {
    unsubscribe();
  }
}

/** Sets the desired value; that of a node that has returned to the tunnel changes by itself. */
async function wantWhenDue(announcement: Announcement, annotations: Pick<OwnAnnotations, 'want'>, signal: AbortSignal): Promise<void> {
  announcement.begin();
  while (!signal.aborted) {
    announcement.check();
    annotations.want(peerModesAnnotation, announcement.value);
    await idle(Math.max(Math.min(announcement.changesInMs ?? CHECK_EVERY_MS, CHECK_EVERY_MS), 1), signal);
  }
}

/** Selects the modes of all peers again when the announcement or the kernel's routes may have changed; with `encap`, after a change to it. */
async function checkModes(parts: KeepParts, { peers, live }: KeptNode, changed: Doorbell, signal: AbortSignal): Promise<void> {
  const { paths, sources, readiness } = parts;
  const { announcement } = paths;
  await readiness.whenReady(signal).catch(() => undefined);
  for (let accepted = announcement.accepts; !signal.aborted; accepted = announcement.accepts) {
    announcement.check();
    if (accepted || announcement.accepts) {
      live.look();
      await peers.checkModes();
      await peers.settled();
      if (sources.nodes.replica.synced) paths.settle();
      live.look();
      await resizeForTunnel(parts, peers, signal);
    }
    const dueMs = Math.min(announcement.changesInMs ?? CHECK_EVERY_MS, CHECK_EVERY_MS);
    const timer = announcement.accepts ? setTimeout(() => changed.ring(), Math.max(dueMs, 1)) : undefined;
    await changed.wait(signal);
    clearTimeout(timer);
  }
}

/** Waits until pods have the MTU of the tunnel if a peer needs it, and selects the modes of peers again. */
async function resizeForTunnel({ paths, nodeState }: KeepParts, peers: Peers, signal: AbortSignal): Promise<void> {
  if (!paths.resize.isPending) return;
  const { host, links, reconcilers } = nodeState;
  // A pod whose interface cannot be changed must not keep all others from the peer.
  await Promise.allSettled([reconcilers.links.realized(links.revision, signal), reconcilers.host.realized(host.revision, signal)]);
  if (signal.aborted) return;
  paths.resize.done();
  await peers.checkModes();
  await peers.settled();
}

/** Sends echoes to peers without a tunnel where that matters. */
async function verify(parts: KeepParts, node: KeptNode, changed: Doorbell, signal: AbortSignal): Promise<void> {
  const { config, paths, readiness, log } = parts;
  if (config.trafficEncapMode === 'encap') return;
  await readiness.whenReady(signal).catch(() => undefined);
  const probe = pathProbe(node.live, log);
  if (!probe) return;
  const run = (which: VerifiedPaths, everyMs: number) => verifyRegularly({ paths, which, everyMs, changed, probe }, signal);
  await Promise.all([run('new', FIRST_CHECK_EVERY_MS), run('others', CHECK_EVERY_MS)]);
  probe.close();
}

/** Paths without a result yet, or all others. */
type VerifiedPaths = 'new' | 'others';

interface VerifyRegularlyOptions {
  readonly paths: PeerPathSelection;
  readonly which: VerifiedPaths;
  readonly everyMs: number;
  readonly changed: Doorbell;
  readonly probe: ReturnType<typeof openPathProbe>;
}

/** Sends echoes to peers without a tunnel, a round in each interval. */
async function verifyRegularly({ paths, which, everyMs, changed, probe }: VerifyRegularlyOptions, signal: AbortSignal): Promise<void> {
  const { modes, verification } = paths;
  const selected = function* (): Generator<CandidatePath> {
    for (const path of modes.candidates()) if (verification.isNew(path.peer, path.family) === (which === 'new')) yield path;
  };
  while (!signal.aborted) {
    const beganMs = performance.now();
    let count = 0;
    for (const _ of selected()) count++;
    await verifyPaths({ paths: selected(), count, verification, changed: () => changed.ring(), probe }, signal);
    if (count > 0) paths.forgetInherited();
    await idle(Math.max(everyMs - (performance.now() - beganMs), FIRST_CHECK_EVERY_MS), signal);
  }
}

function pathProbe(live: LiveEnvironment, log: Log): ReturnType<typeof openPathProbe> | undefined {
  try {
    return openPathProbe((of) => live.current.gateway.addresses.find(({ family }) => family === of));
  } catch (thrown) {
    const { code, message } = SeineError.from(thrown, 'open the sockets of echoes');
    if (code !== 'REFUSED') throw thrown;
    log.error('paths to peers without a tunnel cannot be verified: the agent needs CAP_NET_RAW', { cause: message });
    return undefined;
  }
}
