import { cookieWords, type Owner } from '../../pipeline/cookie.ts';
import type { BridgeKey, BridgeValue } from './bridge-entry.ts';
import { ByteTemplate, probes } from './encoding/byte-template.ts';

/** Template of a flow's entry with variable bytes. */
export interface EntryTemplate {
  readonly key: ByteTemplate;
  readonly value: ByteTemplate;
}

/**
 * Returns templates of flows.
 *
 * @param given number of variable bytes
 * @param encode returns the entries of the flows, in the same order each time
 * @throws SeineError `INVARIANT` if they differ by more than the variable bytes
 */
export function entryTemplates(
  given: number,
  encode: (bytes: Uint8Array) => Iterable<readonly [string, string]>,
): readonly EntryTemplate[] {
  const encoded = probes(given, (bytes) => [...encode(bytes)]);
  return (encoded[0] ?? []).map((_, at) => {
    const texts = (of: 0 | 1): string[] => encoded.map((entries) => entries[at]?.[of] ?? '');
    return { key: ByteTemplate.of(texts(0), given), value: ByteTemplate.of(texts(1), given) };
  });
}

/** Returns the entries with the variable bytes and the owner's cookie filled in. */
export function filledEntries(templates: readonly EntryTemplate[], owner: Owner, given: Uint8Array): ReadonlyMap<BridgeKey, BridgeValue> {
  const { high, low } = cookieWords(owner);
  const entries = new Map<BridgeKey, BridgeValue>();
  for (const { key, value } of templates) {
    value.bytes.writeUInt32BE(high, 0);
    value.bytes.writeUInt32BE(low, 4);
    entries.set(key.fill(given) as BridgeKey, value.fill(given) as BridgeValue);
  }
  return entries;
}
