import type { Attributes } from '../attributes.ts';
import { type NetlinkMessage, splitPayload } from '../message.ts';
import type { NetlinkSocket } from '../socket.ts';

/** Named counter of a table. */
interface NamedCounter {
  readonly name: string;
  readonly packets: number;
}

/**
 * Returns the packets of each named counter of a table of family `inet`; empty if there is no such table. Requests the counters from the
 * kernel: libnftables lists all sets of the table first, which blocks the event loop for 100 ms with 18,000 elements.
 *
 * @param socket of protocol `netfilter`
 * @throws SeineError `PROTOCOL` if the kernel's answer has an unknown form
 */
export function readCounters(socket: NetlinkSocket, table: string): ReadonlyMap<string, number> {
  const counters = socket.dump(
    GET_OBJECT,
    `list counters of nftables table ${table}`,
    (batch) => {
      batch.u8(NFPROTO_INET).u8(0).u16(0); // struct nfgenmsg
      batch.attributeText(NFTA_OBJ_TABLE, table).attribute(NFTA_OBJ_TYPE, bigEndian(NFT_OBJECT_COUNTER));
    },
    (message) => counterIn(message, table),
  );
  return new Map(counters.map(({ name, packets }) => [name, packets]));
}

/** Kernels differ in the filters that they apply to a dump, so table and type are compared again. */
function counterIn({ payload }: NetlinkMessage, table: string): NamedCounter | undefined {
  const { attributes } = splitPayload(payload, 4, 'nftables object');
  const name = attributes.text(NFTA_OBJ_NAME);
  const packets = attributes.nested(NFTA_OBJ_DATA)?.bytes(NFTA_COUNTER_PACKETS);
  const isCounter = bigEndian32(attributes, NFTA_OBJ_TYPE) === NFT_OBJECT_COUNTER;
  if (attributes.text(NFTA_OBJ_TABLE) !== table || !isCounter || name === undefined || packets?.byteLength !== 8) return undefined;
  return { name, packets: Number(new DataView(packets.buffer, packets.byteOffset, 8).getBigUint64(0)) };
}

function bigEndian32(attributes: Attributes, type: number): number | undefined {
  const bytes = attributes.bytes(type);
  return bytes?.byteLength === 4 ? new DataView(bytes.buffer, bytes.byteOffset, 4).getUint32(0) : undefined;
}

function bigEndian(value: number): Uint8Array {
  const bytes = new Uint8Array(4);
  new DataView(bytes.buffer).setUint32(0, value);
  return bytes;
}

/** `NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_GETOBJ`, and attributes of objects. Source: linux/netfilter/nfnetlink.h and nf_tables.h. */
const GET_OBJECT = (10 << 8) | 19;
const NFPROTO_INET = 1;
const NFTA_OBJ_TABLE = 1;
const NFTA_OBJ_NAME = 2;
const NFTA_OBJ_TYPE = 3;
const NFTA_OBJ_DATA = 4;
const NFT_OBJECT_COUNTER = 1;
const NFTA_COUNTER_PACKETS = 2;
