import type { Failure } from './failure.ts';

/** The parts of a node that are kept as wanted. */
const partNames = ['switch', 'bridge', 'host', 'firewall', 'settings', 'links'] as const;
export type PartName = (typeof partNames)[number];

/**
 * How an entry of the node is, against what is wanted:
 *
 * - `ok`       there, and as wanted
 * - `missing`  wanted, not there
 * - `changed`  there, but otherwise than wanted
 * - `extra`    there, and not wanted
 * - `learned`  learned by the switch itself; not wanted, and left alone
 */
const entryStates = ['ok', 'missing', 'changed', 'extra', 'learned'] as const;
export type EntryState = (typeof entryStates)[number];

export type EntryKind =
  | 'bridge'
  | 'port'
  | 'flow'
  | 'group'
  | 'meter'
  | 'link'
  | 'address'
  | 'neighbour'
  | 'route'
  | 'rule'
  | 'firewall'
  | 'setting'
  | 'interface';

/** One thing the node holds or should hold. */
export interface Entry {
  readonly kind: EntryKind;
  /** Unique within its kind. */
  readonly name: string;
  readonly state: EntryState;
  /** All owners that want it. Of an entry that is not wanted: the owner that its cookie names, if any. */
  readonly owners: readonly string[];
  /** In the words of the tool that shows such things: ovs-ofctl, ip. Null if it is not wanted, or is not there. */
  readonly wanted: string | null;
  readonly actual: string | null;
  /** Why it is not as wanted, where that is known. */
  readonly error?: Failure;
}

export interface FlowEntry extends Entry {
  readonly kind: 'flow';
  readonly table: string;
  readonly priority: number;
  /** Null if it is not there. */
  readonly packets: string | null;
  readonly bytes: string | null;
  readonly ageSeconds: number | null;
}

export interface PortEntry extends Entry {
  readonly kind: 'bridge' | 'port';
  readonly type: string;
  readonly wantedOfPort: number | null;
  /** What ovs-vswitchd gave it; null if it has none. */
  readonly ofPort: number | null;
}

/** A list that came whole. */
export interface Items<T> {
  readonly items: readonly T[];
}
