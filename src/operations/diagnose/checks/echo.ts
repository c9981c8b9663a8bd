import type { Ip } from '../../../base/net/ip.ts';
import { errnoOf } from '../../../netlink/errno.ts';
import { type EchoOutcome, EchoSocket } from '../../../netlink/packets/icmp-echo.ts';

/** How long an echo may take through a tunnel (ms). One that was lost is asked for again. */
const PATIENCE_MS = 400;
const ATTEMPTS = 3;
/** What everything carries: no link of IPv6 takes less (RFC 8200 §5), and every tunnel is made for more. */
const SMALL_BYTES = 100;

/** What is asked of an echo socket. */
type Echo = Pick<EchoSocket, 'ask' | 'close'>;

/** @returns undefined if this node has no way there, or no such address */
export function openEcho(way: { readonly from: Ip; readonly to: Ip }): EchoSocket | undefined {
  try {
    return EchoSocket.open(way);
  } catch (thrown) {
    const errno = errnoOf(thrown);
    if (errno !== undefined && ['ENETUNREACH', 'EHOSTUNREACH', 'EADDRNOTAVAIL', 'EACCES'].includes(errno)) return undefined;
    throw thrown;
  }
}

/** Asks for one answer, several times if need be. */
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
 * The longest packet that comes back, up to `most`: that itself, usually. Otherwise it is searched for by halves; what is lost for
 * another reason meanwhile makes the answer too small.
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
