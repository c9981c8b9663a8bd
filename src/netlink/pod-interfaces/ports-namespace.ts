import { statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { SeineError } from '../../base/errors/seine-error.ts';
import { errnoOf } from '../errno.ts';
import { type KernelEvent, KernelEvents } from '../events.ts';
import { NetworkNamespace } from '../namespace.ts';
import { NetlinkSocket } from '../socket.ts';
import { ensureSysctl } from '../sysctl.ts';

/**
 * Returns the mount point of the namespace of pre-plugged ports: next to the agent's socket, and not in /run/netns, which `ip -all netns
 * delete` clears.
 */
export function portsPathNextTo(socket: string): string {
  return join(dirname(socket), 'netns', 'ports');
}

/** The node's namespace of the far ends of pre-plugged ports, without any process. It exists as long as its mount, or this handle. */
export class PortsNamespace {
  readonly namespace: NetworkNamespace;
  /** Socket in the namespace. */
  readonly socket: NetlinkSocket;

  private constructor(namespace: NetworkNamespace, socket: NetlinkSocket) {
    this.namespace = namespace;
    this.socket = socket;
  }

  /** @throws SeineError `INVALID_INPUT` if no network namespace is mounted at `path` */
  static open(path: string): PortsNamespace {
    const namespace = NetworkNamespace.open(path);
    try {
      namespace.run(withoutIpv6);
      return new PortsNamespace(namespace, NetlinkSocket.open({ namespace }));
    } catch (error) {
      namespace.close();
      throw error;
    }
  }

  /** Reports whether it is still mounted at its path; otherwise it ends with the last process that has it open. */
  isMounted(): boolean {
    try {
      const { dev, ino } = statSync(this.namespace.path, { bigint: true });
      return `${dev}:${ino}` === this.namespace.identity;
    } catch {
      return false;
    }
  }

  close(): void {
    this.socket.close();
    this.namespace.close();
  }
}

/** Mount point of the namespace of ports, and its handle since it was mounted. */
export class PortsMount {
  readonly path: string;
  #opened: PortsNamespace | undefined;
  #handler: ((event: KernelEvent) => void) | undefined;
  #events: KernelEvents | undefined;

  constructor(path: string) {
    this.path = path;
    this.look();
  }

  get current(): PortsNamespace | undefined {
    return this.#opened;
  }

  /** Opens the namespace if it is mounted. A handle is kept even if the mount changes: interfaces of running pods depend on its links. */
  look(): void {
    try {
      this.#opened ??= PortsNamespace.open(this.path);
      this.#listen();
    } catch (error) {
      if (!(error instanceof SeineError) || error.code !== 'INVALID_INPUT') throw error; // nothing is mounted there
    }
  }

  /** Reports changes of interfaces in the namespace once it is mounted. Called once. */
  watch(handler: (event: KernelEvent) => void): void {
    this.#handler = handler;
    this.#listen();
  }

  close(): void {
    this.#handler = undefined;
    this.#events?.close();
    this.#opened?.close();
    this.#opened = undefined;
  }

  #listen(): void {
    const { namespace } = this.#opened ?? {};
    if (this.#handler && namespace) this.#events ??= KernelEvents.open({ kinds: ['link'], namespace }, this.#handler);
  }
}

/** Disables IPv6 for ends created later: none in the namespace needs an address. */
function withoutIpv6(): void {
  try {
    ensureSysctl(['net', 'ipv6', 'conf', 'default', 'disable_ipv6'], 1);
  } catch (error) {
    if (!(error instanceof SeineError) || errnoOf(error) !== 'ENOENT') throw error; // a kernel without IPv6
  }
}
