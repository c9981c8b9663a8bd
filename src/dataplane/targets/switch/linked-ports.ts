import { SeineError } from '../../../base/errors/seine-error.ts';
import type { WantedPort } from '../../desired/switch-row.ts';
import type { Owner } from '../../pipeline/cookie.ts';

/** State through which ports are requested. */
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

/** Revision of OVSDB with which a port was requested, and the time of that. */
interface Wanting {
  readonly revision: number;
  readonly sinceMs: number;
}

/**
 * OVS ports for the host ends of pods' pairs. A port is requested only while that end exists: ovs-vswitchd does not retry an interface that
 * it could not open.
 */
export class LinkedPorts {
  readonly #state: SwitchPorts;
  /** Ports by name, which the host end and the port share. */
  readonly #ports = new Map<string, LinkedPort & { wanting: Wanting | undefined }>();

  constructor(state: SwitchPorts) {
    this.#state = state;
  }

  /** @param when `later`: once `plug` reports that the host end exists */
  want({ owner, port }: LinkedPort, when: 'now' | 'later'): void {
    const known = this.#ports.get(port.name);
    const isSame = known?.owner === owner;
    this.#ports.set(port.name, { owner, port, wanting: isSame ? known.wanting : undefined });
    if (when === 'now' && !isSame) this.plug(port.name);
  }

  /** Changes the owner information of the port of this name. @returns the revision of OVSDB that has it */
  describe(name: string, externalIds: WantedPort['externalIds']): number {
    const linked = this.#ports.get(name);
    if (linked === undefined) throw new SeineError('INVARIANT', `no owner desires port ${name}`);
    const port = { ...linked.port, externalIds };
    if (linked.wanting === undefined) {
      this.#ports.set(name, { ...linked, port });
      return this.#state.switch.revision;
    }
    const revision = this.#state.wantPort(linked.owner, port);
    this.#ports.set(name, { ...linked, port, wanting: { ...linked.wanting, revision } });
    return revision;
  }

  /** Reports that the host end exists. */
  plug(name: string): void {
    const linked = this.#ports.get(name);
    if (linked) linked.wanting = { revision: this.#state.wantPort(linked.owner, linked.port), sinceMs: performance.now() };
  }

  /** Reports that the host end does not exist: no port is requested until `plug`. Resolves once OVSDB has none. */
  async unplug(name: string, signal: AbortSignal): Promise<void> {
    const linked = this.#ports.get(name);
    if (linked?.wanting === undefined) return;
    linked.wanting = undefined;
    const { switch: rows } = this.#state.reconcilers;
    await rows.realized(this.#state.forgetPorts(linked.owner), signal);
  }

  /** Withdraws the owner's port. @returns the revision of OVSDB without it */
  forget(owner: Owner, name: string): number {
    if (this.#ports.get(name)?.owner === owner) this.#ports.delete(name);
    return this.#state.forgetPorts(owner);
  }

  /**
   * Waits until ovs-vswitchd has opened a port whose host end exists.
   *
   * @returns the time since that end exists (ms)
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
