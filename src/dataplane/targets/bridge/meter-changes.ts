import { ByteWriter } from '../../../base/bytes/bytes.ts';
import { SeineError } from '../../../base/errors/seine-error.ts';
import type { OpenFlowConnection } from '../../../openflow/connection/connection.ts';
import { type MeterMod, meterCommands, writeMeterMod } from '../../../openflow/meter.ts';
import { type BridgeKey, type BridgeValue, meterMessage, numberOf } from './bridge-entry.ts';

/** Number of messages sent at once: the number of refusals that an error of `OpenFlowConnection.apply` names. */
const AT_ONCE = 100;
/** Offset of the command in a meter-mod message. */
const COMMAND_OFFSET = 8;

type Connection = Pick<OpenFlowConnection, 'apply'>;
type Meters = readonly (readonly [BridgeKey, BridgeValue])[];

/**
 * Creates meters, and changes existing ones: OpenFlow has a command for each, and Open vSwitch accepts neither in a bundle. All are first
 * sent as new, which most are. A changed meter keeps the flows that use it.
 *
 * @returns those that did not exist before
 * @throws SeineError `REFUSED`: those that did not exist before are deleted again. `UNAVAILABLE`: the outcome is unknown
 */
export async function putMeters(connection: Connection, meters: Meters, signal: AbortSignal): Promise<readonly BridgeKey[]> {
  const made: BridgeKey[] = [];
  for (let from = 0; from < meters.length; from += AT_ONCE) {
    const some = meters.slice(from, from + AT_ONCE);
    const refusals = await refusedOf(connection, messages(some, 'add'), signal);
    made.push(...some.filter((_, index) => !refusals.errors.has(index)).map(([key]) => key));
    const existing = some.filter((_, index) => refusals.errors.get(index) === 'OFPMMFC_METER_EXISTS');
    const rest = await refusedOf(connection, messages(existing, 'modify'), signal);
    const failure = existing.length < refusals.errors.size ? refusals.failure : rest.failure;
    if (failure === undefined) continue;
    await deleteMeters(connection, made, signal);
    throw failure;
  }
  return made;
}

/** Deletes meters, and with them the flows that use them. Deleting a missing meter succeeds. */
export async function deleteMeters(connection: Connection, keys: readonly BridgeKey[], signal: AbortSignal): Promise<void> {
  if (keys.length > 0) await connection.apply(keys.map(deletion), signal);
}

interface MeterRefusals {
  /** Errors by index of the message. */
  readonly errors: ReadonlyMap<number, string>;
  readonly failure?: SeineError;
}

async function refusedOf(connection: Connection, mods: readonly Uint8Array[], signal: AbortSignal): Promise<MeterRefusals> {
  if (mods.length === 0) return { errors: new Map() };
  try {
    await connection.apply(mods, signal);
    return { errors: new Map() };
  } catch (thrown) {
    if (!(thrown instanceof SeineError) || thrown.code !== 'REFUSED') throw thrown;
    const refused = thrown.context['refused'] as readonly { readonly index: number; readonly error: string }[]; // see `apply`
    return { errors: new Map(refused.map(({ index, error }) => [index, error])), failure: thrown };
  }
}

function messages(meters: Meters, command: MeterMod['command']): readonly Uint8Array[] {
  return meters.map(([, value]) => {
    const message = meterMessage(value);
    new DataView(message.buffer, message.byteOffset).setUint16(COMMAND_OFFSET, meterCommands.indexOf(command));
    return message;
  });
}

function deletion(key: BridgeKey): Uint8Array {
  const w = new ByteWriter(16);
  writeMeterMod(w, { command: 'delete', id: numberOf(key), flags: 0, bands: [] });
  return w.finish();
}
