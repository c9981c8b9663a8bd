import { SeineError } from '../base/errors/seine-error.ts';

/** Number of a network interface; unique within its namespace. */
export type IfIndex = number & { readonly brand: 'IfIndex' };

/**
 * Stricter than the kernel's `dev_valid_name`: an accepted name is also safe in a path, a log line and an nftables rule. `all` and
 * `default` have other meanings in `/proc/sys/net/ipv4/conf`.
 *
 * @throws SeineError `INVALID_INPUT`
 */
export function interfaceName(text: string): string {
  if (!/^[A-Za-z0-9_][A-Za-z0-9_.-]{0,14}$/.test(text) || text === 'all' || text === 'default')
    throw new SeineError('INVALID_INPUT', `${JSON.stringify(text)} is not a name for a network interface (1 to 15 of A–Z a–z 0–9 _ . -)`);
  return text;
}

/** @throws SeineError `INVARIANT` unless `index` is positive */
export function ifIndex(index: number): IfIndex {
  if (!Number.isInteger(index) || index <= 0 || index > 0x7fff_ffff)
    throw new SeineError('INVARIANT', `${index} is not an interface index`);
  return index as IfIndex;
}
