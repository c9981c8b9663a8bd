import { packetInReasons } from '../actions/action.ts';
import { matchFields } from '../flows/layout-flow.ts';
import { type Layout, mapped, oneOf, properties, record, rest, u8, u16, u32, u64, zeros } from '../layout.ts';
import { decodeOxmFields, type Match, writeOxmFields } from '../match/match.ts';
import { type PacketOut, readPacketOutBody, writePacketOutBody } from '../packet.ts';

/** Source: OpenFlow 1.3.5 and 1.5.1 `ofp_packet_out`. */
export const packetOut: Layout<PacketOut> = { read: readPacketOutBody, write: writePacketOutBody };

const reason = oneOf(u8, packetInReasons);

/** Source: `ofp_packet_in`, the same in both versions. A cookie of all ones means that there is none. */
export const packetIn = record({
  buffer: u32,
  fullLength: u16,
  reason,
  table: u8,
  cookie: u64,
  fields: matchFields,
  _zero: zeros(2),
  data: rest,
});

/** Fields to the end, without a header. */
const bareFields: Layout<Match> = {
  read: (r) => decodeOxmFields(r.raw(r.remaining)),
  write: (w, value, version) => writeOxmFields(w, value, version),
};

/** Source: Open vSwitch `nx_packet_in`: like `ofp_packet_in`, with fields whose length precedes 6 zeros. */
export const niciraPacketIn = record({
  buffer: u32,
  fullLength: u16,
  reason,
  table: u8,
  cookie: u64,
  oxmFields: countedFields(),
  _zero: zeros(2),
  data: rest,
});

/** u16 length without padding, 6 zero, fields, zeros to a multiple of 8. The fields have Nicira's headers, so they stay bytes. */
function countedFields(): Layout<Uint8Array> {
  return {
    read: (r) => {
      const length = r.u16();
      const fields = r.skip(6).raw(length);
      r.skip((8 - (length % 8)) % 8);
      return fields;
    },
    write: (w, fields) =>
      w
        .u16(fields.length)
        .zeros(6)
        .raw(fields)
        .zeros((8 - (fields.length % 8)) % 8),
  };
}

const wide: Layout<bigint> = mapped(
  record({ _zero: zeros(4), value: u64 }),
  ({ value }) => value,
  (value) => ({ value }),
);

/** In the order in which Open vSwitch writes them. Source: Open vSwitch `nx_packet_in2_prop_type`. */
export const packetIn2 = properties({
  data: { type: 0, layout: rest },
  fullLength: { type: 1, layout: u32 },
  buffer: { type: 2, layout: u32 },
  table: { type: 3, layout: u8 },
  cookie: { type: 4, layout: wide },
  reason: { type: 5, layout: reason },
  fields: { type: 6, layout: bareFields },
  continuation: { type: 8, layout: rest },
  userdata: { type: 7, layout: rest },
});
