const offsetBasis = 0x811c9dc5;
const prime = 0x01000193;

/** Returns the 32-bit FNV-1a hash of bytes. Source: draft-eastlake-fnv. */
export function fnv1a(bytes: readonly number[]): number {
  let hash = offsetBasis;
  for (const byte of bytes) hash = Math.imul(hash ^ byte, prime);
  return hash >>> 0;
}

/** Returns the hash of a string by its UTF-16 code units. @param before hash of the preceding string */
export function fnv1aOf(text: string, before = offsetBasis): number {
  let hash = before;
  for (let at = 0; at < text.length; at++) hash = Math.imul(hash ^ text.charCodeAt(at), prime);
  return hash >>> 0;
}
