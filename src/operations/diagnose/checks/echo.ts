import type { Ip } from '../../../base/net/ip.ts';
import { errnoOf } from '../../../netlink/errno.ts';
import { type EchoOutcome, EchoSocket } from '../../../netlink/packets/icmp-echo.ts';

/** Maximum time for an echo through a tunnel (ms). A lost one is repeated. */
const PATIENCE_MS = 400;
const ATTEMPTS = 3;
/** Size that everything carries: no link of IPv6 has less (RFC 8200 §5), and every tunnel has more. */
const SMALL_BYTES = 100;

/** Part of an echo socket that is used. */
type Echo = Pick<EchoSocket, 'ask' | 'close'>;

/** @returns undefined if this node has no route there, or no such address */
export function openEcho(way: { readonly from: Ip; readonly to: Ip }): EchoSocket | undefined {
  try {
    return EchoSocket.open(way);
  } catch (thrown) {
    const errno = errnoOf(thrown);
    if (errno !== undefined && ['ENETUNREACH', 'EHOSTUNREACH', 'EADDRNOTAVAIL', 'EACCES'].includes(errno)) return undefined;
    throw thrown;
  }
}

/** Waits for one answer, with several requests if needed. */
export async function reaches(
  echo: Pick<Echo, 'ask'>,
  { bytes = SMALL_BYTES, attempts = ATTEMPTS }: { readonly bytes?: number; readonly attempts?: number },
  signal: AbortSignal,
): Promise<EchoOutcome> {
  let outcome: EchoOutcome = 'silent';
  for (let attempt = 0; attempt < attempts && outcome === 'silent'; attempt++) outcome = await echo.ask(bytes, PATIENCE_MS, signal);
  return outcome;
}

/**
 * Finds the longest packet that is answered, up to `most`: usually that itself. Otherwise by bisection; other losses meanwhile make the
 * result too small.
 *
 * @returns bytes of the IP packet
 */
export async function largestAnswered(echo: Pick<Echo, 'ask'>, most: number, signal: AbortSignal): Promise<number> {
  if ((await reaches(echo, { bytes: most }, signal)) === 'answered') return most;
  let [fits, tooLong] = [SMALL_BYTES, most];
  while (tooLong - fits > 1) {
    const middle = Math.floor((fits + tooLong) / 2);
    if ((await reaches(echo, { bytes: middle, attempts: 2 }, signal)) === 'answered') fits = middle;
    else tooLong = middle;
  }
  return fits;
}
