import type { SeineError } from '../errors/seine-error.ts';
import { cookieFeature, type Feature, type Owner } from '../pipeline/cookie.ts';
import type { FlowPattern, Place } from '../pipeline/flow-pattern.ts';
import type { WantedBridge, WantedPort } from '../wanted/switch-row.ts';
import type { Wanted } from '../wanted/wanted.ts';
import {
  type BridgeKey,
  type BridgeValue,
  decodeFlowEntry,
  encodeBridgeEntries,
  isFlowKey,
  isMeterKey,
  tableOfKey,
} from './bridge-entry.ts';
import { DesiredState } from './desired-state.ts';
import type { FirewallKey } from './firewall-target.ts';
import { FlowTemplates } from './flow-template.ts';
import { type HostEntry, type HostKey, hostEntries, sameHostEntry } from './host-entry.ts';
import { Reconciler } from './reconciler.ts';
import type { ReconcilerEvents } from './reconciler-options.ts';
import { sweepAgainAndAgain } from './sweep.ts';
import { portKey, type SwitchEntry, type SwitchKey, sameSwitchEntry } from './switch-entry.ts';
import type { Target } from './target.ts';

/** What each part of the node is made equal to what is wanted by. */
export interface NodeTargets {
  readonly bridge: Target<BridgeKey, BridgeValue>;
  readonly switch: Target<SwitchKey, SwitchEntry>;
  readonly host: Target<HostKey, HostEntry>;
  readonly firewall: Target<FirewallKey, string>;
}

export type Part = keyof NodeTargets;
export const parts: readonly Part[] = ['switch', 'bridge', 'host', 'firewall'];

export interface NodeDatapathEvents {
  round(part: Part, result: { readonly put: number; readonly removed: number; readonly tookMs: number }): void;
  failure(part: Part, error: SeineError): void;
  recovered?(part: Part): void;
  refused(part: Part, owner: string, error: SeineError): void;
  accepted?(part: Part, owner: string): void;
  drift(part: Part, keys: readonly string[]): void;
  repaired(part: Part, tookMs: number): void;
}

/** A point in the history of wishes, to wait for. */
export interface Revisions {
  readonly owner: Owner;
  readonly bridge: number;
  readonly host: number;
}

/** Older than any: nobody waits for it. */
const NO_REVISION = -1;

const nothingOfHost: ReadonlyMap<HostKey, HostEntry> = new Map();
const equalStrings = <S extends string>(a: S, b: S): boolean => a === b;

/**
 * The one port to the node: says what is wanted of its bridge, its switch database, its own stack and its packet filter, and
 * waits until that is so. Each part has its desired state and its reconciler.
 */
export class NodeDatapath {
  /** Counts its flows by table. */
  readonly bridge: DesiredState<BridgeKey, BridgeValue>;
  readonly switch: DesiredState<SwitchKey, SwitchEntry>;
  readonly host: DesiredState<HostKey, HostEntry>;
  readonly firewall: DesiredState<FirewallKey, string>;
  /** For those who want to see what the node holds now; only the reconcilers change it. */
  readonly targets: NodeTargets;
  readonly reconcilers: {
    readonly bridge: Reconciler<BridgeKey, BridgeValue>;
    readonly switch: Reconciler<SwitchKey, SwitchEntry>;
    readonly host: Reconciler<HostKey, HostEntry>;
    readonly firewall: Reconciler<FirewallKey, string>;
  };

  readonly #templates = new FlowTemplates();

  constructor(targets: NodeTargets, events: NodeDatapathEvents) {
    this.targets = targets;
    // A pod that starts does not wait for thousands of nodes or Services that are new as well.
    this.bridge = new DesiredState({ equal: equalStrings, kindOf: tableOfKey, isUrgent: (owner) => owner.startsWith('pod/') });
    this.switch = new DesiredState({ equal: sameSwitchEntry });
    this.host = new DesiredState({ equal: sameHostEntry });
    this.firewall = new DesiredState({ equal: equalStrings });
    this.reconcilers = {
      bridge: new Reconciler({
        ...common('bridge', events),
        desired: this.bridge,
        target: targets.bridge,
        equal: equalStrings,
        // ovs-vswitchd takes some 30 µs for a flow: a pod waits 15 ms at most for a portion of others' that was sent before its own.
        portionSize: 500,
      }),
      switch: new Reconciler({
        ...common('switch', events),
        desired: this.switch,
        target: targets.switch,
        equal: sameSwitchEntry,
        portionSize: 64,
      }),
      host: new Reconciler({ ...common('host', events), desired: this.host, target: targets.host, equal: sameHostEntry, portionSize: 500 }),
      firewall: new Reconciler({
        ...common('firewall', events),
        desired: this.firewall,
        target: targets.firewall,
        equal: equalStrings,
        portionSize: 1_000,
      }),
    };
  }

  /** Replaces everything that `owner` wants of bridge and host. */
  want(owner: Owner, wanted: Wanted): Revisions {
    return this.#set(owner, encodeBridgeEntries(owner, wanted), hostEntries(wanted));
  }

  /** Replaces everything that `owner` wants by what `pattern` has for `place`, quicker than `want`. */
  wantPlace(owner: Owner, pattern: FlowPattern, place: Place): Revisions {
    return this.#set(owner, this.#templates.entriesOf(owner, pattern, place), nothingOfHost);
  }

  forget(owner: Owner): Revisions {
    return this.#set(owner, new Map(), nothingOfHost);
  }

  wantBridge(owner: Owner, bridge: WantedBridge, ports: readonly WantedPort[]): number {
    const entries = new Map<SwitchKey, SwitchEntry>(ports.map((port) => [portKey(port.name), { kind: 'port', port }]));
    return this.#setSwitch(owner, entries.set('bridge', { kind: 'bridge', bridge }));
  }

  wantPort(owner: Owner, port: WantedPort): number {
    return this.#setSwitch(owner, new Map([[portKey(port.name), { kind: 'port', port }]]));
  }

  forgetPorts(owner: Owner): number {
    return this.#setSwitch(owner, new Map());
  }

  wantFirewall(owner: Owner, table: string, body: string): number {
    return this.wantElements(owner, new Map([[`table/${table}` as const, body]]));
  }

  /** Replaces everything that `owner` wants of the packet filter. The tables of elements are another owner's. */
  wantElements(owner: Owner, entries: ReadonlyMap<FirewallKey, string>): number {
    const revision = this.firewall.set(owner, entries);
    this.reconcilers.firewall.poke();
    return revision;
  }

  /**
   * Waits until bridge and host hold what `want` asked for.
   *
   * @throws SeineError `REFUSED` if one of them does not take it, `CANCELLED` if `signal` comes first
   */
  async realized({ owner, bridge, host }: Revisions, signal: AbortSignal): Promise<void> {
    await Promise.all([this.reconcilers.bridge.realizedFor(owner, bridge, signal), this.reconcilers.host.realizedFor(owner, host, signal)]);
  }

  /** Every pod of this node is known now: what ports, flows and meters belong to none of them are removed, whatever else is not known yet. */
  allowPodRemovals(): void {
    this.reconcilers.switch.allowRemovals();
    this.reconcilers.bridge.allowRemovals((key, value) => isMeterKey(key) || (isFlowKey(key) && featureOfFlow(key, value) === 'pod'));
  }

  /** From now on, what nobody wants is removed. Call once every source of wishes has finished its first sync. */
  allowRemovals(): void {
    for (const part of parts) this.reconcilers[part].allowRemovals();
  }

  /** Looks at everything again, as after somebody else may have changed it. */
  suspect(): void {
    for (const part of parts) this.reconcilers[part].suspect();
  }

  /** What others change stays as it is until `resumeRepair`. */
  pauseRepair(): void {
    for (const part of parts) this.reconcilers[part].pause();
  }

  resumeRepair(): void {
    for (const part of parts) this.reconcilers[part].resume();
  }

  /** Takes everything for unknown: what was acknowledged before is worth nothing. */
  distrust(): void {
    for (const part of parts) this.reconcilers[part].distrust();
  }

  /**
   * Keeps all parts as wanted until `signal`.
   *
   * @throws SeineError `INVARIANT`
   */
  async run(signal: AbortSignal): Promise<void> {
    await Promise.all(parts.flatMap((part) => [this.reconcilers[part].run(signal), this.#sweep(part, signal)]));
  }

  /** One by one, so that each has its own types. */
  #sweep(part: Part, signal: AbortSignal): Promise<void> {
    const { bridge, switch: rows, host, firewall } = this.reconcilers;
    if (part === 'bridge') return sweepAgainAndAgain(bridge, signal);
    if (part === 'switch') return sweepAgainAndAgain(rows, signal);
    return part === 'host' ? sweepAgainAndAgain(host, signal) : sweepAgainAndAgain(firewall, signal);
  }

  #set(owner: Owner, ofBridge: ReadonlyMap<BridgeKey, BridgeValue>, ofHost: ReadonlyMap<HostKey, HostEntry>): Revisions {
    const before = this.bridge.revision;
    const bridge = this.bridge.set(owner, ofBridge);
    if (bridge !== before) this.reconcilers.bridge.poke();
    return { owner, bridge, host: this.#setHost(owner, ofHost) };
  }

  /** Most owners want nothing of the host, and must not wait for what others want of it. */
  #setHost(owner: Owner, entries: ReadonlyMap<HostKey, HostEntry>): number {
    if (entries.size === 0 && this.host.keysOf(owner).length === 0) return NO_REVISION;
    const revision = this.host.set(owner, entries);
    this.reconcilers.host.poke();
    return revision;
  }

  #setSwitch(owner: Owner, entries: ReadonlyMap<SwitchKey, SwitchEntry>): number {
    const revision = this.switch.set(owner, entries);
    this.reconcilers.switch.poke();
    return revision;
  }
}

function featureOfFlow(key: BridgeKey, value: BridgeValue): Feature | undefined {
  return cookieFeature(decodeFlowEntry(key, value).cookie);
}

function common<K extends string>(name: Part, events: NodeDatapathEvents) {
  const reported: ReconcilerEvents<K> = {
    round: (result) => events.round(name, result),
    failure: (error) => events.failure(name, error),
    recovered: () => events.recovered?.(name),
    refused: (owner, error) => events.refused(name, owner, error),
    accepted: (owner) => events.accepted?.(name, owner),
    drift: (keys) => events.drift(name, keys),
    repaired: (tookMs) => events.repaired(name, tookMs),
  };
  return { name, events: reported, backoffMs, now: () => performance.now() };
}

/** 50 ms, doubling, to 5 s: a peer that restarts is back within the second, and a broken one is not hammered. */
function backoffMs(failures: number): number {
  return Math.min(5_000, 50 * 2 ** Math.min(failures - 1, 10)) * (0.75 + Math.random() / 2);
}
