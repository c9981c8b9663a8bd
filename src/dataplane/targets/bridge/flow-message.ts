import { ByteWriter } from '../../../base/bytes/bytes.ts';
import { SeineError } from '../../../base/errors/seine-error.ts';
import { noInstructions, writeFlowMod } from '../../../openflow/flows/flow-mod.ts';
import { type BridgeKey, type BridgeValue, KEY_HEADER_BYTES, VALUE_HEADER_BYTES } from './bridge-entry.ts';

/** Offsets in a flow-mod. Source: OpenFlow 1.5.1 `ofp_header`, `ofp_flow_mod`. */
const at = { length: 2, cookie: 8, cookieMask: 16, table: 24, priority: 30, match: 48 } as const;
const longest = 0xffff;

/** One that says nothing, up to its match. */
const blank = blankFlowMod();
const numbers = blank.subarray(at.cookieMask);
const message = new Uint8Array(longest + 1);
/** The same, for texts. `slice` of a `Buffer` copies nothing, so it is not what is returned. */
const scratch = Buffer.from(message.buffer);
message.set(blank);

/**
 * The flow-mod that adds a flow, as `writeFlowMod` writes it, from the octets that its entry has: a start has a hundred thousand, and each pod that starts waits for
 * a dozen, or three dozen with IPv6.
 *
 * @returns valid until the next one is asked for
 * @throws SeineError `INVARIANT` if it is longer than a message may be
 */
export function addFlowMessage(key: BridgeKey, value: BridgeValue): Uint8Array {
  const instructions = at.match + key.length - KEY_HEADER_BYTES;
  const length = instructions + value.length - VALUE_HEADER_BYTES;
  if (length > longest) throw new SeineError('INVARIANT', `a flow-mod of ${length} bytes`);
  // What the entry has before its instructions and its match is taken from where it lies, and written over.
  const valueAt = instructions - VALUE_HEADER_BYTES;
  scratch.write(value, valueAt, 'latin1');
  scratch.copyWithin(at.cookie, valueAt, valueAt + 8);
  scratch.write(key, at.match - KEY_HEADER_BYTES, 'latin1');
  scratch.set(numbers, at.cookieMask);
  scratch[at.table] = key.charCodeAt(1);
  scratch[at.priority] = key.charCodeAt(2);
  scratch[at.priority + 1] = key.charCodeAt(3);
  scratch.writeUInt16BE(length, at.length);
  return message.subarray(0, length);
}

function blankFlowMod(): Uint8Array {
  const w = new ByteWriter();
  writeFlowMod(w, { command: 'add', table: 0, priority: 0, match: new Uint8Array(0), instructions: noInstructions });
  return w.finish();
}
