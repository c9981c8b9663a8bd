import type { SeineError } from '../../base/errors/seine-error.ts';
import { DesiredState } from '../reconcile/desired-state.ts';
import { Reconciler } from '../reconcile/reconciler.ts';
import type { ReconcilerEvents, ReconcilerOptions } from '../reconcile/reconciler-options.ts';
import type { Target } from '../reconcile/target.ts';
import { type BridgeKey, type BridgeValue, depthOfKey, tableOfKey } from './bridge/bridge-entry.ts';
import { bridgeEntryPoints } from './bridge/entry-flows.ts';
import type { RowPacking } from './bridge/row-packing.ts';
import type { FirewallKey } from './host/firewall-target.ts';
import { type HostEntry, type HostKey, sameHostEntry } from './host/host-entry.ts';
import type { SettingKey } from './host/setting-key.ts';
import { type LinkEntry, type LinkKey, sameLinkEntry } from './links/link-entry.ts';
import { type SwitchEntry, type SwitchKey, sameSwitchEntry } from './switch/switch-entry.ts';
import { sameWireGuardEntry, type WireGuardEntry, type WireGuardKey } from './wireguard/wireguard-entry.ts';

/** Types of key and value of each target. */
interface PartEntries {
  readonly bridge: readonly [BridgeKey, BridgeValue];
  readonly switch: readonly [SwitchKey, SwitchEntry];
  readonly host: readonly [HostKey, HostEntry];
  readonly firewall: readonly [FirewallKey, string];
  /** Kernel settings. */
  readonly settings: readonly [SettingKey, string];
  /** Pairs of interfaces of pods. */
  readonly links: readonly [LinkKey, LinkEntry];
  /** Device of WireGuard and its peers; nothing without encryption. */
  readonly wireguard: readonly [WireGuardKey, WireGuardEntry];
}

export type TargetName = keyof PartEntries;
export const parts: readonly TargetName[] = ['switch', 'bridge', 'host', 'firewall', 'settings', 'links', 'wireguard'];

export type NodeTargets = { readonly [P in TargetName]: Target<PartEntries[P][0], PartEntries[P][1]> };
export type DesiredParts = { readonly [P in TargetName]: DesiredState<PartEntries[P][0], PartEntries[P][1]> };
export type PartReconcilers = { readonly [P in TargetName]: Reconciler<PartEntries[P][0], PartEntries[P][1]> };

export interface NodeStateEvents {
  round(part: TargetName, result: { readonly put: number; readonly removed: number; readonly tookMs: number }): void;
  /** Urgent changes were written, perhaps long before their round ends. */
  urgent?(part: TargetName): void;
  failure(part: TargetName, error: SeineError): void;
  recovered?(part: TargetName): void;
  refused(part: TargetName, owner: string, error: SeineError): void;
  accepted?(part: TargetName, owner: string): void;
  drift(part: TargetName, keys: readonly string[]): void;
  /** Tables of nftables are replaced with their sets, because nft refused to replace their rules alone: packets may be missed meanwhile. */
  notInPlace?(tables: readonly string[], refusal: SeineError): void;
  /** Desired entries that another process removed. */
  lost?(part: TargetName, keys: readonly string[]): void;
  complete?(part: TargetName): void;
  repaired(part: TargetName, tookMs: number): void;
}

/**
 * Maximum number of entries of one `apply`. ovs-vswitchd takes about 30 µs for a flow: a pod waits 15 ms for a batch of other owners that
 * was sent before its own, and 4 ms where pods are created one after another (computed).
 */
const batchSizes: Readonly<Record<TargetName, number>> = {
  bridge: 500,
  switch: 64,
  host: 500,
  firewall: 1_000,
  settings: 64,
  // Each is created separately: none waits for another, and none is retried because another was refused.
  links: 1,
  wireguard: 100,
};

/**
 * Options of the bridge. For each bundle, ovs-vswitchd checks all of its ports and flows: pods that are created together share few bundles.
 */
const ofBridge = { depthOf: depthOfKey, entryPoints: bridgeEntryPoints, gatherMs: 4, batchSizeWithUrgent: 125 } as const;

/**
 * Options of nftables: each transaction costs about a millisecond and the kernel's lock, however few elements it has. A Service of a hundred
 * ports would have a hundred of them.
 */
const ofFirewall = { restMs: 25 } as const;

/**
 * Options of pairs. The target checks before it writes. Ports of pairs that are created together are opened together, which costs
 * ovs-vswitchd little more than one.
 */
const ofLinks = { refusals: 'certain', sideBySide: 64 } as const;

const equalStrings = <S extends string>(a: S, b: S): boolean => a === b;

/**
 * Returns empty desired states. @param packings kinds of rows that are stored packed, also in the bridge's target; others are stored like
 * flows
 */
export function desiredParts(packings: readonly RowPacking[]): DesiredParts {
  return {
    // The urgent lane: a new pod does not wait for thousands of new nodes or Services.
    bridge: new DesiredState({
      equal: equalStrings,
      kindOf: tableOfKey,
      packings,
      isUrgent: (owner) => owner.startsWith('pod/') || owner.startsWith('subject/'),
      isShared: (owner) => owner.startsWith('endpoint/') || owner.startsWith('service/source-ranges:'),
    }),
    switch: new DesiredState({ equal: sameSwitchEntry }),
    host: new DesiredState({ equal: sameHostEntry }),
    firewall: new DesiredState({ equal: equalStrings }),
    settings: new DesiredState({ equal: equalStrings }),
    links: new DesiredState({ equal: sameLinkEntry, isUrgent: () => true }),
    wireguard: new DesiredState({ equal: sameWireGuardEntry }),
  };
}

/** Returns the reconciler of each target. @param blockedBy see `NodeState` */
export function partReconcilers(
  wanted: DesiredParts,
  targets: NodeTargets,
  events: NodeStateEvents,
  blockedBy: () => string | undefined,
): PartReconcilers {
  const reconciler = <K extends string, V>(
    part: TargetName,
    desired: DesiredState<K, V>,
    target: Target<K, V>,
    equal: (a: V, b: V) => boolean,
    more: Pick<
      ReconcilerOptions<K, V>,
      'batchSizeWithUrgent' | 'depthOf' | 'entryPoints' | 'gatherMs' | 'refusals' | 'restMs' | 'sideBySide'
    > = {},
  ): Reconciler<K, V> =>
    new Reconciler({ ...common(part, events), ...more, blockedBy, desired, target, equal, batchSize: batchSizes[part] });
  return {
    bridge: reconciler('bridge', wanted.bridge, targets.bridge, equalStrings, ofBridge),
    switch: reconciler('switch', wanted.switch, targets.switch, sameSwitchEntry),
    host: reconciler('host', wanted.host, targets.host, sameHostEntry),
    firewall: reconciler('firewall', wanted.firewall, targets.firewall, equalStrings, ofFirewall),
    settings: reconciler('settings', wanted.settings, targets.settings, equalStrings),
    links: reconciler('links', wanted.links, targets.links, sameLinkEntry, ofLinks),
    wireguard: reconciler('wireguard', wanted.wireguard, targets.wireguard, sameWireGuardEntry),
  };
}

function common<K extends string>(name: TargetName, events: NodeStateEvents) {
  const reported: ReconcilerEvents<K> = {
    round: (result) => events.round(name, result),
    urgent: () => events.urgent?.(name),
    failure: (error) => events.failure(name, error),
    recovered: () => events.recovered?.(name),
    refused: (owner, error) => events.refused(name, owner, error),
    accepted: (owner) => events.accepted?.(name, owner),
    drift: (keys) => events.drift(name, keys),
    lost: (keys) => events.lost?.(name, keys),
    complete: () => events.complete?.(name),
    repaired: (tookMs) => events.repaired(name, tookMs),
  };
  return { name, events: reported, backoffMs, now: () => performance.now() };
}

/** Back-off from 50 ms, doubling, to 5 s: a peer that restarts is back within a second, and a broken one is not flooded with attempts. */
function backoffMs(failures: number): number {
  return Math.min(5_000, 50 * 2 ** Math.min(failures - 1, 10)) * (0.75 + Math.random() / 2);
}
