import { ByteWriter } from '../../../base/bytes/bytes.ts';
import { SeineError } from '../../../base/errors/seine-error.ts';
import { noInstructions, writeFlowMod } from '../../../openflow/flows/flow-mod.ts';
import { type BridgeKey, type BridgeValue, KEY_HEADER_BYTES, VALUE_HEADER_BYTES } from './bridge-entry.ts';

/** Offsets in a flow-mod. Source: OpenFlow 1.5.1 `ofp_header`, `ofp_flow_mod`. */
const at = { length: 2, cookie: 8, cookieMask: 16, table: 24, priority: 30, match: 48 } as const;
const longest = 0xffff;

/** Flow-mod with default values, up to its match. */
const blank = blankFlowMod();
const numbers = blank.subarray(at.cookieMask);
const message = new Uint8Array(longest + 1);
/** View of `message` for writing strings. `slice` of a `Buffer` does not copy, so this is not what is returned. */
const scratch = Buffer.from(message.buffer);
message.set(blank);

/**
 * Returns the flow-mod that adds a flow, as `writeFlowMod` writes it, from the bytes of its entry. A start sends a hundred thousand, and
 * each new pod waits for a dozen, or three dozen with IPv6.
 *
 * @returns valid until the next call
 * @throws SeineError `INVARIANT` if the message would be too long
 */
export function addFlowMessage(key: BridgeKey, value: BridgeValue): Uint8Array {
  const instructions = at.match + key.length - KEY_HEADER_BYTES;
  const length = instructions + value.length - VALUE_HEADER_BYTES;
  if (length > longest) throw new SeineError('INVARIANT', `a flow-mod of ${length} bytes`);
  // The entry's header and match are read in place, and then overwritten.
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
