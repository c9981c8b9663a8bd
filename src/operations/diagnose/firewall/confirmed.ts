import { pause } from '../../../base/async/pause.ts';
import type { Blocked } from './foreign-firewall.ts';

/**
 * What is blocked by two looks. Test packets are also lost while the switch stands still, the gateway is down or the node's own rules are
 * being put back: that passes, and no foreign packet filter is to blame.
 *
 * @param find looks once
 * @param afterMs when the second look is, if the first found anything
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
