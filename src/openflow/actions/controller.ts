import type { ByteReader, ByteWriter } from '../../base/bytes/bytes.ts';
import { eachProperty } from '../properties.ts';
import { type ControllerAction, type PacketInReason, packetInReasons } from './action.ts';
import type { ActionRows } from './codec.ts';

const ALL_BYTES = 0xffff;
const DEFAULT_REASON = 'action';

const MAX_LENGTH = 0;
const CONTROLLER_ID = 1;
const REASON = 2;
const USERDATA = 3;
const PAUSE = 4;
const METER_ID = 5;

/**
 * `controller`: as plain numbers where that says it all, else as properties.
 *
 *     NXAST_CONTROLLER:  u16 max_len, u16 controller, u8 reason
 *     NXAST_CONTROLLER2: 6 bytes zero, properties (u16 type, u16 length, value, zeros to a multiple of 8; a value of 16 bits
 *                        has two bytes of padding that its length counts)
 */
export const controllerRows: ActionRows<'controller'> = {
  controller: {
    wire: [{ nicira: 20 }, { nicira: 37 }],
    choose: (a) => (a.userdata === undefined && a.pause === undefined && a.meter === undefined ? 0 : 1),
    source: 'NXAST_CONTROLLER, NXAST_CONTROLLER2; ovs-actions(7) "controller"',
    encode: (w, a) => {
      if (a.userdata !== undefined || a.pause !== undefined || a.meter !== undefined) writeProperties(w.zeros(6), a);
      else
        w.u16(a.maxLength ?? ALL_BYTES)
          .u16(a.controller ?? 0)
          .u8(reasonNumber(a.reason ?? DEFAULT_REASON));
    },
    decode: (r, _nested, form) => (form === 0 ? readPlain(r) : readProperties(r.skip(6))),
  },
};

function readPlain(r: ByteReader): ControllerAction | undefined {
  const [maxLength, controller, reason] = [r.u16(), r.u16(), packetInReasons[r.u8()]];
  return reason && controllerAction({ maxLength, controller, reason });
}

function controllerAction(given: Omit<ControllerAction, 'kind'>): ControllerAction {
  const { maxLength = ALL_BYTES, controller = 0, reason = DEFAULT_REASON, ...rest } = given;
  return {
    kind: 'controller',
    ...(maxLength === ALL_BYTES ? {} : { maxLength }),
    ...(controller === 0 ? {} : { controller }),
    ...(reason === DEFAULT_REASON ? {} : { reason }),
    ...rest,
  };
}

function writeProperties(w: ByteWriter, a: ControllerAction): void {
  const { maxLength = ALL_BYTES, controller = 0, reason = DEFAULT_REASON, userdata, pause, meter } = a;
  if (maxLength !== ALL_BYTES) w.u16(MAX_LENGTH).u16(8).u16(maxLength).u16(0);
  if (controller !== 0) w.u16(CONTROLLER_ID).u16(8).u16(controller).u16(0);
  if (reason !== DEFAULT_REASON) w.u16(REASON).u16(5).u8(reasonNumber(reason)).zeros(3);
  if (userdata !== undefined) {
    const start = w.length;
    w.u16(USERDATA)
      .u16(4 + userdata.length)
      .raw(userdata)
      .alignTo(8, start);
  }
  if (pause) w.u16(PAUSE).u16(4).u32(0);
  if (meter !== undefined) w.u16(METER_ID).u16(8).u32(meter);
}

function readProperties(r: ByteReader): ControllerAction | undefined {
  let found: Omit<ControllerAction, 'kind'> | undefined = {};
  eachProperty(r, (type, body) => (found = found && readProperty(body, type, found)));
  return found && controllerAction(found);
}

function readProperty(r: ByteReader, type: number, found: Omit<ControllerAction, 'kind'>): Omit<ControllerAction, 'kind'> | undefined {
  switch (type) {
    case MAX_LENGTH:
      return { ...found, maxLength: r.u16() };
    case CONTROLLER_ID:
      return { ...found, controller: r.u16() };
    case REASON: {
      const reason = packetInReasons[r.u8()];
      return reason && { ...found, reason };
    }
    case USERDATA:
      return { ...found, userdata: r.raw(r.remaining).slice() };
    case PAUSE:
      return { ...found, pause: true };
    case METER_ID:
      return { ...found, meter: r.u32() };
    default:
      return undefined;
  }
}

function reasonNumber(reason: PacketInReason): number {
  return packetInReasons.indexOf(reason);
}
