import { pause } from '../../../base/async/pause.ts';
import type { Blocked } from './foreign-firewall.ts';

/**
 * Findings of two consecutive tests. Test packets are also lost while ovs-vswitchd is busy, the gateway is down or the node's own rules are
 * being restored: that is temporary, and not caused by other firewall rules.
 *
 * @param find runs one test
 * @param afterMs delay of the second test, if the first found anything
 */
export async function confirmed(
  find: () => Promise<readonly Blocked[]>,
  afterMs: number,
  signal: AbortSignal,
): Promise<readonly Blocked[]> {
  const first = await find();
  if (first.length === 0) return first;
  await pause(afterMs, signal);
  signal.throwIfAborted();
  const second = await find();
  return first.filter(({ family, hook }) => second.some((each) => each.family === family && each.hook === hook));
}
