import { Turn } from '../../../base/async/turn.ts';
import { SeineError } from '../../../base/errors/seine-error.ts';
import { errnoOf } from '../../../netlink/errno.ts';
import { changeLink, createWireGuardDevice, deleteLink, getLinkOffThread, type Link } from '../../../netlink/links.ts';
import { Batch } from '../../../netlink/message.ts';
import type { NetworkNamespace } from '../../../netlink/namespace.ts';
import { NetlinkSocket } from '../../../netlink/socket.ts';
import { KernelWireGuard } from '../../../netlink/wireguard/kernel-wireguard.ts';
import { ProcessWireGuard } from '../../../netlink/wireguard/process-wireguard.ts';
import type {
  WantedWireGuardPeer,
  WireGuard,
  WireGuardChange,
  WireGuardDevice,
  WireGuardPeer,
} from '../../../netlink/wireguard/wireguard.ts';
import type { Plan, Target } from '../../reconcile/target.ts';
import { type DeviceEntry, peerKey, publicKeyOfPeer, type WireGuardEntry, type WireGuardKey } from './wireguard-entry.ts';

interface WireGuardTargetOptions {
  /** Interface that belongs to Seine with all its peers. */
  readonly device: string;
  /** Folder of the sockets of WireGuard processes. */
  readonly socketFolder: string;
  /** Namespace of the device; the caller's own if omitted. */
  readonly namespace?: NetworkNamespace;
}

/**
 * Target for the node's WireGuard device and its peers. The device is one of the kernel, which is created here; where the kernel has no
 * WireGuard, a process such as `wireguard-go` must have created it.
 *
 * Peers are put before others are removed, so a network is never without a peer while it moves. A plan that fails may be applied in part;
 * every part can be repeated.
 */
export class WireGuardTarget implements Target<WireGuardKey, WireGuardEntry> {
  readonly #device: string;
  /** The socket serves one call at a time. */
  readonly #links: Turn<NetlinkSocket>;
  readonly #kernel: KernelWireGuard;
  readonly #process: ProcessWireGuard;

  constructor({ device, socketFolder, namespace }: WireGuardTargetOptions) {
    this.#device = device;
    this.#links = new Turn(NetlinkSocket.open(namespace && { namespace }));
    this.#kernel = KernelWireGuard.open(namespace);
    this.#process = new ProcessWireGuard(socketFolder);
  }

  /** Waits until no call is in progress. */
  async close(): Promise<void> {
    await this.#links.take(async (socket) => socket.close());
    this.#kernel.close();
  }

  observe(signal: AbortSignal): Promise<Map<WireGuardKey, WireGuardEntry>> {
    return this.#links.take(() => this.#observe(signal));
  }

  /** Reads the device with its peers and their counters; undefined if there is none. */
  read(signal: AbortSignal): Promise<WireGuardDevice | undefined> {
    return this.#links.take(async (socket) => {
      const link = await getLinkOffThread(socket, this.#device);
      return link && (await this.#wireGuardOf(link).read(this.#device, signal));
    });
  }

  apply({ put, remove }: Plan<WireGuardKey, WireGuardEntry>, signal: AbortSignal): Promise<void> {
    return this.#links.take(async () => {
      const entries = [...put.values()];
      const device = entries.find((entry) => entry.kind === 'device');
      const peers = entries.flatMap((entry) => (entry.kind === 'peer' ? [boundedPeer(entry.peer)] : []));
      if (device) await this.#putDevice(device, signal);
      const gone = [...remove].filter((key) => key !== 'device').map(publicKeyOfPeer);
      if (peers.length > 0 || gone.length > 0) await this.#change({ put: peers, remove: gone }, signal);
      if (remove.has('device')) await this.#removeDevice();
    });
  }

  async #observe(signal: AbortSignal): Promise<Map<WireGuardKey, WireGuardEntry>> {
    const held = new Map<WireGuardKey, WireGuardEntry>();
    const link = await getLinkOffThread(this.#links.thing, this.#device);
    if (link === undefined) return held;
    const device = await this.#wireGuardOf(link).read(this.#device, signal);
    if (device === undefined) return held;
    const { publicKey, listenPort } = device;
    if (link.state === 'up') held.set('device', { kind: 'device', publicKey, listenPort, mtu: link.mtu });
    for (const peer of device.peers) held.set(peerKey(peer.publicKey), entryOf(peer));
    return held;
  }

  /** Sets the key before the link goes up: a device without one drops what it is given. */
  async #putDevice({ privateKey, publicKey, listenPort, mtu }: DeviceEntry, signal: AbortSignal): Promise<void> {
    const link = (await getLinkOffThread(this.#links.thing, this.#device)) ?? (await this.#create());
    const wireGuard = this.#wireGuardOf(link);
    const before = await wireGuard.read(this.#device, signal);
    if (before === undefined) throw new SeineError('UNAVAILABLE', `${this.#device} is not a WireGuard device, or its process does not run`);
    const change: WireGuardChange = {
      ...(before.publicKey === publicKey || privateKey === undefined ? {} : { privateKey }),
      ...(before.listenPort === listenPort ? {} : { listenPort }),
    };
    if (Object.keys(change).length > 0) await wireGuard.apply(this.#device, change, signal);
    const batch = new Batch();
    changeLink(batch, link.index, { state: 'up', mtu });
    await this.#links.thing.transactOffThread(batch);
  }

  async #create(): Promise<Link> {
    const batch = new Batch();
    createWireGuardDevice(batch, { name: this.#device });
    try {
      await this.#links.thing.transactOffThread(batch);
    } catch (cause) {
      if (!noWireGuard.has(errnoOf(cause) ?? '')) throw cause;
      throw new SeineError('UNAVAILABLE', `the kernel has no WireGuard, and no process has created ${this.#device}`, { cause });
    }
    const link = await getLinkOffThread(this.#links.thing, this.#device);
    if (link === undefined) throw new SeineError('UNAVAILABLE', `${this.#device} was deleted while it was created`);
    return link;
  }

  async #change(change: WireGuardChange, signal: AbortSignal): Promise<void> {
    const link = await getLinkOffThread(this.#links.thing, this.#device);
    if (link === undefined && change.put?.length === 0) return; // the peers went with the device
    if (link === undefined) throw new SeineError('UNAVAILABLE', `there is no interface ${this.#device}`);
    await this.#wireGuardOf(link).apply(this.#device, change, signal);
  }

  /** A process ends when its interface is deleted. */
  async #removeDevice(): Promise<void> {
    const batch = new Batch();
    deleteLink(batch, this.#device);
    const [error] = await this.#links.thing.attemptOffThread(batch);
    if (error && errnoOf(error) !== 'ENODEV') throw error;
  }

  #wireGuardOf({ kind }: Link): WireGuard {
    return kind === 'wireguard' ? this.#kernel : this.#process;
  }
}

function entryOf({ publicKey, endpoint, allowedNetworks, keepaliveSeconds }: WireGuardPeer): WireGuardEntry {
  return {
    kind: 'peer',
    // Two cases for the compiler: an observed peer may lack what a desired one has.
    peer:
      endpoint === undefined
        ? { publicKey, endpoint, allowedNetworks, keepaliveSeconds }
        : { publicKey, endpoint, allowedNetworks, keepaliveSeconds },
  };
}

/** @throws SeineError `REFUSED` */
function boundedPeer(peer: Extract<WireGuardEntry, { kind: 'peer' }>['peer']): WantedWireGuardPeer {
  const { publicKey, endpoint, allowedNetworks, keepaliveSeconds = 0 } = peer;
  if (endpoint === undefined) throw new SeineError('REFUSED', `WireGuard peer ${publicKey} has no endpoint`);
  if (allowedNetworks.length > networksMax)
    throw new SeineError('REFUSED', `WireGuard peer ${publicKey} has ${allowedNetworks.length} networks; ${networksMax} are supported`);
  return { publicKey, endpoint, allowedNetworks, keepaliveSeconds };
}

const networksMax = 1000;
/** EOPNOTSUPP: a kernel without the module. */
const noWireGuard: ReadonlySet<string> = new Set(['EOPNOTSUPP', 'ENOTSUP']);
