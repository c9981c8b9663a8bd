/** 64-bit digest of the entries of one owner, as 16 hexadecimal digits; the order of entries does not matter. */
export type OwnerDigest = string;

/** Returns the sum of the hashes of entries: 64 bits in two lanes. */
export function digestOf(entries: Iterable<readonly [key: string, value: string]>): OwnerDigest {
  let [high, low] = [0, 0];
  for (const [key, value] of entries) {
    const a = hashed(value, hashed(key, 0x811c9dc5, 0x01000193), 0x01000193);
    const b = hashed(value, hashed(key, 0x9747b28c, 0x85ebca6b), 0x85ebca6b);
    // The sum must not let two lanes with one carry cancel out: each entry is mixed before it is added.
    low = (low + mixed(a ^ Math.imul(b, 0x9e3779b1))) >>> 0;
    high = (high + mixed(b ^ Math.imul(a, 0xc2b2ae35))) >>> 0;
  }
  return high.toString(16).padStart(8, '0') + low.toString(16).padStart(8, '0');
}

/** FNV-1a, with the length so that key and value do not run into each other. */
function hashed(text: string, before: number, prime: number): number {
  let hash = Math.imul(before ^ text.length, prime);
  for (let at = 0; at < text.length; at++) hash = Math.imul(hash ^ text.charCodeAt(at), prime);
  return hash;
}

/** Finalizer of MurmurHash3. */
function mixed(value: number): number {
  let hash = value ^ (value >>> 16);
  hash = Math.imul(hash, 0x85ebca6b);
  hash ^= hash >>> 13;
  hash = Math.imul(hash, 0xc2b2ae35);
  return (hash ^ (hash >>> 16)) >>> 0;
}
