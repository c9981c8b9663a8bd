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

/** Time for a namespace to end by itself after its DEL was answered (ms): the kernel takes down many at once in the time of one. */
const GRACE_MS = 500;
/**
 * Number of checks for an interface whose namespace has no path any more but is alive. After that the pair is removed, and the interface
 * with it.
 */
const CHECKS_MAX = 4;

/** Desired interface of a pod on a pre-plugged port. */
export type PodLinkOverPort = PodLink & { readonly farName: string };

interface Release {
  readonly done: Promise<void>;
  readonly haste: AbortController;
}

/** Names of host ends of pre-plugged ports: `sp-` and the port number on the bridge. */
export const standingPortPattern = /^sp-(\d{1,5})$/;

/** Returns the name of the far end, in the namespace of ports. */
export function farNameOf(hostName: string): string {
  return hostName.replace(/^sp-/, 'far-');
}

export function hostNameOf(farName: string): string {
  return farName.replace(/^far-/, 'sp-');
}

/** Kernel side of pre-plugged ports: pairs that stay ports of the bridge, and pods' interfaces on them. */
export class StandingLinks {
  readonly #host: HostLinks;
  readonly #ports: () => PortsNamespace | undefined;
  /** Last pod interface on each port since this process began, by host end. */
  readonly #used = new Map<string, PodLinkOverPort>();
  readonly #releases = new Map<string, Release>();
  /** End of the queue of deletions. The kernel has one lock for links: deletions that wait for it use one thread. */
  #deleting: Promise<void> = Promise.resolve();

  /** @param ports the node's namespace of far ends; undefined while there is none */
  constructor(host: HostLinks, ports: () => PortsNamespace | undefined) {
    this.#host = host;
    this.#ports = ports;
  }

  /** Returns far ends by name; empty while there is no namespace of ports. */
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

  /** Returns the far end of a pair, if it is the peer of `host`. */
  farOf(farName: string, host: Link): (FarEnd & { readonly link: Link }) | undefined {
    const ports = this.#ports();
    const link = ports && getLink(ports.socket, farName);
    return ports && link && arePair(host, link) ? { ports, index: link.index, link } : undefined;
  }

  /** Reports whether this is the host end of a pre-plugged port created by an agent. @param fars all far ends, by name */
  isStanding(host: Link, fars: ReadonlyMap<string, Link>): boolean {
    const far = standingPortPattern.test(host.name) ? fars.get(farNameOf(host.name)) : undefined;
    return far !== undefined && arePair(host, far);
  }

  /** Reports whether a pod's interface on this port is being removed. */
  isReleasing(hostName: string): boolean {
    return this.#releases.has(hostName);
  }

  /** Resolves once no interface on this port is being removed. */
  async released(hostName: string): Promise<void> {
    await this.#releases.get(hostName)?.done;
  }

  /** Removes the interface on this port now, instead of leaving that to the end of its namespace. */
  releaseNow(hostName: string): void {
    this.#releases.get(hostName)?.haste.abort();
  }

  /** Resolves once no interface of any pod is being removed. */
  async idle(): Promise<void> {
    for (const name of this.#releases.keys()) this.releaseNow(name);
    await Promise.all([...this.#releases.values()].map(({ done }) => done));
  }

  /** Reports whether no pod has the port, and the last pod's interface is gone. */
  isIdle({ hostName, farName }: StandingPair): boolean {
    const host = getLink(this.#host.socket, hostName);
    const far = host && this.farOf(farName, host);
    return far !== undefined && far.link.alias === undefined && !this.isReleasing(hostName);
  }

  idleDifferences(pair: StandingPair, host: Link, far: Link | undefined): readonly string[] {
    if (this.isReleasing(pair.hostName)) return [];
    if (!far || !arePair(host, far)) return [`${pair.hostName} is not paired with ${pair.farName}`];
    return [...hostDifferences(pair, host, hasNoIpv6(pair)), ...farDifferences(pair, far, undefined)];
  }

  /**
   * Makes a port idle, whether a pod had it or not. A pod's interface is removed later, which `released` waits for.
   *
   * @param gone called if that failed: the pair must be removed
   * @returns false if there is no such pair, or only part of it
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

  /** @throws SeineError `REFUSED` while the namespace of far ends is not accessible: its content may be intact */
  portsOrThrow(): PortsNamespace {
    const ports = this.#ports();
    if (ports === undefined) throw new SeineError('REFUSED', 'the namespace of pre-plugged ports is not visible');
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

  /** Returns differences of a pod's port, except those of the pod's end. */
  differences(link: PodLinkOverPort, host: Link, far: Link | undefined): readonly string[] {
    if (!far || !arePair(host, far)) return [`${link.hostName} is not paired with ${link.farName}`];
    return [...hostDifferences(link, host, hasNoIpv6(link)), ...farDifferences(link, far, link.alias)];
  }

  /**
   * Repairs both ends of the pair, before the interface on it: no interface may have a larger MTU than the one below it. If the host end of
   * an idle port got IPv6 since the last check, the next check finds that: a new pod does not wait for it.
   */
  repair(link: PodLinkOverPort, host: Link, far: FarEnd & { readonly link: Link }): void {
    this.#used.set(link.hostName, link);
    this.#repairPair(link, host, far, link.made === undefined || hasNoIpv6(link));
    if (far.link.alias === link.alias || link.made === undefined) return; // a port about to be created gets its alias then
    change(far.ports.socket, far.link, { alias: link.alias });
  }

  #repairPair(pair: StandingPair | PodLinkOverPort, host: Link, far: FarEnd & { readonly link: Link }, noIpv6: boolean): void {
    const { mtu, hostEnd } = pair;
    if (hostDifferences(pair, host, noIpv6).length > 0) {
      // The far end names the port's owner; an alias of the host end is foreign.
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
        // Last: until then the port counts as used, even if this process is killed.
        change(ports.socket, { name: pair.farName }, { alias: '' });
        this.#used.delete(pair.hostName);
        return;
      }
      if (looks === CHECKS_MAX) throw new SeineError('REFUSED', `the interface over ${pair.farName} is in a namespace without a path`);
      await idle(GRACE_MS, new AbortController().signal);
    }
  }

  /** @returns whether nothing is left on the far end */
  async #removeOver(link: PodLinkOverPort): Promise<boolean> {
    const host = getLink(this.#host.socket, link.hostName);
    const far = host && this.farOf(link.farName, host);
    if (!far) throw new SeineError('REFUSED', `the pair of ${link.hostName} does not exist`);
    const seen = readPodEnd({ netnsPath: link.netnsPath, netnsCookie: link.made?.netnsCookie, hostLink: host, far });
    // A namespace that ends takes its interface down first. If the interface is only down, the kernel refuses the next pod, and the pair is
    // removed.
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

/** Reports whether the links are peers. Each index is valid in its own namespace: both must name the other. */
function arePair(host: Link, far: Link): boolean {
  return host.kind === 'veth' && far.kind === 'veth' && host.peerIndex === far.index && far.peerIndex === host.index;
}

function change(socket: NetlinkSocket, { name }: { readonly name: string }, to: Parameters<typeof changeLink>[2]): void {
  const batch = new Batch();
  changeLink(batch, name, to);
  socket.transact(batch);
}
