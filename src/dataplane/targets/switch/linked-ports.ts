import { SeineError } from '../../../base/errors/seine-error.ts';
import type { WantedPort } from '../../desired/switch-row.ts';
import type { Owner } from '../../pipeline/cookie.ts';

/** What ports are wanted with. */
interface SwitchPorts {
  wantPort(owner: Owner, port: WantedPort): number;
  forgetPorts(owner: Owner): number;
  readonly switch: { readonly revision: number };
  readonly reconcilers: {
    readonly switch: {
      realized(revision: number, signal: AbortSignal): Promise<void>;
      realizedFor(owner: string, revision: number, signal: AbortSignal): Promise<void>;
    };
  };
}

interface LinkedPort {
  readonly owner: Owner;
  readonly port: WantedPort;
}

/** Since which revision of the switch a port is wanted, and when that was. */
interface Wanting {
  readonly revision: number;
  readonly sinceMs: number;
}

/**
 * Ports of the switch that take the node's ends of pods' pairs. A port is wanted while that end is there: ovs-vswitchd does not look again
 * for an interface that it could not open.
 */
export class LinkedPorts {
  readonly #state: SwitchPorts;
  /** By name, which the node's end and the port have in common. */
  readonly #ports = new Map<string, LinkedPort & { wanting: Wanting | undefined }>();

  constructor(state: SwitchPorts) {
    this.#state = state;
  }

  /** @param when `later`: once `plug` says that the node's end is there */
  want({ owner, port }: LinkedPort, when: 'now' | 'later'): void {
    const known = this.#ports.get(port.name);
    const isSame = known?.owner === owner;
    this.#ports.set(port.name, { owner, port, wanting: isSame ? known.wanting : undefined });
    if (when === 'now' && !isSame) this.plug(port.name);
  }

  /** Says otherwise whose the port of this name is. @returns the revision of the switch that has it */
  describe(name: string, externalIds: WantedPort['externalIds']): number {
    const linked = this.#ports.get(name);
    if (linked === undefined) throw new SeineError('INVARIANT', `no owner wants port ${name}`);
    const port = { ...linked.port, externalIds };
    if (linked.wanting === undefined) {
      this.#ports.set(name, { ...linked, port });
      return this.#state.switch.revision;
    }
    const revision = this.#state.wantPort(linked.owner, port);
    this.#ports.set(name, { ...linked, port, wanting: { ...linked.wanting, revision } });
    return revision;
  }

  /** The node's end is there. */
  plug(name: string): void {
    const linked = this.#ports.get(name);
    if (linked) linked.wanting = { revision: this.#state.wantPort(linked.owner, linked.port), sinceMs: performance.now() };
  }

  /** The node's end is not there: no port is wanted until `plug`. Resolves once the switch's database has none. */
  async unplug(name: string, signal: AbortSignal): Promise<void> {
    const linked = this.#ports.get(name);
    if (linked?.wanting === undefined) return;
    linked.wanting = undefined;
    const { switch: rows } = this.#state.reconcilers;
    await rows.realized(this.#state.forgetPorts(linked.owner), signal);
  }

  /** From now on the owner wants no port. @returns the revision of the switch from which on it has none */
  forget(owner: Owner, name: string): number {
    if (this.#ports.get(name)?.owner === owner) this.#ports.delete(name);
    return this.#state.forgetPorts(owner);
  }

  /**
   * Waits until the switch has plugged in a port whose node's end is there.
   *
   * @returns how long that took since the end was there (ms)
   * @throws SeineError `REFUSED`, `CANCELLED`
   */
  async plugged(
    name: string,
    untilPlugged: (port: WantedPort, signal: AbortSignal) => Promise<void>,
    signal: AbortSignal,
  ): Promise<number> {
    const linked = this.#ports.get(name);
    if (linked?.wanting === undefined) throw new SeineError('REFUSED', `the interface ${name} went away while its port was waited for`);
    const { revision, sinceMs } = linked.wanting;
    await this.#state.reconcilers.switch.realizedFor(linked.owner, revision, signal);
    await untilPlugged(linked.port, signal);
    return performance.now() - sinceMs;
  }
}
