import { z } from 'zod';
import { type BridgeKey, type BridgeValue, observedFlow, observedGroup, observedMeter } from '../datapath/bridge-entry.ts';
import { SeineError } from '../errors/seine-error.ts';
import type { FlowEntry } from '../openflow/flow-stats.ts';
import type { Group } from '../openflow/group.ts';
import type { Meter } from '../openflow/meter.ts';
import { isLearned } from '../pipeline/cookie.ts';

export type HeldEntry = { readonly flow: FlowEntry } | { readonly group: Group } | { readonly meter: Meter };

const hex = z.string().regex(/^(?:[0-9a-f]{2})*$/);
const line = z.strictObject({ key: hex, value: hex, learned: z.literal(true).exactOptional() });

/** One entry of a bridge, as bytes: what tells it apart, and everything else about it. */
export function heldLine(entry: HeldEntry): string {
  const [key, value] = keyAndValue(entry);
  const learned = 'flow' in entry && isLearned(entry.flow.cookie) ? { learned: true } : {};
  return JSON.stringify({ key: hexOf(key), value: hexOf(value), ...learned });
}

function keyAndValue(entry: HeldEntry): [BridgeKey, BridgeValue] {
  if ('flow' in entry) return observedFlow(entry.flow);
  return 'group' in entry ? observedGroup(entry.group) : observedMeter(entry.meter);
}

/**
 * What was held, without what the switch learned by itself, which nobody wants.
 *
 * @throws SeineError `INVALID_INPUT`
 */
export function readHeld(text: string): ReadonlyMap<BridgeKey, BridgeValue> {
  const held = new Map<BridgeKey, BridgeValue>();
  for (const [at, each] of text.split('\n').entries()) {
    if (each === '') continue;
    const result = line.safeParse(parsed(each));
    if (!result.success) throw new SeineError('INVALID_INPUT', `line ${at + 1} of what the bridge held makes no sense`);
    const { key, value, learned } = result.data;
    if (!learned) held.set(latin1(key) as BridgeKey, latin1(value) as BridgeValue);
  }
  return held;
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined; // refused as what it is not
  }
}

function hexOf(octets: string): string {
  return Buffer.from(octets, 'latin1').toString('hex');
}

function latin1(digits: string): string {
  return Buffer.from(digits, 'hex').toString('latin1');
}
