import { z } from 'zod';
import { SeineError } from '../../base/errors/seine-error.ts';
import { cookieFeature, isLearned } from '../../dataplane/pipeline/cookie.ts';
import {
  type BridgeKey,
  type BridgeValue,
  decodeFlowEntry,
  describeFlowEntry,
  isDeniedMeterKey,
  isFlowKey,
  observedFlow,
  observedGroup,
  observedMeter,
  plainValue,
  valueOfPlain,
} from '../../dataplane/targets/bridge/bridge-entry.ts';
import type { LearnedFlows } from '../../dataplane/targets/bridge/learned-flows.ts';
import type { FlowStats } from '../../openflow/flows/flow-stats.ts';
import type { Group } from '../../openflow/groups/group.ts';
import type { Meter } from '../../openflow/meter.ts';

type HeldEntry = { readonly flow: FlowStats } | { readonly group: Group } | { readonly meter: Meter };

const hex = z.string().regex(/^(?:[0-9a-f]{2})*$/);
const line = z.strictObject({ key: hex, value: hex, learned: z.literal(true).exactOptional() });

/** One entry of a bridge, as bytes: key and value. */
export function heldLine(entry: HeldEntry): string {
  const [key, value] = keyAndValue(entry);
  const learned = 'flow' in entry && isLearned(entry.flow.cookie) ? { learned: true } : {};
  return JSON.stringify({ key: hexOf(Buffer.from(key, 'latin1')), value: hexOf(plainValue(key, value)), ...learned });
}

function keyAndValue(entry: HeldEntry): [BridgeKey, BridgeValue] {
  if ('flow' in entry) return observedFlow(entry.flow);
  return 'group' in entry ? observedGroup(entry.group) : observedMeter(entry.meter);
}

interface HeldBridge {
  readonly held: ReadonlyMap<BridgeKey, BridgeValue>;
  /** Number of omitted rows by which policies decide. Inputs contain the pods' classes, and not the policies. */
  readonly policyRows: number;
  /** The flows among them. */
  readonly policyFlows: ReadonlyMap<BridgeKey, BridgeValue>;
}

/**
 * Recorded entries of a bridge, without those that the switch learned itself, which no owner desires, and without policy rows.
 *
 * @param taught flows that may have been learned
 * @throws SeineError `INVALID_INPUT`
 */
export function readHeld(text: string, taught: Pick<LearnedFlows, 'covers'>): HeldBridge {
  let policyRows = 0;
  const policyFlows = new Map<BridgeKey, BridgeValue>();
  const held = new Map<BridgeKey, BridgeValue>();
  for (const [at, each] of text.split('\n').entries()) {
    if (each === '') continue;
    const result = line.safeParse(parsed(each));
    if (!result.success) throw new SeineError('INVALID_INPUT', `line ${at + 1} of the entries of the bridge cannot be parsed`);
    const key = bytesOfHex(result.data.key).toString('latin1') as BridgeKey;
    const value = valueOfPlain(key, bytesOfHex(result.data.value));
    const isPolicyFlow = isFlowKey(key) && cookieFeature(decodeFlowEntry(key, value).cookie) === 'policy';
    if (isPolicyFlow) policyFlows.set(key, value);
    if (isPolicyFlow || isDeniedMeterKey(key)) policyRows++;
    else if (!result.data.learned || !taught.covers(describeFlowEntry(key, value))) held.set(key, value);
  }
  return { held, policyRows, policyFlows };
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined; // refused by the type's own check
  }
}

function hexOf(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('hex');
}

function bytesOfHex(digits: string): Buffer {
  return Buffer.from(digits, 'hex');
}
