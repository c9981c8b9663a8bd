/**
 * Computes the Internet checksum of these bytes, one part after another, with the checksum field set to 0. A part with an odd number of
 * bytes counts as if a zero followed, so only the last part may have one.
 *
 * Source: RFC 1071. For UDP, the caller must send a result of 0 as 0xffff (RFC 768).
 */
export function internetChecksum(...parts: readonly Uint8Array[]): number {
  let sum = 0;
  for (const part of parts) for (let at = 0; at < part.length; at += 2) sum += ((part[at] ?? 0) << 8) | (part[at + 1] ?? 0);
  while (sum > 0xffff) sum = (sum & 0xffff) + Math.floor(sum / 0x10000);
  return ~sum & 0xffff;
}
