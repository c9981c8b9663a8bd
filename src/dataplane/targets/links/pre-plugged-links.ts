import { idle } from '../../../base/async/pause.ts';
import { SeineError } from '../../../base/errors/seine-error.ts';
import { changeLink, getLink, type Link, listLinksOffThread } from '../../../netlink/links.ts';
import { Batch } from '../../../netlink/message.ts';
import { NetworkNamespace } from '../../../netlink/namespace.ts';
import { readPodEnd } from '../../../netlink/pod-interfaces/pod-end.ts';
import type { HostLinks, PodInterface } from '../../../netlink/pod-interfaces/pod-interface.ts';
import type { PortsNamespace } from '../../../netlink/pod-interfaces/ports-namespace.ts';
import { createPodOverPort, createStandingPair, deletePodOverPort, type FarEnd } from '../../../netlink/pod-interfaces/pre-plugged-port.ts';
import { NetlinkSocket } from '../../../netlink/socket.ts';
import type { PodLink, StandingPair } from '../../desired/pod-link.ts';
import { hasNoIpv6, keepFromIpv6 } from './host-end-ipv6.ts';
import { farDifferences, hostDifferences } from './link-entry.ts';

/** How long a namespace whose DEL has been answered has to go by itself (ms): the kernel takes down many at once in the time that one takes. */
const GRACE_MS = 500;
/** How often it is looked again for an interface whose namespace is gone by its path, and lives. Then the pair goes, and the interface with it. */
const LOOKS_MAX = 4;

/** A pod's interface over a standing port, as wanted. */
export type PodLinkOverPort = PodLink & { readonly farName: string };

interface Release {
  readonly done: Promise<void>;
  readonly haste: AbortController;
}

/** Names of the node's ends of standing ports: `sp-` and the number that the port has on the bridge. */
export const standingPortPattern = /^sp-(\d{1,5})$/;

/** Of the other end, in the namespace of ports. */
export function farNameOf(hostName: string): string {
  return hostName.replace(/^sp-/, 'far-');
}

export function hostNameOf(farName: string): string {
  return farName.replace(/^far-/, 'sp-');
}

/** The kernel's side of standing ports: pairs that stay plugged in, and what pods have over them. */
export class StandingLinks {
  readonly #host: HostLinks;
  readonly #ports: () => PortsNamespace | undefined;
  /** By the node's end, what a pod has had of it since this process began. */
  readonly #used = new Map<string, PodLinkOverPort>();
  readonly #releases = new Map<string, Release>();
  /** The kernel has one lock for links: what waits for it, waits in one thread. */
  #deleting: Promise<void> = Promise.resolve();

  /** @param ports the node's namespace of far ends; undefined while there is none */
  constructor(host: HostLinks, ports: () => PortsNamespace | undefined) {
    this.#host = host;
    this.#ports = ports;
  }

  /** By name; none while there is no namespace of them. */
  async farEnds(): Promise<ReadonlyMap<string, Link>> {
    const namespace = this.#ports()?.namespace;
    if (namespace === undefined) return new Map();
    const socket = NetlinkSocket.open({ namespace });
    try {
      return new Map((await listLinksOffThread(socket, { kind: 'veth' })).map((link) => [link.name, link]));
    } finally {
      socket.close();
    }
  }

  /** The far end of a pair, if the other end of `host` is it. */
  farOf(farName: string, host: Link): (FarEnd & { readonly link: Link }) | undefined {
    const ports = this.#ports();
    const link = ports && getLink(ports.socket, farName);
    return ports && link && arePair(host, link) ? { ports, index: link.index, link } : undefined;
  }

  /** Whether this is the node's end of a standing port, which an agent has made. @param fars all far ends, by name */
  isStanding(host: Link, fars: ReadonlyMap<string, Link>): boolean {
    const far = standingPortPattern.test(host.name) ? fars.get(farNameOf(host.name)) : undefined;
    return far !== undefined && arePair(host, far);
  }

  /** Whether what a pod had over this port is on its way out. */
  isReleasing(hostName: string): boolean {
    return this.#releases.has(hostName);
  }

  /** Resolves once nothing is on its way out of this port. */
  async released(hostName: string): Promise<void> {
    await this.#releases.get(hostName)?.done;
  }

  /** What is on its way out of this port is taken away now, and not left to go with its namespace. */
  releaseNow(hostName: string): void {
    this.#releases.get(hostName)?.haste.abort();
  }

  /** Resolves once nothing of any pod is on its way out. */
  async idle(): Promise<void> {
    for (const name of this.#releases.keys()) this.releaseNow(name);
    await Promise.all([...this.#releases.values()].map(({ done }) => done));
  }

  /** Whether no pod has the port, and all that the last one had is gone. */
  isIdle({ hostName, farName }: StandingPair): boolean {
    const host = getLink(this.#host.socket, hostName);
    const far = host && this.farOf(farName, host);
    return far !== undefined && far.link.alias === undefined && !this.isReleasing(hostName);
  }

  idleDifferences(pair: StandingPair, host: Link, far: Link | undefined): readonly string[] {
    if (this.isReleasing(pair.hostName)) return [];
    if (!far || !arePair(host, far)) return [`${pair.hostName} does not lead to ${pair.farName}`];
    return [...hostDifferences(pair, host, hasNoIpv6(pair)), ...farDifferences(pair, far, undefined)];
  }

  /**
   * Makes a port that a pod had, or none has had, an idle one. What a pod had is taken away later, which `released` waits for.
   *
   * @param gone called if that could not be done: the pair must go
   * @returns false if there is no such pair, or not all of it
   */
  putIdle(pair: StandingPair, gone: (hostName: string) => void): boolean {
    const host = getLink(this.#host.socket, pair.hostName);
    const far = host && this.farOf(pair.farName, host);
    if (!host || !far) return false;
    const last = this.#used.get(pair.hostName);
    if (far.link.alias !== undefined && last === undefined) return false;
    this.#repairPair(pair, host, far, hasNoIpv6(pair));
    if (last === undefined || this.isReleasing(pair.hostName)) return true;
    const haste = new AbortController();
    const done = this.#release(last, pair, haste.signal)
      .catch(() => gone(pair.hostName))
      .finally(() => this.#releases.delete(pair.hostName));
    this.#releases.set(pair.hostName, { done, haste });
    return true;
  }

  /** @throws SeineError `REFUSED` while there is no namespace of far ends to be seen: what is in it may be well */
  portsOrThrow(): PortsNamespace {
    const ports = this.#ports();
    if (ports === undefined) throw new SeineError('REFUSED', 'the namespace of standing ports is not to be seen');
    return ports;
  }

  /** @throws SeineError `REFUSED` */
  createPair(pair: StandingPair): void {
    this.#used.delete(pair.hostName);
    createStandingPair(this.#host.socket, this.portsOrThrow(), pair);
  }

  /** @throws SeineError as `createPodOverPort` */
  async createOver(link: PodLinkOverPort, host: Link, far: FarEnd): Promise<PodInterface> {
    this.#used.set(link.hostName, link);
    const made = await createPodOverPort(host, far, { ...link, netnsCookie: link.made?.netnsCookie });
    this.#used.set(link.hostName, { ...link, made: { mtu: link.mtu, ...made } });
    return made;
  }

  /** What of a pod's port is otherwise, but for the pod's end. */
  differences(link: PodLinkOverPort, host: Link, far: Link | undefined): readonly string[] {
    if (!far || !arePair(host, far)) return [`${link.hostName} does not lead to ${link.farName}`];
    return [...hostDifferences(link, host, hasNoIpv6(link)), ...farDifferences(link, far, link.alias)];
  }

  /**
   * Both ends of the pair, before what stands on it: no interface may be larger than the one below it. Whether the node's end of an idle port got IPv6 since it
   * was looked at last, the next look says: a pod that starts does not wait for it.
   */
  repair(link: PodLinkOverPort, host: Link, far: FarEnd & { readonly link: Link }): void {
    this.#used.set(link.hostName, link);
    this.#repairPair(link, host, far, link.made === undefined || hasNoIpv6(link));
    if (far.link.alias === link.alias || link.made === undefined) return; // of one that is to be made, the alias comes with it
    change(far.ports.socket, far.link, { alias: link.alias });
  }

  #repairPair(pair: StandingPair | PodLinkOverPort, host: Link, far: FarEnd & { readonly link: Link }, noIpv6: boolean): void {
    const { mtu, hostEnd } = pair;
    if (hostDifferences(pair, host, noIpv6).length > 0) {
      // Whose the port is, the far end says; here an alias is somebody else's.
      change(this.#host.socket, host, { state: 'up', mtu, alias: '', ...(hostEnd === 'layer2Only' ? { arp: 'off' } : {}) });
      keepFromIpv6(pair);
    }
    if (farDifferences(pair, far.link, far.link.alias).length > 0) change(far.ports.socket, far.link, { state: 'up', mtu });
  }

  /** @throws SeineError if the port cannot be shown to be free of the pod's interface */
  async #release(last: PodLinkOverPort, pair: StandingPair, haste: AbortSignal): Promise<void> {
    await idle(GRACE_MS, haste);
    for (let looks = 1; ; looks++) {
      const ports = this.#ports();
      if (ports === undefined) return; // the agent has stopped, and the next one finds what is left
      if (await this.#removeOver(last)) {
        // Last: until then the port is seen to be used, whatever ends this process.
        change(ports.socket, { name: pair.farName }, { alias: '' });
        this.#used.delete(pair.hostName);
        return;
      }
      if (looks === LOOKS_MAX) throw new SeineError('REFUSED', `the interface over ${pair.farName} is in a namespace without a path`);
      await idle(GRACE_MS, new AbortController().signal);
    }
  }

  /** @returns whether nothing is over the far end any more */
  async #removeOver(link: PodLinkOverPort): Promise<boolean> {
    const host = getLink(this.#host.socket, link.hostName);
    const far = host && this.farOf(link.farName, host);
    if (!far) throw new SeineError('REFUSED', `the pair of ${link.hostName} is gone`);
    const seen = readPodEnd({ netnsPath: link.netnsPath, netnsCookie: link.made?.netnsCookie, hostLink: host, far });
    // A namespace that ends takes its interface down first. If it only is down, the kernel refuses the next pod, and the pair goes.
    if (seen === 'unseen') return far.link.promiscuity === 0;
    if (seen !== undefined) await this.#deleteInTurn(link, far);
    return true;
  }

  async #deleteInTurn({ netnsPath }: PodLink, far: FarEnd): Promise<void> {
    const turn = this.#deleting.then(async () => {
      const namespace = NetworkNamespace.open(netnsPath);
      try {
        await deletePodOverPort(far, namespace);
      } finally {
        namespace.close();
      }
    });
    this.#deleting = turn.catch(() => undefined);
    await turn;
  }
}

/** Indexes are of two namespaces: both must name the other. */
function arePair(host: Link, far: Link): boolean {
  return host.kind === 'veth' && far.kind === 'veth' && host.peerIndex === far.index && far.peerIndex === host.index;
}

function change(socket: NetlinkSocket, { name }: { readonly name: string }, to: Parameters<typeof changeLink>[2]): void {
  const batch = new Batch();
  changeLink(batch, name, to);
  socket.transact(batch);
}
