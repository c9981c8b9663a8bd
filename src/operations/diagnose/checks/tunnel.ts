import { randomInt } from 'node:crypto';
import type { Finding } from '../../../api/check.ts';
import type { Ip } from '../../../base/net/ip.ts';
import type { NodeEnvironment } from '../../../dataplane/compile/environment.ts';
import { ownerOf } from '../../../dataplane/pipeline/cookie.ts';
import { tunnelCarriers } from '../../../dataplane/pipeline/well-known.ts';
import type { Peer, PeerSource } from '../../../kubernetes/resources/peer-source.ts';
import type { ShownMode } from '../../../nodes/modes/peer-modes.ts';
import type { NodeReader } from '../entries/node-reader.ts';
import { type Check, type CheckContext, type FindingReporter, fine, reportAll, trouble } from './check.ts';
import { largestAnswered, openEcho, reaches } from './echo.ts';
import { UnresponsivePeers } from './tunnel-silence.ts';
import { assessPeer, type PathFacts, type PeerFacts } from './tunnel-text.ts';

/** Number of peers tested in parallel. */
const AT_ONCE = 32;

export interface TunnelPort {
  readonly config: { readonly ovsDatapathType: 'system' | 'netdev' };
  readonly peers: Pick<PeerSource, 'peers'>;
  readonly nodeState: { readonly bridge: { has(owner: string): boolean } };
  readonly reader: Pick<NodeReader, 'tunnelPackets'>;
  /** @throws SeineError `UNAVAILABLE` until the node is known */
  readonly running: () => {
    readonly environment: NodeEnvironment;
    readonly peers: { modesOf(name: string): readonly ShownMode[]; gatewaysOf(name: string): readonly Ip[] };
  };
}

/**
 * Checks that every other node answers, in the mode in which this node sends to it, to small packets and to the longest that pods send. An
 * echo reply arrives only if both directions work; if there is none, the counters of packets from the peer distinguish the two as far as
 * possible.
 */
export function tunnel(port: TunnelPort): Check {
  return {
    name: 'tunnel',
    run: async ({ peers: want, blocked }, reporter, signal) => {
      const { environment } = port.running();
      const all = [...port.peers.peers()].toSorted((a, b) => (a.name < b.name ? -1 : 1));
      const asked = choose(all, want);
      if (asked.length === 0) {
        reporter.finding(noPeers(want));
        return;
      }
      reporter.progress(`asking ${asked.length} of ${all.length} other nodes`);
      const silent = new UnresponsivePeers({ reader: port.reader, environment, reporter, blocked }, signal);
      const answered = await askAll(port, environment, asked, { reporter, silent }, signal);
      await silent.end(asked.length);
      const sample = asked.length < all.length && !('name' in want) ? `, chosen at random from ${all.length}; use --peers all for all` : '';
      const what = `${answered} of ${asked.length} other nodes answer, with packets of ${environment.gateway.mtu} bytes${sample}`;
      if (answered > 0) reporter.finding(fine('tunnel.reach', what));
    },
  };
}

function noPeers(want: CheckContext['peers']): Finding {
  if (!('name' in want)) return fine('tunnel.reach', 'there is no other node');
  return trouble('tunnel.reach', 'unknown', {
    what: `there is no other node ${want.name}`,
    effect: 'nothing was tested',
    remedy: 'seinectl get nodes',
  });
}

/** Returns all if they are few enough, otherwise this number, chosen at random. */
export function choose<T extends { readonly name: string }>(all: readonly T[], want: CheckContext['peers'], lot = randomInt): readonly T[] {
  if ('name' in want) return all.filter(({ name }) => name === want.name);
  if (all.length <= want.most) return all;
  const left = [...all];
  return Array.from({ length: want.most }, () => left.splice(lot(left.length), 1)).flat();
}

interface Asking {
  readonly reporter: FindingReporter;
  readonly silent: UnresponsivePeers;
}

/** @returns the number of peers that answered on all of their paths, with packets of every size */
async function askAll(
  port: TunnelPort,
  environment: NodeEnvironment,
  peers: readonly Peer[],
  { reporter, silent }: Asking,
  signal: AbortSignal,
): Promise<number> {
  const left = [...peers];
  let [good, done] = [0, 0];
  const worker = async (): Promise<void> => {
    for (let peer = left.pop(); peer; peer = left.pop()) {
      signal.throwIfAborted();
      const facts = await askPeer(port, environment, peer, signal);
      if (facts.ways.some(({ echo }) => echo !== 'answered')) await silent.add(facts);
      else {
        const findings = assessPeer(facts);
        reportAll(reporter, findings);
        if (findings.length === 0) good++;
      }
      if (++done % 250 === 0) reporter.progress(`${done} of ${peers.length} other nodes tested`);
    }
  };
  await Promise.all(Array.from({ length: Math.min(AT_ONCE, peers.length) }, worker));
  return good;
}

async function askPeer(port: TunnelPort, environment: NodeEnvironment, peer: Peer, signal: AbortSignal): Promise<PeerFacts> {
  const ways = pathsTo(port, environment, peer);
  const asked = await Promise.all(ways.map((way) => probePath(way, environment.gateway.mtu, signal)));
  const transport = environment.transport.flatMap((own) => {
    const theirs = peer.transport[own.family];
    return theirs === undefined ? [] : [{ own: own.text, theirs }];
  });
  return {
    name: peer.name,
    ways: asked,
    transport: transport[0],
    carrier: carrierOf(environment),
    wireGuardPort: environment.wireGuard?.port,
    mtu: environment.gateway.mtu,
    dataPath: port.config.ovsDatapathType,
  };
}

interface Way {
  readonly from: Ip;
  readonly to: Ip;
  readonly mode: ShownMode['mode'] | undefined;
}

/** Returns the paths from our gateway to the peer's, in each family of the peer. */
function pathsTo({ nodeState, running }: TunnelPort, { gateway }: NodeEnvironment, { name }: Peer): readonly Way[] {
  if (!nodeState.bridge.has(ownerOf('peer', name))) return [];
  const { peers } = running();
  const modes = peers.modesOf(name);
  return peers.gatewaysOf(name).flatMap((to) => {
    const from = gateway.addresses.find(({ family }) => family === to.family);
    return from ? [{ from, to, mode: modes.find(({ family }) => family === to.family)?.mode }] : [];
  });
}

async function probePath({ from, to, mode }: Way, mtu: number, signal: AbortSignal): Promise<PathFacts> {
  const echo = openEcho({ from, to });
  const facts = { family: from.family, to: to.text, mode };
  if (echo === undefined) return { ...facts, echo: 'noRoute', largest: undefined };
  try {
    const small = await reaches(echo, {}, signal);
    if (small !== 'answered') return { ...facts, echo: small, largest: undefined };
    return { ...facts, echo: 'answered', largest: await largestAnswered(echo, mtu, signal) };
  } finally {
    echo.close();
  }
}

function carrierOf({ tunnel }: NodeEnvironment): string {
  const carrier = tunnelCarriers[tunnel.type];
  return carrier.protocol === 'udp' ? `UDP ${tunnel.port}` : `IP protocol ${carrier.ipProtocol}`;
}
