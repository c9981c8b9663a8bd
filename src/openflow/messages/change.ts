import { byVersion, joined, type Laid, record, u8, u32, zeros } from '../layout.ts';
import { messageType as type } from '../protocol.ts';
import { flowMod, flowRemoved, groupMod, meterMod } from './flow.ts';
import { packetIn, packetOut } from './packet.ts';
import { portMod, portStatus } from './port.ts';
import { row } from './row.ts';
import { tableProperties } from './table.ts';

const tableHead = record({ table: u8, _zero: zeros(3), config: u32 });
const withProperties = joined(tableHead, tableProperties);

/** Changes by a controller, and unsolicited messages of a switch. */
export const changeRows = {
  packetIn: row({ name: 'OFPT_PACKET_IN', wire: [{ type: type.packetIn }], source: 'ofp_packet_in', layout: packetIn }),
  flowRemoved: row({ name: 'OFPT_FLOW_REMOVED', wire: [{ type: type.flowRemoved }], source: 'ofp_flow_removed', layout: flowRemoved }),
  portStatus: row({ name: 'OFPT_PORT_STATUS', wire: [{ type: type.portStatus }], source: 'ofp_port_status', layout: portStatus }),
  packetOut: row({ name: 'OFPT_PACKET_OUT', wire: [{ type: type.packetOut }], source: 'ofp_packet_out', layout: packetOut }),
  flowMod: row({ name: 'OFPT_FLOW_MOD', wire: [{ type: type.flowMod }], source: 'ofp_flow_mod', layout: flowMod }),
  groupMod: row({ name: 'OFPT_GROUP_MOD', wire: [{ type: type.groupMod }], source: 'ofp_group_mod', layout: groupMod }),
  meterMod: row({ name: 'OFPT_METER_MOD', wire: [{ type: type.meterMod }], source: 'ofp_meter_mod', layout: meterMod }),
  portMod: row({ name: 'OFPT_PORT_MOD', wire: [{ type: type.portMod }], source: 'ofp_port_mod', layout: portMod }),
  tableMod: row({
    name: 'OFPT_TABLE_MOD',
    wire: [{ type: type.tableMod }],
    source: 'ofp_table_mod; properties since 1.4',
    layout: byVersion<Laid<typeof withProperties>>(tableHead, withProperties),
  }),
};
