import { SeineError } from '../base/errors/seine-error.ts';
import { errnoOf } from './errno.ts';
import { familyNumber, genericHeader, genericHeaderBytes } from './generic.ts';
import { type Batch, type NetlinkMessage, splitPayload } from './message.ts';
import type { NetlinkSocket } from './socket.ts';
import { littleEndian } from './sys.ts';

/**
 * Counters of one datapath of the kernel since it was created. Source: `struct ovs_dp_stats`, `struct ovs_dp_megaflow_stats`
 * (linux/openvswitch.h).
 */
export interface KernelDatapath {
  /** `ovs-system`, which all bridges of an ovs-vswitchd share. */
  readonly name: string;
  /** Packets that matched a megaflow. */
  readonly hits: number;
  /** Packets sent to ovs-vswitchd because none matched (upcalls). */
  readonly misses: number;
  /** Upcalls that were dropped because the queue was full. */
  readonly lost: number;
  readonly megaflows: number;
  /** Number of masks among the megaflows: a packet may need one lookup for each. */
  readonly masks: number;
}

/**
 * Lists the datapaths of Open vSwitch in the kernel, in the socket's network namespace; none if the module is not loaded.
 *
 * @param socket of protocol `generic`
 * @throws SeineError `PROTOCOL` if an answer cannot be parsed
 */
export function listKernelDatapaths(socket: NetlinkSocket): KernelDatapath[] {
  const family = familyNumber(socket, 'ovs_datapath');
  if (family === undefined) return [];
  const what = 'list data paths';
  const body = (batch: Batch) => genericHeader(batch, OVS_DP_CMD_GET, OVS_DATAPATH_VERSION).u32(0); // struct ovs_header: i32 ifindex
  try {
    return socket.dump(family, what, body, decodeDatapath);
  } catch (thrown) {
    if (errnoOf(thrown) === 'ENOENT' || errnoOf(thrown) === 'ENODEV') return []; // the module was unloaded in between
    throw thrown;
  }
}

/** @throws SeineError `PROTOCOL` */
export function decodeDatapath({ payload }: Pick<NetlinkMessage, 'payload'>): KernelDatapath {
  const { attributes } = splitPayload(payload, genericHeaderBytes + OVS_HEADER_BYTES, 'data path');
  // u64 hit, missed, lost, flows
  const counters = viewOf(attributes.bytes(OVS_DP_ATTR_STATS), 32, 'counters');
  // u64 mask hits · u32 masks · 4 unused · u64 cache hits · 8 unused
  const megaflows = viewOf(attributes.bytes(OVS_DP_ATTR_MEGAFLOW_STATS), 12, 'counters of megaflows');
  return {
    name: attributes.text(OVS_DP_ATTR_NAME) ?? '',
    hits: count(counters, 0),
    misses: count(counters, 8),
    lost: count(counters, 16),
    megaflows: count(counters, 24),
    masks: megaflows.getUint32(8, littleEndian),
  };
}

function viewOf(bytes: Uint8Array | undefined, atLeast: number, what: string): DataView {
  if (bytes === undefined || bytes.length < atLeast)
    throw new SeineError('PROTOCOL', `data path: ${what} of ${bytes?.length ?? 0} bytes, ${atLeast} expected`);
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
}

/** Exact up to 2^53, more than packets can be counted. */
function count(view: DataView, at: number): number {
  return Number(view.getBigUint64(at, littleEndian));
}

const OVS_HEADER_BYTES = 4;
const OVS_DATAPATH_VERSION = 2;
const OVS_DP_CMD_GET = 3;
const OVS_DP_ATTR_NAME = 1;
const OVS_DP_ATTR_STATS = 3;
const OVS_DP_ATTR_MEGAFLOW_STATS = 4;
