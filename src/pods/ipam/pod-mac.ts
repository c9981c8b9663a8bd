import { createHash } from 'node:crypto';
import { SeineError } from '../../base/errors/seine-error.ts';
import { type Mac, macFromBytes, macToBytes } from '../../base/net/mac.ts';
import type { AttachmentKey } from './attachment.ts';
import { attachmentId } from './lease.ts';

/** Maximum number of attempts. With 2^46 addresses, more than a few would mean that `isTaken` is wrong. */
const triesMax = 64;

/**
 * Computes the MAC of a pod: locally administered unicast, from a hash of its identity, so that an attachment has the same MAC after any
 * restart. It does not depend on the address, which may belong to another pod while a neighbour's kernel still has the old entry.
 */
export function podMac(key: AttachmentKey, isTaken: (mac: Mac) => boolean): Mac {
  for (let attempt = 0; attempt < triesMax; attempt++) {
    const bytes = createHash('sha256')
      .update(`${attachmentId(key)}#${attempt}`)
      .digest()
      .subarray(0, 6);
    bytes[0] = ((bytes[0] ?? 0) & 0xfc) | 0x02;
    const mac = macFromBytes(bytes);
    if (!isTaken(mac)) return mac;
  }
  throw new SeineError('INVARIANT', `no free MAC for ${attachmentId(key)} in ${triesMax} tries`);
}

/** Reports whether an interface can have this MAC: not a group address (lowest bit of the first byte) and not all zeros. */
export function isUnicastMac(mac: Mac): boolean {
  const bytes = macToBytes(mac);
  return ((bytes[0] ?? 1) & 1) === 0 && bytes.some((byte) => byte !== 0);
}
