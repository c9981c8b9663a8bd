import type { Failure } from './failure.ts';

/** Targets: the parts of a node whose state is reconciled. */
const partNames = ['switch', 'bridge', 'host', 'firewall', 'settings', 'links', 'wireguard'] as const;
export type PartName = (typeof partNames)[number];

/**
 * State of an entry compared with the desired state:
 *
 * - `ok`       present and in sync
 * - `missing`  desired, but not present
 * - `changed`  present, but different from the desired entry
 * - `extra`    present, but not desired
 * - `learned`  learned by OVS itself; not desired, and not removed
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

/** Entry that the node has or should have. */
export interface Entry {
  readonly kind: EntryKind;
  /** Name, unique within its kind. */
  readonly name: string;
  readonly state: EntryState;
  /** Owners that want the entry. For an entry that is not desired: the owner that its cookie names, if any. */
  readonly owners: readonly string[];
  /** Entry in the notation of the tool for it (ovs-ofctl, ip); null if it is not desired, or not present. */
  readonly wanted: string | null;
  readonly actual: string | null;
  /** Reason why it is not in sync, if known. */
  readonly error?: Failure;
}

export interface FlowEntry extends Entry {
  readonly kind: 'flow';
  readonly table: string;
  readonly priority: number;
  /** Packet count; null if the flow is not present. */
  readonly packets: string | null;
  readonly bytes: string | null;
  readonly ageSeconds: number | null;
}

export interface PortEntry extends Entry {
  readonly kind: 'bridge' | 'port';
  readonly type: string;
  readonly wantedOfPort: number | null;
  /** Port number assigned by ovs-vswitchd; null if it has none. */
  readonly ofPort: number | null;
}

/** Complete list. */
export interface Items<T> {
  readonly items: readonly T[];
}
