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
import { LinkedPorts } from './switch/linked-ports.ts';
import { portKey, type SwitchEntry, type SwitchKey } from './switch/switch-entry.ts';
import { desiredParts, type NodeStateEvents, type NodeTargets, type PartReconcilers, partReconcilers, parts } from './target-options.ts';

/** What a pod wants of the bridge: by the pattern of its flows, which is faster than one by one, or whatever else. */
export type PodWanted = Wanted | { readonly pattern: PodPattern; readonly place: PodPlace };

/** What a pod is made of. */
interface WantedPod {
  readonly wanted: PodWanted;
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

/** A point in the history of the wanted state, to wait for. */
export interface Revisions {
  readonly owner: Owner;
  readonly bridge: number;
  readonly host: number;
}

/** Older than any: waiting for it returns at once. */
const NO_REVISION = -1;

const nothingOfHost: ReadonlyMap<HostKey, HostEntry> = new Map();

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
  readonly reconcilers: PartReconcilers;

  readonly #templates = new FlowTemplates();
  readonly #podTemplates = new PodTemplates();
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
    const wanted = desiredParts(packings);
    this.bridge = wanted.bridge;
    this.switch = wanted.switch;
    this.host = wanted.host;
    this.firewall = wanted.firewall;
    this.settings = wanted.settings;
    this.links = wanted.links;
    this.reconcilers = partReconcilers(wanted, targets, events, blockedBy);
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

  /** As `want`, for the flows of a pod. */
  wantPod(owner: Owner, wanted: PodWanted): Revisions {
    if (!('pattern' in wanted)) return this.want(owner, wanted);
    return this.#set(owner, this.#podTemplates.entriesOf(owner, wanted.pattern, wanted.place), nothingOfHost);
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

  /**
   * Changes of bridge, host and firewall that `work` makes pass those of other owners that wait to be written, as far as `allowance` goes:
   * of thousands of ports, a change of another Service waits for one batch.
   */
  overtaking<T>(allowance: Allowance, work: () => T): T {
    return this.bridge.overtaking(allowance, () => this.host.overtaking(allowance, () => this.firewall.overtaking(allowance, work)));
  }

  /** Within `overtaking`, before something that leads to the entries of `owner`: these pass others too if the bridge does not have them yet. */
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
    const flows = timed('flows', this.realized(this.wantPod(owner, wanted), signal));
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
      (key, value) => isPodMeter(key) || isOpenFlowSetting(key) || (isFlowKey(key) && isGone(cookieIn(value))),
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
    await Promise.all(parts.flatMap((part) => [this.reconcilers[part].run(signal), sweepPeriodically(this.reconcilers[part], signal)]));
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

/** Limits of pods' bandwidth. Meters of the node have lower numbers; their owner may not be known yet. */
function isPodMeter(key: BridgeKey): boolean {
  return isMeterKey(key) && !isDeniedMeterKey(key) && numberOf(key) >= podOfPorts.first;
}

function isOfPolicy(key: BridgeKey, value: BridgeValue): boolean {
  if (isMeterKey(key)) return isDeniedMeterKey(key) || numberOf(key) <= openingsMeters.last;
  const feature = isFlowKey(key) ? cookieFeature(cookieIn(value)) : undefined;
  return feature === 'policy' || feature === 'subject';
}
