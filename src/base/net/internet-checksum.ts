/**
 * The Internet checksum of these bytes, one part after the other, where the checksum itself is still 0.
 * A part of an odd number of bytes counts as if a zero followed, so only the last one may have that.
 *
 * Source: RFC 1071. For UDP a result of 0 is sent as 0xffff (RFC 768); that is the caller's business.
 */
export function internetChecksum(...parts: readonly Uint8Array[]): number {
  let sum = 0;
  for (const part of parts) for (let at = 0; at < part.length; at += 2) sum += ((part[at] ?? 0) << 8) | (part[at + 1] ?? 0);
  while (sum > 0xffff) sum = (sum & 0xffff) + Math.floor(sum / 0x10000);
  return ~sum & 0xffff;
}
