import { cookieFeature, isLearned } from '../dataplane/pipeline/cookie.ts';
import { safeText } from './escape.ts';
import type { Paint } from './paint.ts';
import { shortOwner } from './words.ts';

/** Owners by cookie, as reported by the agent. */
export type Owners = ReadonlyMap<bigint, string>;

interface Annotated {
  readonly line: string;
  /** `none` for a line without a cookie, such as the headline of the dump. */
  readonly cookie: 'known' | 'learned' | 'unknown' | 'none';
}

/**
 * Appends the flow's owner to a line of `ovs-ofctl dump-flows`.
 *
 * Understands the output with and without `--names` and `--no-stats`; other text passes unchanged.
 */
export function annotateLine(text: string, owners: Owners, paint: Paint): Annotated {
  const line = safeText(text).trimEnd();
  const [, digits] = /(?:^|[\s,])cookie=(0x[0-9a-fA-F]{1,16}|0)(?=[,\s]|$)/.exec(text) ?? [];
  if (digits === undefined) return { line, cookie: 'none' };
  const cookie = BigInt(digits);
  const owner = owners.get(cookie);
  const comment = (what: string): string => `${line} ${paint('quiet', `# ${what}`)}`;
  if (owner !== undefined) return { line: comment(safeText(shortOwner(owner))), cookie: 'known' };
  if (isLearned(cookie)) return { line: comment('learned by OVS'), cookie: 'learned' };
  return { line: comment(`unknown: ${guess(cookie)}`), cookie: 'unknown' };
}

function guess(cookie: bigint): string {
  const feature = cookieFeature(cookie);
  if (cookie === 0n || feature === undefined) return 'no cookie of Seine';
  return `a ${feature} that is no longer desired on this node`;
}
