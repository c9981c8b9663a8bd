import type { ByteReader, ByteWriter } from '../wire/bytes.ts';
import { type ControllerAction, type PacketInReason, packetInReasons } from './action.ts';
import type { ActionRows } from './action-codec.ts';
import { eachProperty, writeProperty } from './properties.ts';

const ALL_OCTETS = 0xffff;
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
 *     NXAST_CONTROLLER2: 6 octets zero, properties (u16 type, u16 length, value, zeros to a multiple of 8; a value of 16 bits
 *                        has two octets of padding that its length counts)
 */
export const controllerRows: ActionRows<'controller'> = {
  controller: {
    wire: [{ nicira: 20 }, { nicira: 37 }],
    choose: (a) => (a.userdata === undefined && a.pause === undefined && a.meter === undefined ? 0 : 1),
    source: 'NXAST_CONTROLLER, NXAST_CONTROLLER2; ovs-actions(7) "controller"',
    encode: (w, a) => {
      if (a.userdata !== undefined || a.pause !== undefined || a.meter !== undefined) writeProperties(w.zeros(6), a);
      else
        w.u16(a.maxLength ?? ALL_OCTETS)
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
  const { maxLength = ALL_OCTETS, controller = 0, reason = DEFAULT_REASON, ...rest } = given;
  return {
    kind: 'controller',
    ...(maxLength === ALL_OCTETS ? {} : { maxLength }),
    ...(controller === 0 ? {} : { controller }),
    ...(reason === DEFAULT_REASON ? {} : { reason }),
    ...rest,
  };
}

function writeProperties(w: ByteWriter, a: ControllerAction): void {
  if (a.maxLength !== undefined && a.maxLength !== ALL_OCTETS) writeProperty(w, MAX_LENGTH, () => w.u16(a.maxLength ?? 0).u16(0));
  if (a.controller !== undefined && a.controller !== 0) writeProperty(w, CONTROLLER_ID, () => w.u16(a.controller ?? 0).u16(0));
  if (a.reason !== undefined && a.reason !== DEFAULT_REASON) writeProperty(w, REASON, () => w.u8(reasonNumber(a.reason ?? DEFAULT_REASON)));
  const { userdata } = a;
  if (userdata !== undefined) writeProperty(w, USERDATA, () => w.raw(userdata));
  if (a.pause) writeProperty(w, PAUSE, () => {});
  const { meter } = a;
  if (meter !== undefined) writeProperty(w, METER_ID, () => w.u32(meter));
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

export function reasonNumber(reason: PacketInReason): number {
  return packetInReasons.indexOf(reason);
}
