import { setImmediate as nextTurn } from 'node:timers/promises';
import { SeineError } from '../errors/seine-error.ts';
import { cookieFeature, cookieOf, type Owner, ownerOf } from '../pipeline/cookie.ts';
import type { TransportAddress } from '../pipeline/flow.ts';
import type { FlowPattern, NumberedRow, NumberedRows } from '../pipeline/flow-pattern.ts';
import { openingsMeters } from '../pipeline/well-known.ts';
import type { PodLink, StandingPair } from '../wanted/pod-link.ts';
import type { WantedBridge, WantedPort } from '../wanted/switch-row.ts';
import { nothing, type Wanted } from '../wanted/wanted.ts';
import {
  type BridgeKey,
  type BridgeValue,
  cookieIn,
  depthOfKey,
  encodeBridgeEntries,
  isDeniedMeterKey,
  isFlowKey,
  isMeterKey,
  isOpenFlowSetting,
  numberOf,
  tableOfKey,
} from './bridge-entry.ts';
import { bridgeFront } from './bridge-front.ts';
import { DesiredState } from './desired-state.ts';
import type { FirewallKey } from './firewall-target.ts';
import { FlowTemplates } from './flow-template.ts';
import { type HostEntry, type HostKey, hostEntries, sameHostEntry } from './host-entry.ts';
import { LearnedFlows } from './learned-flows.ts';
import { idlePair, type LinkEntry, type LinkKey, linkKey, sameLinkEntry, wantedLink } from './link-entry.ts';
import { LinkedPorts } from './linked-ports.ts';
import { Reconciler } from './reconciler.ts';
import type { ReconcilerEvents, ReconcilerOptions } from './reconciler-options.ts';
import type { RowPacking } from './row-packing.ts';
import type { SettingKey } from './setting-key.ts';
import { sweepPeriodically } from './sweep.ts';
import { portKey, type SwitchEntry, type SwitchKey, sameSwitchEntry } from './switch-entry.ts';
import type { Target } from './target.ts';

/** The reconciler of each part of the node. */
interface NodeTargets {
  readonly bridge: Target<BridgeKey, BridgeValue>;
  readonly switch: Target<SwitchKey, SwitchEntry>;
  readonly host: Target<HostKey, HostEntry>;
  readonly firewall: Target<FirewallKey, string>;
  readonly settings: Target<SettingKey, string>;
  readonly links: Target<LinkKey, LinkEntry>;
}

export type TargetName = keyof NodeTargets;
export const parts: readonly TargetName[] = ['switch', 'bridge', 'host', 'firewall', 'settings', 'links'];

/** What a pod is made of. */
interface WantedPod {
  readonly wanted: Wanted;
  readonly link: PodLink;
  /** Absent where the pod has a standing port, which is plugged in. */
  readonly port?: WantedPort;
}

interface PodWaits {
  /** Waits until ovs-vswitchd has plugged a port in. @throws SeineError `REFUSED`, `CANCELLED` */
  readonly plugged: (port: WantedPort, signal: AbortSignal) => Promise<void>;
  /** Of what succeeds, how long it took (ms); they overlap. */
  readonly onStage: (stage: 'flows' | 'interface' | 'port', tookMs: number) => void;
}

export interface NodeStateEvents {
  round(part: TargetName, result: { readonly put: number; readonly removed: number; readonly tookMs: number }): void;
  failure(part: TargetName, error: SeineError): void;
  recovered?(part: TargetName): void;
  refused(part: TargetName, owner: string, error: SeineError): void;
  accepted?(part: TargetName, owner: string): void;
  drift(part: TargetName, keys: readonly string[]): void;
  repaired(part: TargetName, tookMs: number): void;
}

/** A point in the history of the wanted state, to wait for. */
export interface Revisions {
  readonly owner: Owner;
  readonly bridge: number;
  readonly host: number;
}

/** Older than any: waiting for it returns at once. */
const NO_REVISION = -1;

const nothingOfHost: ReadonlyMap<HostKey, HostEntry> = new Map();
/** Entries of one `apply`. ovs-vswitchd takes some 30 µs for a flow: a pod waits 15 ms at most for a batch of other owners that was sent before its own. */
const batchSizes: Readonly<Record<TargetName, number>> = {
  bridge: 500,
  switch: 64,
  host: 500,
  firewall: 1_000,
  settings: 64,
  // Each is made by itself: none waits for another, and none is tried again because another was refused.
  links: 1,
};

/** With each bundle, ovs-vswitchd looks at all of its ports and flows: pods that come together have theirs in few. */
const ofBridge = { depthOf: depthOfKey, front: bridgeFront, gatherMs: 4 } as const;

/** It looks before it writes. Pairs that are made together have ports that are plugged in together, which costs ovs-vswitchd little more than one. */
const ofLinks = { refusals: 'certain', sideBySide: 64 } as const;

const equalStrings = <S extends string>(a: S, b: S): boolean => a === b;

/**
 * The one port to the node: takes what is wanted of its bridge, its switch database, its own stack and its packet filter, and
 * waits until it is realised. Each part has its desired state and its reconciler.
 */
export class NodeState {
  /** Counts wanted flows by table. */
  readonly bridge: DesiredState<BridgeKey, BridgeValue>;
  readonly switch: DesiredState<SwitchKey, SwitchEntry>;
  readonly host: DesiredState<HostKey, HostEntry>;
  readonly firewall: DesiredState<FirewallKey, string>;
  /** Settings of the kernel. */
  readonly settings: DesiredState<SettingKey, string>;
  /** Pods' pairs of interfaces. */
  readonly links: DesiredState<LinkKey, LinkEntry>;
  /** For readers of what the node holds now; only the reconcilers change it. */
  readonly targets: NodeTargets;
  readonly reconcilers: {
    readonly bridge: Reconciler<BridgeKey, BridgeValue>;
    readonly switch: Reconciler<SwitchKey, SwitchEntry>;
    readonly host: Reconciler<HostKey, HostEntry>;
    readonly firewall: Reconciler<FirewallKey, string>;
    readonly settings: Reconciler<SettingKey, string>;
    readonly links: Reconciler<LinkKey, LinkEntry>;
  };

  readonly #templates = new FlowTemplates();
  readonly #packings: ReadonlyMap<NumberedRows, RowPacking>;

  /** Ports of pods, wanted while the node's end of the pair is there. */
  readonly linkedPorts = new LinkedPorts(this);

  /** What the wanted flows teach the switch. */
  readonly learned: LearnedFlows;

  /**
   * @param blockedBy why nothing of the node may be changed now, e.g. because another agent has the bridge; undefined if it may
   * @param learned by which the bridge's target tells learned flows from foreign ones
   * @param packings rows that are kept packed, by the bridge's target as well; others are kept as flows are
   */
  constructor(
    targets: NodeTargets,
    events: NodeStateEvents,
    blockedBy: () => string | undefined = () => undefined,
    learned = new LearnedFlows(),
    packings: readonly RowPacking[] = [],
  ) {
    this.#packings = new Map(packings.map((packing) => [packing.rows, packing]));
    this.targets = targets;
    this.learned = learned;
    // The urgent lane: a pod that starts does not wait for thousands of new nodes or Services.
    this.bridge = new DesiredState({
      equal: equalStrings,
      kindOf: tableOfKey,
      packings,
      isUrgent: (owner) => owner.startsWith('pod/') || owner.startsWith('subject/'),
    });
    this.switch = new DesiredState({ equal: sameSwitchEntry });
    this.host = new DesiredState({ equal: sameHostEntry });
    this.firewall = new DesiredState({ equal: equalStrings });
    this.settings = new DesiredState({ equal: equalStrings });
    this.links = new DesiredState({ equal: sameLinkEntry, isUrgent: () => true });
    const reconciler = <K extends string, V>(
      part: TargetName,
      desired: DesiredState<K, V>,
      target: Target<K, V>,
      equal: (a: V, b: V) => boolean,
      more: Pick<ReconcilerOptions<K, V>, 'depthOf' | 'front' | 'gatherMs' | 'refusals' | 'sideBySide'> = {},
    ): Reconciler<K, V> =>
      new Reconciler({ ...common(part, events), ...more, blockedBy, desired, target, equal, batchSize: batchSizes[part] });
    this.reconcilers = {
      bridge: reconciler('bridge', this.bridge, targets.bridge, equalStrings, ofBridge),
      switch: reconciler('switch', this.switch, targets.switch, sameSwitchEntry),
      host: reconciler('host', this.host, targets.host, sameHostEntry),
      firewall: reconciler('firewall', this.firewall, targets.firewall, equalStrings),
      settings: reconciler('settings', this.settings, targets.settings, equalStrings),
      links: reconciler('links', this.links, targets.links, sameLinkEntry, ofLinks),
    };
  }

  /** Replaces everything that `owner` wants of bridge and host. */
  want(owner: Owner, wanted: Wanted): Revisions {
    this.learned.declare(owner, wanted.flows);
    return this.#set(owner, encodeBridgeEntries(owner, wanted), hostEntries(wanted));
  }

  /** Replaces everything that `owner` wants by the flows of `pattern` for one endpoint; faster than `want`. */
  wantEndpoint(owner: Owner, pattern: FlowPattern, place: TransportAddress): Revisions {
    return this.#set(owner, this.#templates.entriesOf(owner, pattern, place), nothingOfHost);
  }

  /** Replaces everything that the owner of a row wants by the row. */
  wantRow(owner: Owner, { rows, ip, number }: NumberedRow): Revisions {
    const packing = this.#packings.get(rows);
    if (!packing) return this.want(owner, { ...nothing, flows: [rows.flowOf(ip, number)] });
    const before = this.bridge.revision;
    const bridge = this.bridge.setPacked(owner, packing, packing.placeOf(ip), number | 0);
    if (bridge !== before) this.reconcilers.bridge.poke();
    return { owner, bridge, host: NO_REVISION };
  }

  forget(owner: Owner): Revisions {
    this.learned.declare(owner, []);
    return this.#set(owner, new Map(), nothingOfHost);
  }

  /** What is wanted of the bridge by `work` becomes true at once there: no packet meets a part of it. */
  together(work: () => void): void {
    this.bridge.together(work);
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

  /**
   * Wants a pod's pair of interfaces, and the port that takes its node's end: at once if the pair was made before, else as soon as that end
   * is there.
   */
  wantLink(owner: Owner, link: PodLink, port: WantedPort): number {
    this.linkedPorts.want({ owner, port }, link.made === undefined ? 'later' : 'now');
    return this.#setLinks(owner, new Map([[linkKey(link.hostName), wantedLink(link)]]));
  }

  /** As `wantLink`, of a standing port: its owner wants the port, and the pair while no pod has it. */
  wantPair(owner: Owner, idle: StandingPair): number {
    return this.#setLinks(owner, new Map([[linkKey(idle.hostName), idlePair(idle)]]));
  }

  /** What a pod wants over a standing port. */
  wantOverPort(owner: Owner, link: PodLink): number {
    return this.#setLinks(owner, new Map([[linkKey(link.hostName), wantedLink(link)]]));
  }

  forgetLinks(owner: Owner): number {
    return this.#setLinks(owner, new Map());
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

  /** Replaces everything that is wanted of the kernel's settings. Each is an owner of its own: one may be refused, and the others not. */
  wantSettings(wanted: ReadonlyMap<SettingKey, string>): void {
    for (const key of [...this.settings.keys()]) if (!wanted.has(key)) this.settings.forget(ownerOf('node', key));
    for (const [key, value] of wanted) this.settings.set(ownerOf('node', key), new Map([[key, value]]));
    this.reconcilers.settings.poke();
  }

  /**
   * Waits until bridge and host hold what `want` returned.
   *
   * @throws SeineError `REFUSED` if one of them refuses it, `CANCELLED` if `signal` comes first
   */
  async realized({ owner, bridge, host }: Revisions, signal: AbortSignal): Promise<void> {
    await Promise.all([this.reconcilers.bridge.realizedFor(owner, bridge, signal), this.reconcilers.host.realizedFor(owner, host, signal)]);
  }

  /** Wants, and waits until bridge and host hold it. @throws SeineError as `realized` */
  realize(owner: Owner, wanted: Wanted, signal: AbortSignal): Promise<void> {
    return this.realized(this.want(owner, wanted), signal);
  }

  /**
   * Wants a pod's flows, pair of interfaces and port, each as early as the one before lets it, and waits until all of it is there. A
   * failure leaves it wanted.
   *
   * @throws SeineError `REFUSED` if bridge, kernel or switch refuse it, or if another owner wants otherwise of one of its entries; `CANCELLED`
   */
  async realizePod(owner: Owner, { wanted, link, port }: WantedPod, { plugged, onStage }: PodWaits, signal: AbortSignal): Promise<void> {
    const timed = async (stage: 'flows' | 'interface', work: Promise<void>): Promise<void> => {
      const startedMs = performance.now();
      await work;
      onStage(stage, performance.now() - startedMs);
    };
    const flows = timed('flows', this.realize(owner, wanted, signal));
    flows.catch(() => undefined); // looked at below, unless the pair fails first
    const [rival] = this.bridge.conflictingOwners(owner);
    if (rival !== undefined) throw new SeineError('REFUSED', `${rival} has an address of ${owner}`, { context: { owner, rival } });
    // The round begins in the next turn, and writes at once if this pod is alone. Behind it in that turn: then the switch works on the flows while the kernel makes the pair.
    await afterAllThatIsReady();
    await nextTurn();
    const revision = port ? this.wantLink(owner, link, port) : this.wantOverPort(owner, link);
    await Promise.all([flows, timed('interface', this.reconcilers.links.realizedFor(owner, revision, signal))]);
    if (port) onStage('port', await this.linkedPorts.plugged(link.hostName, plugged, signal));
  }

  /**
   * Every pod of this node is known now: interfaces, ports, flows and meters of unknown pods are removed, whatever else is not known yet.
   *
   * @param subjects what pods are to policy, by owner: it stays until it is computed
   */
  allowPodRemovals(subjects: Iterable<Owner> = []): void {
    const kept = new Set([...subjects].map(cookieOf));
    const isGone = (cookie: bigint): boolean => {
      const feature = cookieFeature(cookie);
      return feature === 'pod' || (feature === 'subject' && !kept.has(cookie));
    };
    this.reconcilers.switch.allowRemovals();
    this.reconcilers.bridge.allowRemovals(
      (key, value) => (isMeterKey(key) && !isOfPolicy(key, value)) || isOpenFlowSetting(key) || (isFlowKey(key) && isGone(cookieIn(value))),
    );
    this.reconcilers.links.allowRemovals();
  }

  /** As `allowRemovals`, but for what belongs to policy: its sources are not in step yet. */
  allowRemovalsButPolicy(): void {
    for (const part of parts) if (part !== 'bridge') this.reconcilers[part].allowRemovals();
    this.reconcilers.bridge.allowRemovals((key, value) => !isOfPolicy(key, value));
  }

  /**
   * From now on, what no owner wants is removed. Call once every source of intents has finished its first sync. What the switch learned
   * counts as wanted until `learned.complete()`, too.
   */
  allowRemovals(): void {
    for (const part of parts) this.reconcilers[part].allowRemovals();
  }

  /** Whether the bridge may have flows of policy that nobody wants. */
  hasPolicyLeftovers(): boolean {
    const held = this.reconcilers.bridge.actual();
    if (held === undefined) return true;
    for (const [key, value] of held) if (this.bridge.wanted(key) === undefined && isFlowKey(key) && isOfPolicy(key, value)) return true;
    return false;
  }

  /** Observes everything again, as after a possible foreign change. */
  recheck(): void {
    for (const part of parts) this.reconcilers[part].recheck();
  }

  /** Foreign changes stay until `resumeRepair`. */
  pauseRepair(): void {
    for (const part of parts) this.reconcilers[part].pause();
  }

  resumeRepair(): void {
    for (const part of parts) this.reconcilers[part].resume();
  }

  /** Takes everything for unknown: earlier acknowledgements no longer count. */
  invalidate(): void {
    for (const part of parts) this.reconcilers[part].invalidate();
  }

  /**
   * Reconciles all parts until `signal`.
   *
   * @throws SeineError `INVARIANT`
   */
  async run(signal: AbortSignal): Promise<void> {
    await Promise.all(parts.flatMap((part) => [this.reconcilers[part].run(signal), this.#sweep(part, signal)]));
  }

  /** One by one, so that each has its own types. */
  #sweep(part: TargetName, signal: AbortSignal): Promise<void> {
    const { bridge, switch: rows, host, firewall, settings, links } = this.reconcilers;
    switch (part) {
      case 'bridge':
        return sweepPeriodically(bridge, signal);
      case 'switch':
        return sweepPeriodically(rows, signal);
      case 'host':
        return sweepPeriodically(host, signal);
      case 'firewall':
        return sweepPeriodically(firewall, signal);
      case 'settings':
        return sweepPeriodically(settings, signal);
      case 'links':
        return sweepPeriodically(links, signal);
    }
  }

  #set(owner: Owner, ofBridge: ReadonlyMap<BridgeKey, BridgeValue>, ofHost: ReadonlyMap<HostKey, HostEntry>): Revisions {
    const before = this.bridge.revision;
    const bridge = this.bridge.set(owner, ofBridge);
    if (bridge !== before) this.reconcilers.bridge.poke();
    return { owner, bridge, host: this.#setHost(owner, ofHost) };
  }

  /** Most owners want nothing of the host, and must not wait for other owners' entries there. */
  #setHost(owner: Owner, entries: ReadonlyMap<HostKey, HostEntry>): number {
    if (entries.size === 0 && this.host.keysOf(owner).length === 0) return NO_REVISION;
    const revision = this.host.set(owner, entries);
    this.reconcilers.host.poke();
    return revision;
  }

  #setLinks(owner: Owner, entries: ReadonlyMap<LinkKey, LinkEntry>): number {
    const revision = this.links.set(owner, entries);
    this.reconcilers.links.poke();
    return revision;
  }

  #setSwitch(owner: Owner, entries: ReadonlyMap<SwitchKey, SwitchEntry>): number {
    const revision = this.switch.set(owner, entries);
    this.reconcilers.switch.poke();
    return revision;
  }
}

/** Whatever has been woken by now has gone on, up to where it waits for something else. */
function afterAllThatIsReady(): Promise<void> {
  return new Promise((resolve) => process.nextTick(resolve));
}

function isOfPolicy(key: BridgeKey, value: BridgeValue): boolean {
  if (isMeterKey(key)) return isDeniedMeterKey(key) || numberOf(key) <= openingsMeters.last;
  const feature = isFlowKey(key) ? cookieFeature(cookieIn(value)) : undefined;
  return feature === 'policy' || feature === 'subject';
}

function common<K extends string>(name: TargetName, events: NodeStateEvents) {
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

/** 50 ms, doubling, to 5 s: a peer that restarts is back within the second, and a broken one is not flooded with attempts. */
function backoffMs(failures: number): number {
  return Math.min(5_000, 50 * 2 ** Math.min(failures - 1, 10)) * (0.75 + Math.random() / 2);
}
