import { addressBits, type Family, type Ip, ipFromBytes, ipToBytes, ipv4Text } from '../../base/net/ip.ts';
import type { ServiceEndpoint } from './service-intent.ts';

/**
 * Endpoints of one family, one byte per character: for each the address, then two bytes of the port. V8 stores such strings as plain bytes.
 */
export type PackedList = string & { readonly brand: 'PackedList' };

const portBytes = 2;
/** Buffer for encoding. Most lists are shorter, and there are many. */
const scratch = Buffer.alloc(4_096);

export function packList(endpoints: readonly ServiceEndpoint[]): PackedList {
  let [packed, at] = [scratch, 0];
  for (const { ip, port } of endpoints) {
    const size = addressBits(ip.family) / 8 + portBytes;
    if (at === 0 && endpoints.length * size > packed.length) packed = Buffer.alloc(endpoints.length * size);
    if (ip.family === 'ipv4') packed.writeUInt32BE(Number(ip.value), at);
    else packed.set(ipToBytes(ip), at);
    packed.writeUInt16BE(port, at + size - portBytes);
    at += size;
  }
  return packed.toString('latin1', 0, at) as PackedList;
}

export function unpackList(packed: PackedList, family: Family): readonly ServiceEndpoint[] {
  const bytes = Buffer.from(packed, 'latin1');
  const addressBytes = addressBits(family) / 8;
  const endpoints: ServiceEndpoint[] = [];
  for (let at = 0; at < bytes.length; at += addressBytes + portBytes)
    endpoints.push({ ip: addressAt(bytes, at, family), port: bytes.readUInt16BE(at + addressBytes) });
  return endpoints;
}

function addressAt(bytes: Buffer, at: number, family: Family): Ip {
  if (family === 'ipv6') return ipFromBytes(bytes.subarray(at, at + 16));
  const bits = bytes.readUInt32BE(at);
  return { family, value: BigInt(bits), text: ipv4Text(bits) };
}
