import { idle } from '../../base/async/pause.ts';
import { SeineError } from '../../base/errors/seine-error.ts';
import type { Ip } from '../../base/net/ip.ts';
import { getLink } from '../../netlink/links.ts';
import { Batch } from '../../netlink/message.ts';
import { EchoSocket } from '../../netlink/packets/icmp-echo.ts';
import { getNeighbour, resolveNeighbour } from '../../netlink/routing/neighbours.ts';
import { lookUpRoute, type Route } from '../../netlink/routing/routes.ts';
import { NetlinkSocket } from '../../netlink/socket.ts';
import { type CandidatePath, DirectEcho, type DirectEchoEnds } from './direct-echo.ts';
import type { EchoRound, PathVerification } from './path-verification.ts';

/** Number of paths tested at once. */
const AT_ONCE = 32;
/** Time to wait for each reply (ms). */
const PATIENCE_MS = 1_000;
/** Time to wait for the MAC address of a next hop (ms), and number of attempts. */
const resolving = { everyMs: 100, attempts: 10 } as const;
/** Size of the echo to a transport address (bytes). */
const ECHO_BYTES = 84;

interface PathProbe {
  /** @throws SeineError if the test is not possible */
  test(path: CandidatePath, signal: AbortSignal): Promise<EchoRound>;
  close(): void;
}

interface VerifyPathsOptions {
  readonly paths: () => readonly CandidatePath[];
  readonly verification: PathVerification;
  /** Called when results have changed. */
  readonly changed: () => void;
  readonly probe: PathProbe;
}

/** Tests all candidate paths once, some at a time. A path that cannot be tested keeps its result. */
export async function verifyPaths({ paths, verification, changed, probe }: VerifyPathsOptions, signal: AbortSignal): Promise<void> {
  const waiting = [...paths()];
  const work = async (): Promise<void> => {
    for (let path = waiting.pop(); path && !signal.aborted; path = waiting.pop()) {
      const round = await probe.test(path, signal).catch(noResult);
      if (round && verification.note(path.peer, path.family, round)) changed();
    }
  };
  await Promise.all(Array.from({ length: Math.min(AT_ONCE, waiting.length) }, work));
}

function noResult(thrown: unknown): undefined {
  if (SeineError.from(thrown, 'verify a path').code === 'INVARIANT') throw thrown;
}

/** Tests paths with echo requests in this namespace. The opener closes it. @throws SeineError `REFUSED` without CAP_NET_RAW */
export function openPathProbe(): PathProbe {
  const echo = new DirectEcho(['ipv4', 'ipv6']);
  const socket = NetlinkSocket.open();
  return {
    test: async (path, signal) => {
      const route = lookUpRoute(socket, path.transport);
      if (!route?.source) return { direct: false, transport: false };
      const ends = await endsOf(socket, path, route, signal);
      const [direct, transport] = await Promise.all([
        ends ? echo.ask(ends, PATIENCE_MS) : false,
        isAnswering({ from: route.source, to: path.transport }, signal),
      ]);
      return { direct, transport };
    },
    close: () => {
      echo.close();
      socket.close();
    },
  };
}

/** Returns the ends of a request by the kernel's way to the peer's transport address; undefined if the next hop has no MAC address. */
async function endsOf(
  socket: NetlinkSocket,
  { from, to, transport }: CandidatePath,
  route: Route,
  signal: AbortSignal,
): Promise<DirectEchoEnds | undefined> {
  const link = route.link === undefined ? undefined : getLink(socket, route.link);
  if (!link?.mac) return undefined;
  const hop = { link: link.index, address: route.gateway ?? transport };
  for (let attempt = 0; attempt < resolving.attempts && !signal.aborted; attempt++) {
    const nextHop = getNeighbour(socket, hop)?.mac;
    if (nextHop) return { from, to, source: link.mac, nextHop, link: link.index };
    const batch = new Batch();
    resolveNeighbour(batch, hop);
    socket.attempt(batch);
    await idle(resolving.everyMs, signal);
  }
  return undefined;
}

async function isAnswering(ends: { readonly from: Ip; readonly to: Ip }, signal: AbortSignal): Promise<boolean> {
  const echo = EchoSocket.open(ends);
  try {
    return (await echo.ask(ECHO_BYTES, PATIENCE_MS, signal)) === 'answered';
  } finally {
    echo.close();
  }
}
