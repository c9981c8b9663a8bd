import { decodeInstructions } from '../flows/instructions.ts';
import { decodeMatch } from '../match/match.ts';
import { type Message, messageName } from '../message.ts';
import { OPENFLOW_15, type Version } from '../protocol.ts';

/**
 * Converts a message to JSON: numbers of 64 and more bits as decimal strings, bytes as hexadecimal strings, matches and instructions
 * decoded.
 *
 * @throws SeineError `PROTOCOL` if a match or instructions in it are malformed
 */
export function messageToJson(message: Message): unknown {
  const { kind, version, xid } = message;
  if (message.kind === 'unknown') return { kind, version, xid, bytes: plain(message.bytes, OPENFLOW_15) };
  const more = message.more ? { more: true } : {};
  return {
    kind,
    name: messageName(message.kind, message.version),
    version: message.version === OPENFLOW_15 ? '1.5' : '1.3',
    xid,
    ...more,
    body: plain(message.body, message.version),
  };
}

function plain(value: unknown, version: Version): unknown {
  if (typeof value === 'bigint') return String(value);
  if (value instanceof Uint8Array) return Buffer.from(value).toString('hex');
  if (Array.isArray(value)) return value.map((each) => plain(each, version));
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, member(name, each, version)]));
}

function member(name: string, value: unknown, version: Version): unknown {
  if (!(value instanceof Uint8Array)) return plain(value, version);
  if (name === 'match') return plain(decodeMatch(value), version);
  if (name === 'instructions') return plain(decodeInstructions(value, version), version);
  return plain(value, version);
}
