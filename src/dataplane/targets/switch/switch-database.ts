import { OvsdbClient } from '../../../ovsdb/client.ts';
import type { OvsdbClientHooks } from '../../../ovsdb/client-options.ts';
import { openVswitch } from '../../../ovsdb/schema/open-vswitch.ts';

/** Monitored columns: only those in use. Counters in other columns would cause updates every five seconds. */
const monitored = {
  Open_vSwitch: [
    'bridges',
    'datapaths',
    'other_config',
    'external_ids',
    'ovs_version',
    'datapath_types',
    'iface_types',
    'next_cfg',
    'cur_cfg',
  ],
  // Not `ports`: the set would be copied for every port that is created or deleted.
  Bridge: [
    'name',
    'datapath_type',
    'fail_mode',
    'protocols',
    'other_config',
    'external_ids',
    'flow_tables',
    'controller',
    'stp_enable',
    'rstp_enable',
  ],
  Port: ['name', 'interfaces', 'external_ids', 'qos'],
  Interface: [
    'name',
    'type',
    'ofport',
    'ofport_request',
    'options',
    'mac',
    'mac_in_use',
    'mtu_request',
    'error',
    'external_ids',
    'ingress_policing_rate',
    'ingress_policing_burst',
    'ingress_policing_kpkts_rate',
    'ingress_policing_kpkts_burst',
  ],
  Flow_Table: ['name', 'flow_limit', 'overflow_policy'],
  Datapath: ['capabilities'],
} as const;

/** OVSDB as this node's data plane uses it. */
export type SwitchDatabase = OvsdbClient<typeof openVswitch, typeof monitored>;

/** @param socketPath e.g. `/run/openvswitch/db.sock` */
export function openSwitchDatabase(socketPath: string, hooks: OvsdbClientHooks): SwitchDatabase {
  return new OvsdbClient({ database: openVswitch, endpoint: `unix:${socketPath}`, monitor: monitored, hooks });
}
