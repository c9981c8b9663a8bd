import type { LoopTurns } from '../../../base/async/loop-turns.ts';
import { cookieOf, type Owner } from '../../../dataplane/pipeline/cookie.ts';

/** Owners by their cookies; both, if two should have the same. */
export async function ownersByCookie(owners: Iterable<string>, turns: LoopTurns): Promise<ReadonlyMap<bigint, string>> {
  const byCookie = new Map<bigint, string>();
  for (const owner of owners) {
    const cookie = cookieOf(owner as Owner);
    const other = byCookie.get(cookie);
    byCookie.set(cookie, other === undefined ? owner : `${other} or ${owner}`);
    if (turns.due) await turns.next();
  }
  return byCookie;
}
