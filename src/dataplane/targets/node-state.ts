import { setImmediate as nextTurn } from 'node:timers/promises';
import { SeineError } from '../../base/errors/seine-error.ts';
import { nothing, type Wanted } from '../desired/host-entries.ts';
import type { PodLink, StandingPair } from '../desired/pod-link.ts';
import type { WantedBridge, WantedPort } from '../desired/switch-row.ts';
import { cookieFeature, cookieOf, type Owner, ownerOf } from '../pipeline/cookie.ts';
import type { TransportAddress } from '../pipeline/flow.ts';
import type { FlowPattern, NumberedRow, NumberedRows, PodPattern, PodPlace } from '../pipeline/flow-pattern.ts';
import { openingsMeters, podOfPorts } from '../pipeline/well-known.ts';
import type { Allowance, DesiredState } from '../reconcile/desired-state.ts';
import { sweepPeriodically } from '../reconcile/periodic-check.ts';
import {
  type BridgeKey,
  type BridgeValue,
  cookieIn,
  encodeBridgeEntries,
  isDeniedMeterKey,
  isFlowKey,
  isMeterKey,
  isOpenedMeterKey,
  isOpenFlowSetting,
  numberOf,
} from './bridge/bridge-entry.ts';
import { FlowTemplates } from './bridge/flow-template.ts';
import { LearnedFlows } from './bridge/learned-flows.ts';
import { PodTemplates } from './bridge/pod-template.ts';
import type { RowPacking } from './bridge/row-packing.ts';
import type { FirewallKey } from './host/firewall-target.ts';
import { type HostEntry, type HostKey, hostEntries } from './host/host-entry.ts';
import type { SettingKey } from './host/setting-key.ts';
import { idlePair, type LinkEntry, type LinkKey, linkKey, wantedLink } from './links/link-entry.ts';
import { Replacement } from './replacement.ts';
import { LinkedPorts } from './switch/linked-ports.ts';
import { portKey, type SwitchEntry, type SwitchKey } from './switch/switch-entry.ts';
import { desiredParts, type NodeStateEvents, type NodeTargets, type PartReconcilers, partReconcilers, parts } from './target-options.ts';
import type { WireGuardEntry, WireGuardKey } from './wireguard/wireguard-entry.ts';

/** Desired bridge entries of a pod: by the pattern of its flows, which is faster, or individually. */
export type PodWanted = Wanted | { readonly pattern: PodPattern; readonly place: PodPlace };

/** Desired state of one pod. */
interface WantedPod {
  readonly wanted: PodWanted;
  readonly link: PodLink;
  /** Absent if the pod has a pre-plugged port. */
  readonly port?: WantedPort;
}

interface PodWaits {
  /** Waits until ovs-vswitchd has opened a port. @throws SeineError `REFUSED`, `CANCELLED` */
  readonly plugged: (port: WantedPort, signal: AbortSignal) => Promise<void>;
  /** Called with the duration of each successful stage (ms); stages overlap. */
  readonly onStage: (stage: 'flows' | 'interface' | 'port', tookMs: number) => void;
}

/** Revisions of the desired state, to wait for. */
export interface Revisions {
  readonly owner: Owner;
  readonly bridge: number;
  readonly host: number;
}

/** Revision older than any: waiting for it returns at once. */
const NO_REVISION = -1;

const nothingOfHost: ReadonlyMap<HostKey, HostEntry> = new Map();

/**
 * The only way to change a node: accepts desired entries for its bridge, OVSDB, network stack and nftables, and waits until they are
 * applied. Each target has its desired state and its reconciler.
 */
export class NodeState {
  /** Desired bridge entries; counts flows by table. */
  readonly bridge: DesiredState<BridgeKey, BridgeValue>;
  readonly switch: DesiredState<SwitchKey, SwitchEntry>;
  readonly host: DesiredState<HostKey, HostEntry>;
  readonly firewall: DesiredState<FirewallKey, string>;
  /** Desired kernel settings. */
  readonly settings: DesiredState<SettingKey, string>;
  /** Desired pairs of interfaces of pods. */
  readonly links: DesiredState<LinkKey, LinkEntry>;
  /** Desired device of WireGuard with its peers. */
  readonly wireguard: DesiredState<WireGuardKey, WireGuardEntry>;
  /** Targets, for readers of the node's current content; only the reconcilers change it. */
  readonly targets: NodeTargets;
  readonly reconcilers: PartReconcilers;

  readonly #templates = new FlowTemplates();
  readonly #podTemplates = new PodTemplates();
  readonly #packings: ReadonlyMap<NumberedRows, RowPacking>;

  /** Ports of pods, requested while the host end of the pair exists. */
  readonly linkedPorts = new LinkedPorts(this);

  /** Flows that OVS may learn from desired flows. */
  readonly learned: LearnedFlows;

  /**
   * @param blockedBy reason why the node must not be changed now, e.g. another agent has the bridge; undefined if it may
   * @param learned distinguishes learned flows from foreign ones in the bridge's target
   * @param packings kinds of rows that are stored packed, also in the bridge's target; others are stored like flows
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
    const wanted = desiredParts(packings);
    this.bridge = wanted.bridge;
    this.switch = wanted.switch;
    this.host = wanted.host;
    this.firewall = wanted.firewall;
    this.settings = wanted.settings;
    this.links = wanted.links;
    this.wireguard = wanted.wireguard;
    this.reconcilers = partReconcilers(wanted, targets, events, blockedBy);
  }

  /** Replaces all bridge and host entries of `owner`. */
  want(owner: Owner, wanted: Wanted): Revisions {
    this.learned.declare(owner, wanted.flows);
    return this.#set(owner, encodeBridgeEntries(owner, wanted), hostEntries(wanted));
  }

  /** Begins to replace all bridge, host and nftables entries of `owner` in steps, see `Replacement`. */
  replace(owner: Owner): Replacement {
    return new Replacement(this, owner);
  }

  /** Replaces all entries of `owner` with the flows of `pattern` for one endpoint; faster than `want`. */
  wantEndpoint(owner: Owner, pattern: FlowPattern, place: TransportAddress): Revisions {
    return this.#set(owner, this.#templates.entriesOf(owner, pattern, place), nothingOfHost);
  }

  /** Like `want`, for the flows of a pod. */
  wantPod(owner: Owner, wanted: PodWanted): Revisions {
    if (!('pattern' in wanted)) return this.want(owner, wanted);
    return this.#set(owner, this.#podTemplates.entriesOf(owner, wanted.pattern, wanted.place), nothingOfHost);
  }

  /** Replaces all entries of a row's owner with the row. */
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

  /** Applies all changes of the bridge made by `work` atomically: no packet meets a part of them. */
  together(work: () => void): void {
    this.bridge.together(work);
  }

  /**
   * Lets changes of bridge, host and firewall made by `work` overtake those of other owners that wait to be written, up to `allowance`:
   * among thousands of ports, a change of another Service waits for one batch.
   */
  overtaking<T>(allowance: Allowance, work: () => T): T {
    return this.bridge.overtaking(allowance, () => this.host.overtaking(allowance, () => this.firewall.overtaking(allowance, work)));
  }

  /**
   * Within `overtaking`, before an entry that forwards to those of `owner`: lets these overtake too if the bridge does not have them yet.
   */
  bringAlong(owner: Owner): void {
    if (!this.reconcilers.bridge.isHeld(owner)) this.bridge.bringAlong(owner);
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
   * Sets a pod's pair of interfaces, and the port for its host end: at once if the pair was created before, otherwise as soon as that end
   * exists.
   */
  wantLink(owner: Owner, link: PodLink, port: WantedPort): number {
    this.linkedPorts.want({ owner, port }, link.made === undefined ? 'later' : 'now');
    return this.#setLinks(owner, new Map([[linkKey(link.hostName), wantedLink(link)]]));
  }

  /** Like `wantLink`, for a pre-plugged port: its owner wants the port always, and the pair while no pod has it. */
  wantPair(owner: Owner, idle: StandingPair): number {
    return this.#setLinks(owner, new Map([[linkKey(idle.hostName), idlePair(idle)]]));
  }

  /** Sets a pod's interface on a pre-plugged port. */
  wantOverPort(owner: Owner, link: PodLink): number {
    return this.#setLinks(owner, new Map([[linkKey(link.hostName), wantedLink(link)]]));
  }

  forgetLinks(owner: Owner): number {
    return this.#setLinks(owner, new Map());
  }

  wantFirewall(owner: Owner, table: string, body: string): number {
    return this.wantElements(owner, new Map([[`table/${table}` as const, body]]));
  }

  /** Replaces all nftables elements of `owner`. The tables have another owner. */
  wantElements(owner: Owner, entries: ReadonlyMap<FirewallKey, string>): number {
    const revision = this.firewall.set(owner, entries);
    this.reconcilers.firewall.poke();
    return revision;
  }

  /** Replaces all WireGuard entries of `owner`: the device, or its peers. */
  wantWireGuard(owner: Owner, entries: ReadonlyMap<WireGuardKey, WireGuardEntry>): number {
    const revision = this.wireguard.set(owner, entries);
    this.reconcilers.wireguard.poke();
    return revision;
  }

  /** Replaces all kernel settings. Each is its own owner: one may be refused without the others. */
  wantSettings(wanted: ReadonlyMap<SettingKey, string>): void {
    for (const key of [...this.settings.keys()]) if (!wanted.has(key)) this.settings.forget(ownerOf('node', key));
    for (const [key, value] of wanted) this.settings.set(ownerOf('node', key), new Map([[key, value]]));
    this.reconcilers.settings.poke();
  }

  /**
   * Waits until bridge and host have applied the revisions that `want` returned.
   *
   * @throws SeineError `REFUSED` if one of them refuses, `CANCELLED` if `signal` comes first
   */
  async realized({ owner, bridge, host }: Revisions, signal: AbortSignal): Promise<void> {
    await Promise.all([this.reconcilers.bridge.realizedFor(owner, bridge, signal), this.reconcilers.host.realizedFor(owner, host, signal)]);
  }

  /** Calls `want`, and waits until bridge and host have applied it. @throws SeineError like `realized` */
  realize(owner: Owner, wanted: Wanted, signal: AbortSignal): Promise<void> {
    return this.realized(this.want(owner, wanted), signal);
  }

  /**
   * Sets a pod's flows, pair of interfaces and port, each as early as its predecessor permits, and waits for all of them. After a failure
   * they stay desired.
   *
   * @throws SeineError `REFUSED` if bridge, kernel or OVS refuse, or if another owner wants a different value for one of the entries;
   * `CANCELLED`
   */
  async realizePod(owner: Owner, { wanted, link, port }: WantedPod, { plugged, onStage }: PodWaits, signal: AbortSignal): Promise<void> {
    const timed = async (stage: 'flows' | 'interface', work: Promise<void>): Promise<void> => {
      const startedMs = performance.now();
      await work;
      onStage(stage, performance.now() - startedMs);
    };
    const flows = timed('flows', this.realized(this.wantPod(owner, wanted), signal));
    flows.catch(() => undefined); // checked below, unless the pair fails first
    const [rival] = this.bridge.conflictingOwners(owner);
    if (rival !== undefined) throw new SeineError('REFUSED', `${rival} has an address of ${owner}`, { context: { owner, rival } });
    // The round begins in the next turn, and writes at once if this is the only pod. This continues after it in that turn: OVS then handles
    // the flows while the kernel creates the pair.
    await afterAllThatIsReady();
    await nextTurn();
    const revision = port ? this.wantLink(owner, link, port) : this.wantOverPort(owner, link);
    await Promise.all([flows, timed('interface', this.reconcilers.links.realizedFor(owner, revision, signal))]);
    if (port) onStage('port', await this.linkedPorts.plugged(link.hostName, plugged, signal));
  }

  /**
   * Declares all pods of this node known: interfaces, ports, flows and meters of unknown pods are removed, even if other sources are not
   * synced.
   *
   * @param subjects owners of pods' policy entries: these stay until policy is computed
   */
  allowPodRemovals(subjects: Iterable<Owner> = []): void {
    const kept = new Set([...subjects].map(cookieOf));
    const isGone = (cookie: bigint): boolean => {
      const feature = cookieFeature(cookie);
      return feature === 'pod' || (feature === 'subject' && !kept.has(cookie));
    };
    this.reconcilers.switch.allowRemovals();
    this.reconcilers.bridge.allowRemovals(
      (key, value) => isPodMeter(key) || isOpenFlowSetting(key) || (isFlowKey(key) && isGone(cookieIn(value))),
    );
    this.reconcilers.links.allowRemovals();
  }

  /** Like `allowRemovals`, except for policy entries, whose sources are not synced yet. */
  allowRemovalsButPolicy(): void {
    for (const part of parts) if (part !== 'bridge') this.reconcilers[part].allowRemovals();
    this.reconcilers.bridge.allowRemovals((key, value) => !isOfPolicy(key, value));
  }

  /**
   * Allows the removal of all entries that no owner wants. Call once every source has finished its first sync. Learned flows count as
   * desired until `learned.complete()`.
   */
  allowRemovals(): void {
    for (const part of parts) this.reconcilers[part].allowRemovals();
  }

  /** Reports whether the bridge may have policy flows that no owner wants. */
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

  /** Suspends the repair of foreign changes until `resumeRepair`. */
  pauseRepair(): void {
    for (const part of parts) this.reconcilers[part].pause();
  }

  resumeRepair(): void {
    for (const part of parts) this.reconcilers[part].resume();
  }

  /** Marks the content of all targets as unknown: earlier acknowledgements no longer count. */
  invalidate(): void {
    for (const part of parts) this.reconcilers[part].invalidate();
  }

  /**
   * Reconciles all targets until `signal`.
   *
   * @throws SeineError `INVARIANT`
   */
  async run(signal: AbortSignal): Promise<void> {
    await Promise.all(parts.flatMap((part) => [this.reconcilers[part].run(signal), sweepPeriodically(this.reconcilers[part], signal)]));
  }

  #set(owner: Owner, ofBridge: ReadonlyMap<BridgeKey, BridgeValue>, ofHost: ReadonlyMap<HostKey, HostEntry>): Revisions {
    const before = this.bridge.revision;
    const bridge = this.bridge.set(owner, ofBridge);
    if (bridge !== before) this.reconcilers.bridge.poke();
    return { owner, bridge, host: this.#setHost(owner, ofHost) };
  }

  /** Sets host entries. Most owners want none, and must not wait for other owners' entries. */
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

/** Resolves after all callbacks that are ready now have run, up to their next wait. */
function afterAllThatIsReady(): Promise<void> {
  return new Promise((resolve) => process.nextTick(resolve));
}

/**
 * Reports whether the key is a meter for a pod's bandwidth. Meters of the node have lower numbers; the pod's owner may not be known yet.
 */
function isPodMeter(key: BridgeKey): boolean {
  return isMeterKey(key) && !isDeniedMeterKey(key) && !isOpenedMeterKey(key) && numberOf(key) >= podOfPorts.first;
}

function isOfPolicy(key: BridgeKey, value: BridgeValue): boolean {
  if (isMeterKey(key)) return isDeniedMeterKey(key) || numberOf(key) <= openingsMeters.last;
  const feature = isFlowKey(key) ? cookieFeature(cookieIn(value)) : undefined;
  return feature === 'policy' || feature === 'subject';
}
