import { abortable } from '../../../base/async/abortable.ts';
import { SeineError } from '../../../base/errors/seine-error.ts';
import { errnoOf } from '../../../netlink/errno.ts';
import { readSysctl } from '../../../netlink/sysctl.ts';
import type { OpenFlowConnection } from '../../../openflow/connection/connection.ts';
import {
  decodeGroupFeatures,
  decodeMeterFeatures,
  writeGroupFeaturesRequest,
  writeMeterFeaturesRequest,
} from '../../../openflow/switch-features.ts';
import type { DatapathFacts } from './datapath-features.ts';
import type { SwitchDatabase } from './switch-database.ts';

/** Collects what OVSDB, the bridge and the kernel report about the data path. Values that are not available are left undefined. */
export async function readDatapathFacts(
  type: 'system' | 'netdev',
  { database, openflow }: { readonly database: SwitchDatabase; readonly openflow: Pick<OpenFlowConnection, 'gather'> },
  signal: AbortSignal,
): Promise<DatapathFacts> {
  const [meters, groups] = await Promise.all([
    firstOf(openflow.gather(writeMeterFeaturesRequest, decodeMeterFeatures, signal), signal),
    firstOf(openflow.gather(writeGroupFeaturesRequest, decodeGroupFeatures, signal), signal),
  ]);
  const [open] = database.tables.Open_vSwitch.rows();
  return {
    type,
    capabilities: publishedCapabilities(type, database),
    interfaceTypes: open?.iface_types,
    meters,
    groups,
    tracksSctp: type === 'system' && kernelTracksSctp(),
    // Open vSwitch's userspace data path forwards frames unchanged unless configured otherwise (ovs-vswitchd.conf.db(5)).
    fillsChecksums: type === 'system' || open?.other_config.get('userspace-tso-enable') === 'true',
  };
}

/** Capabilities from the data path's row in OVSDB; undefined until ovs-vswitchd has written them. */
export function publishedCapabilities(
  type: 'system' | 'netdev',
  { tables }: Pick<SwitchDatabase, 'tables'>,
): ReadonlyMap<string, string> | undefined {
  const [open] = tables.Open_vSwitch.rows();
  const row = open?.datapaths.get(type);
  const capabilities = row === undefined ? undefined : tables.Datapath.get(row)?.capabilities;
  return capabilities === undefined || capabilities.size === 0 ? undefined : capabilities;
}

async function firstOf<T>(answer: Promise<readonly T[]>, signal: AbortSignal): Promise<T | undefined> {
  try {
    const [first] = await abortable(answer, signal);
    return first;
  } catch {
    return undefined; // not connected, or OVS does not support that message: left undefined
  }
}

/** Reports whether the kernel's connection tracking supports SCTP: the parameter exists only then. */
function kernelTracksSctp(): boolean {
  try {
    readSysctl(['net', 'netfilter', 'nf_conntrack_sctp_timeout_established']);
    return true;
  } catch (thrown) {
    if (errnoOf(thrown) === 'ENOENT') return false;
    throw SeineError.from(thrown, 'probe conntrack for SCTP');
  }
}
