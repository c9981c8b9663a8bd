import { setImmediate as nextTurn } from 'node:timers/promises';
import { SeineError } from '../../../base/errors/seine-error.ts';
import { errnoOf } from '../../../netlink/errno.ts';
import { changeLink, getLink, type Link, listLinksOffThread } from '../../../netlink/links.ts';
import { Batch } from '../../../netlink/message.ts';
import { changePodEnd, mayBeAnother, type PodEnd, readPodEnd } from '../../../netlink/pod-interfaces/pod-end.ts';
import { createPodInterface, type HostLinks, type PodInterface } from '../../../netlink/pod-interfaces/pod-interface.ts';
import type { FarEnd } from '../../../netlink/pod-interfaces/pre-plugged-port.ts';
import { NetlinkSocket } from '../../../netlink/socket.ts';
import type { PodLink, StandingPair } from '../../desired/pod-link.ts';
import type { Plan, Target } from '../../reconcile/target.ts';
import { hasNoIpv6, keepFromIpv6 } from './host-end-ipv6.ts';
import { hasRoomFor, hostDifferences, type LinkEntry, type LinkKey, linkKey, podEndDifferences, sameDesiredLink } from './link-entry.ts';
import type { PodLinkOverPort, StandingLinks } from './pre-plugged-links.ts';

/** Time for which pods' namespaces are read before yielding to the rest of the agent (ms). */
const CHECK_SLICE_MS = 2;

/** Operations on OVS ports that creation and removal of pairs need. */
interface LinkPorts {
  /**
   * Resolves once ovs-vswitchd has no port of this name: it would not reopen an interface that was created again.
   *
   * @throws SeineError `UNAVAILABLE`
   */
  unplug(hostName: string, signal: AbortSignal): Promise<void>;
  /** Called when the host end exists, or will not: the port may be requested. */
  plug(hostName: string): void;
}

interface LinksTargetOptions {
  readonly host: HostLinks;
  readonly standing: StandingLinks;
  /** Desired entries, by which pods are found. */
  readonly wanted: () => { keys(): Iterable<LinkKey>; wanted(key: LinkKey): LinkEntry | undefined };
  /** Reports whether an interface that no owner wants is a host end left by an agent. */
  readonly isPodInterface: (link: Link) => boolean;
  readonly ports: LinkPorts;
  /** True if names, addresses and routes inside pods are repaired; otherwise they are only reported. */
  readonly repairPods: boolean;
  /** Called after each check of all pods, with the changes found inside pods by host end. */
  readonly looked: (inside: ReadonlyMap<string, InsidePod>) => void;
  /** Called when an interface could not be removed. The next periodic check finds it, and the removal is retried. */
  readonly notRemoved: (hostName: string, error: SeineError) => void;
}

/** Differences inside a pod. */
export interface InsidePod {
  readonly link: PodLink;
  readonly differs: readonly string[];
}

type Made = Pick<PodInterface, 'hostMac' | 'routeTables' | 'netnsCookie'>;

/**
 * Target for pods' pairs of interfaces. Host ends are read from the kernel with one list, pods' ends with a short visit to each namespace.
 *
 * A new pair is only created under a free name. A removal is started at once and takes the kernel about 16 ms, for which no round waits:
 * meanwhile the pair is not shown. Each pair is checked before it is written, so every refusal is definite.
 */
export class LinksTarget implements Target<LinkKey, LinkEntry> {
  readonly #options: LinksTargetOptions;
  /** Pairs that this process has created, by host end. */
  readonly #made = new Map<string, Made>();
  readonly #removals = new Map<string, Promise<void>>();
  readonly #listeners = new Set<(hostName: string) => void>();

  constructor(options: LinksTargetOptions) {
    this.#options = options;
  }

  /** Returns the result of creating a pair; undefined if this process has not created it. */
  madeOf(hostName: string): Made | undefined {
    return this.#made.get(hostName);
  }

  /** Registers a listener that is called whenever a pair was created. */
  onMade(listener: (hostName: string) => void): void {
    this.#listeners.add(listener);
  }

  /** Resolves once no removal of this interface is in progress, nor of a pod's interface on this pre-plugged port. */
  async removed(hostName: string): Promise<void> {
    await this.#options.standing.released(hostName);
    await this.#removals.get(hostName);
  }

  /** Removes a pod's interface on this pre-plugged port now, instead of leaving that to the end of its namespace. */
  releaseNow(hostName: string): void {
    this.#options.standing.releaseNow(hostName);
  }

  /** Reports whether no pod has this pre-plugged port, and no interface of a pod is left on it. */
  isIdle(pair: StandingPair): boolean {
    return this.#options.standing.isIdle(pair);
  }

  /** Announces that the next desired pair of this name is a new one. */
  expectNew(hostName: string): void {
    this.#made.delete(hostName);
  }

  /** Resolves once all removals requested so far are complete. */
  async idle(): Promise<void> {
    await this.#options.standing.idle();
    await Promise.all(this.#removals.values());
  }

  async observe(): Promise<Map<LinkKey, LinkEntry>> {
    const { wanted, isPodInterface, standing, looked } = this.#options;
    const removing = new Set(this.#removals.keys());
    const [links, fars] = await Promise.all([nodeEnds(), standing.farEnds()]);
    const held = new Map<LinkKey, LinkEntry>();
    const inside = new Map<string, InsidePod>();
    for (const name of this.#made.keys()) if (wanted().wanted(linkKey(name)) === undefined) this.#made.delete(name);
    let sinceMs = performance.now();
    for (const link of links) {
      if (removing.has(link.name)) continue;
      const key = linkKey(link.name);
      const entry = wanted().wanted(key);
      const { link: want, idle } = entry ?? {};
      if (idle) held.set(key, { idle, differs: standing.idleDifferences(idle, link, fars.get(idle.farName)) });
      else if (want === undefined && (isPodInterface(link) || standing.isStanding(link, fars)))
        held.set(key, { differs: [`no pod has ${link.name}`] });
      if (want === undefined) continue;
      held.set(key, this.#look(want, link, { fars, inside }));
      if (performance.now() - sinceMs < CHECK_SLICE_MS) continue;
      await nextTurn();
      sinceMs = performance.now();
    }
    looked(inside);
    return held;
  }

  /** Compares the desired entries with which two observations were compared. */
  sameDesired(before: LinkEntry, after: LinkEntry): boolean {
    return sameDesiredLink(before, after);
  }

  /** Applies a plan. Removals are only started; `removed` waits for their end. */
  async apply({ put, remove }: Plan<LinkKey, LinkEntry>, signal: AbortSignal): Promise<void> {
    for (const [key, { link, idle }] of put) {
      if (link) await this.#put(link, signal);
      else if (idle) await this.#putIdle(idle, signal);
      else throw new SeineError('INVARIANT', `${key} is desired without a pod`);
    }
    for (const key of remove) void this.#remove(key.slice('link/'.length));
  }

  #look(
    want: PodLink,
    host: Link,
    { fars, inside }: { readonly fars: ReadonlyMap<string, Link>; readonly inside: Map<string, InsidePod> },
  ): LinkEntry {
    const { standing } = this.#options;
    const link = this.#asMade(want);
    if (link.made === undefined) return { differs: [`${want.hostName} is not the pod's`] };
    const onNode = isOverPort(link)
      ? standing.differences(link, host, fars.get(link.farName))
      : hostDifferences(link, host, hasNoIpv6(link));
    const far = isOverPort(link) ? standing.farOf(link.farName, host) : undefined;
    if (isOverPort(link) && far === undefined) return { link: want, differs: onNode };
    const end = readPodEnd({ ...placeOf(link, host), far });
    // Nothing on the far end is up: the interface or its namespace was deleted. Otherwise it is elsewhere, which may be the pod's own
    // doing.
    if ((end === undefined || end === 'unseen') && far?.link.promiscuity === 0)
      return { link: want, differs: [...onNode, `${link.podName} no longer exists in its namespace`] };
    if (end === 'unseen') return { link: want, differs: onNode };
    const found = podEndDifferences(link, end);
    if (found.inside.length > 0) inside.set(want.hostName, { link: want, differs: found.inside });
    return { link: want, differs: [...onNode, ...found.differs, ...(this.#options.repairPods ? found.inside : [])] };
  }

  async #put(want: PodLink, signal: AbortSignal): Promise<void> {
    try {
      const link = this.#asMade(want);
      if (isOverPort(link)) return await this.#putOver(link, signal);
      const host = link.made && getLink(this.#options.host.socket, link.hostName);
      if (host === undefined || !(await this.#repair(link, host))) await this.#create(link, signal);
    } catch (thrown) {
      throw asRefusal(SeineError.from(thrown, `interface of ${want.alias}`));
    }
  }

  async #putIdle(pair: StandingPair, signal: AbortSignal): Promise<void> {
    const { hostName } = pair;
    try {
      if (this.#removals.has(hostName)) await this.#removals.get(hostName);
      if (this.#options.standing.putIdle(pair, () => void this.#remove(hostName))) this.#made.delete(hostName);
      else await this.#createPair(pair, signal);
    } catch (thrown) {
      throw asRefusal(SeineError.from(thrown, `pre-plugged port ${hostName}`));
    }
  }

  /** Creates a pre-plugged pair. Removes remains first: half a pair, or one used by a pod of which nothing is known. */
  async #createPair(pair: StandingPair, signal: AbortSignal): Promise<void> {
    const { host, ports, standing } = this.#options;
    const { hostName } = pair;
    standing.portsOrThrow();
    await ports.unplug(hostName, signal);
    await this.removed(hostName);
    const there = getLink(host.socket, hostName);
    if (there && !standing.farOf(pair.farName, there))
      throw new SeineError('REFUSED', `the node has an interface ${hostName} that is not Seine's`);
    if (there) await host.remover.remove(hostName, signal);
    try {
      standing.createPair(pair);
    } catch (thrown) {
      await host.remover.remove(hostName, signal).catch(() => undefined);
      throw thrown;
    }
    ports.plug(hostName);
  }

  /**
   * Creates a pod's interface on a pre-plugged port. The port's pair may have been deleted with the previous interface: then both are
   * created again.
   */
  async #putOver(link: PodLinkOverPort, signal: AbortSignal): Promise<void> {
    const { standing } = this.#options;
    const { hostName, made } = link;
    standing.portsOrThrow();
    standing.releaseNow(hostName);
    await this.removed(hostName);
    let ends = this.#endsOf(link);
    if (ends === undefined) {
      await this.#createPair({ ...link, hostName }, signal);
      ends = this.#endsOf(link);
    }
    if (ends === undefined) throw new SeineError('UNAVAILABLE', `the pair of ${hostName} was deleted again`);
    const { hostLink, far: found } = ends;
    standing.repair(link, hostLink, found);
    const end = made && readPodEnd({ ...placeOf(link, hostLink), far: found });
    if (end !== undefined && end !== 'unseen') return this.#repairPodEnd(link, { hostLink, far: found }, end);
    if (end === 'unseen' && found.link.promiscuity > 0) return;
    if (made !== undefined && mayBeAnother({ netnsPath: link.netnsPath, netnsCookie: made.netnsCookie }))
      throw new SeineError('REFUSED', `${link.netnsPath} is a path of a process, which another process may have by now`);
    // It is in another namespace: see `#look`.
    if (made !== undefined && found.link.promiscuity > 0) return;
    this.#made.set(hostName, await standing.createOver(link, hostLink, found));
    for (const listener of this.#listeners) listener(hostName);
  }

  /** Returns both ends of a complete pre-plugged port. */
  #endsOf({ hostName, farName }: PodLinkOverPort): { readonly hostLink: Link; readonly far: FarEnd & { readonly link: Link } } | undefined {
    const { host, standing } = this.#options;
    const hostLink = getLink(host.socket, hostName);
    const far = hostLink && standing.farOf(farName, hostLink);
    return hostLink && far && { hostLink, far };
  }

  async #create(link: PodLink, signal: AbortSignal): Promise<void> {
    const { host, ports } = this.#options;
    const { hostName, netnsPath, made } = link;
    await this.removed(hostName);
    if (made !== undefined && mayBeAnother({ netnsPath, netnsCookie: made.netnsCookie }))
      throw new SeineError('REFUSED', `${netnsPath} is a path of a process, which another process may have by now`);
    const plug = async (): Promise<void> => {
      ports.plug(hostName);
      await socketsServed();
    };
    try {
      const spec = { ...link, netnsCookie: made?.netnsCookie };
      const steps = { beforeCreation: () => ports.unplug(hostName, signal), hostEndReady: plug };
      this.#made.set(hostName, await createPodInterface(host, spec, signal, steps));
    } catch (thrown) {
      if (made !== undefined) ports.plug(hostName);
      throw thrown;
    }
    for (const listener of this.#listeners) listener(hostName);
  }

  /** @returns false if there is no such pair any more */
  async #repair(link: PodLink, host: Link): Promise<boolean> {
    const { socket } = this.#options.host;
    const { hostName, mtu, alias, hostEnd } = link;
    if (hostDifferences(link, host, hasNoIpv6(link)).length > 0) {
      const batch = new Batch();
      changeLink(batch, host.index, { state: 'up', mtu, alias, ...(hostEnd === 'layer2Only' ? { arp: 'off' } : {}) });
      socket.transact(batch);
      keepFromIpv6(link);
    }
    const end = readPodEnd(placeOf(link, host));
    if (end === 'unseen') return true;
    if (end !== undefined) this.#repairPodEnd(link, { hostLink: host }, end);
    else if (this.#options.repairPods && link.made?.netnsCookie !== undefined) {
      await this.#remove(hostName);
      return false;
    }
    return true;
  }

  /** Repairs the pod's end. An interface that was down has lost its routes: they are restored with it. */
  #repairPodEnd(link: PodLink, at: { readonly hostLink: Link; readonly far?: FarEnd & { readonly link: Link } }, end: PodEnd): void {
    const { podName, mac, mtu, checksumOffload, made } = link;
    const { repairPods } = this.#options;
    const hasRoom = hasRoomFor(link, end.link.mtu) && !isClipped(end.link, at.far?.link, mtu);
    const renamed = end.link.name !== podName;
    if (renamed && !repairPods) return;
    const { differs, inside } = podEndDifferences(link, renamed ? { ...end, link: { ...end.link, name: podName } } : end);
    const routing = renamed || end.link.state === 'down' || (repairPods && inside.length > 0);
    if (differs.length === 0 && hasRoom && !routing) return;
    changePodEnd(
      { ...placeOf(link, at.hostLink), far: at.far },
      {
        state: 'up',
        ...(renamed ? { name: podName } : {}),
        ...(end.link.mac === mac ? {} : { mac }),
        ...(hasRoom ? {} : { mtu }),
        ...(checksumOffload === 'off' && end.transmitChecksum === 'on' && !at.far ? { transmitChecksum: 'off' } : {}),
        ...(routing ? { routing: { ...link, tables: made?.routeTables ?? {} } } : {}),
      },
    );
  }

  /** Removes a pair. Never rejects. */
  async #remove(hostName: string): Promise<void> {
    this.#made.delete(hostName);
    const removal = this.#options.host.remover
      .remove(hostName, new AbortController().signal)
      .then(
        () => undefined,
        (thrown: unknown) => this.#options.notRemoved(hostName, SeineError.from(thrown, `remove ${hostName}`)),
      )
      .finally(() => {
        if (this.#removals.get(hostName) === removal) this.#removals.delete(hostName);
      });
    this.#removals.set(hostName, removal);
    await removal;
  }

  /** Returns the desired link with the result of its last creation. */
  #asMade(want: PodLink): PodLink {
    const made = this.#made.get(want.hostName);
    return made === undefined ? want : { ...want, made: { mtu: want.made?.mtu ?? want.mtu, ...made } };
  }
}

/** Lists host ends with a socket for each list: lists are rare, and several may run at a time. */
async function nodeEnds(): Promise<readonly Link[]> {
  const socket = NetlinkSocket.open();
  try {
    return await listLinksOffThread(socket, { kind: 'veth' });
  } finally {
    socket.close();
  }
}

function placeOf({ netnsPath, made }: PodLink, hostLink: Link) {
  return { netnsPath, netnsCookie: made?.netnsCookie, hostLink };
}

function isOverPort(link: PodLink): link is PodLinkOverPort {
  return link.farName !== undefined;
}

/** Reports whether the kernel has reduced the MTU of an interface because the far end below it was reduced. It does not raise it again. */
function isClipped(end: Link, far: Link | undefined, mtu: number): boolean {
  return far !== undefined && far.mtu < mtu && end.mtu === far.mtu;
}

/** Returns the error as a refusal. An interface that has been deleted is checked again; an unusable namespace is reported to the owner. */
function asRefusal(error: SeineError): SeineError {
  if (error.code === 'INVALID_INPUT') return new SeineError('REFUSED', error.rawMessage, { context: error.context, cause: error });
  if (error.code === 'REFUSED' && errnoOf(error) === 'ENODEV')
    return new SeineError('UNAVAILABLE', error.rawMessage, { context: error.context, cause: error });
  return error;
}

/** Lets pending socket reads and writes run before the event loop is busy again. One turn may pass before the poll phase, two cannot. */
async function socketsServed(): Promise<void> {
  await nextTurn();
  await nextTurn();
}
