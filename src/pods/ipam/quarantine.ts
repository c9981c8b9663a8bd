import { setTimeout as sleep } from 'node:timers/promises';
import { SeineError } from '../../base/errors/seine-error.ts';
import type { Log } from '../../base/log/log.ts';
import type { Ip } from '../../base/net/ip.ts';
import type { AttachmentKey } from './attachment.ts';
import { attachmentId, type Lease, throwIfAborted } from './lease.ts';
import type { LeaseTable } from './lease-table.ts';

export interface QuarantineOptions {
  /**
   * True only with proof: no interface, port or flow of this node has the lease's addresses. False if that is not known. Asked
   * for quarantined leases only.
   */
  readonly isAbsent: (lease: Lease, signal: AbortSignal) => Promise<boolean>;
  /**
   * True if packets may still be sent to the lease's addresses because the cluster believes them to be in use. Asked after
   * `isAbsent`, and overruled when an address is needed and there is no other.
   */
  readonly isClaimedByApi?: (lease: Lease) => boolean;
  /** How long who needs an address in quarantine waits for the proof: the kernel lets go of an interface after some 20 ms. 2 s if left out. */
  readonly quarantinePatienceMs?: number;
  readonly log: Log;
}

const QUARANTINE_PATIENCE_MS = 2_000;
const QUARANTINE_LOOK_EVERY_MS = 20;

/** Leases that were given back, until it is proven that nothing has their addresses any more. */
export class Quarantine {
  readonly #options: QuarantineOptions;
  readonly #table: LeaseTable;
  readonly #free: (lease: Lease) => void;
  /** What the runtime has said is attached, by network, less what it has deleted since. */
  readonly #valid = new Map<string, Set<string>>();

  /** @param free called with each lease that is proven to be gone: its addresses may be lent again */
  constructor(options: QuarantineOptions, table: LeaseTable, free: (lease: Lease) => void) {
    this.#options = options;
    this.#table = table;
    this.#free = free;
  }

  /** Of this network the runtime has these. */
  keepValid(network: string, attachments: readonly Omit<AttachmentKey, 'network'>[]): void {
    this.#valid.set(network, new Set(attachments.map((attachment) => attachmentId({ network, ...attachment }))));
  }

  /** The runtime has deleted it. */
  deleted(key: AttachmentKey): void {
    this.#valid.get(key.network)?.delete(attachmentId(key));
  }

  /** Whether one of these addresses is in it. */
  holds(wanted: readonly Ip[]): boolean {
    if (wanted.length === 0) return false;
    const texts = new Set(wanted.map(({ text }) => text));
    return this.#table.all().some(({ state, addresses }) => state === 'quarantined' && addresses.some(({ ip }) => texts.has(ip.text)));
  }

  /** Frees what is proven to be gone, and says how many leases that were. @param need as of `Ipam.reclaim` */
  async reclaim(signal: AbortSignal, need: 'none' | 'urgent'): Promise<number> {
    let count = 0;
    for (const lease of this.#table.all().filter(({ state }) => state === 'quarantined')) {
      if (signal.aborted) break;
      if (this.#valid.get(lease.network)?.has(attachmentId(lease)) === true) continue;
      const absent = await this.#isAbsent(lease, signal);
      if (!absent || !this.#table.has(lease.serial)) continue; // the other reclaim that was under way has freed it
      if (need === 'none' && this.#options.isClaimedByApi?.(lease) === true) continue;
      this.#free(lease);
      count++;
    }
    return count;
  }

  /** Frees what is in it until `enough`, while that may help. @throws SeineError `CANCELLED` if `signal` aborts first */
  async reclaimUntil(enough: () => boolean, signal: AbortSignal): Promise<void> {
    const untilMs = performance.now() + (this.#options.quarantinePatienceMs ?? QUARANTINE_PATIENCE_MS);
    while (!enough()) {
      const freed = await this.reclaim(signal, 'urgent');
      throwIfAborted(signal);
      const waiting = this.#table.all().some(({ state }) => state === 'quarantined');
      if (freed > 0) continue;
      if (!waiting || performance.now() > untilMs) return;
      await sleep(QUARANTINE_LOOK_EVERY_MS, undefined, { signal }).catch(() => throwIfAborted(signal));
    }
  }

  /** A failure to find out is no proof. */
  async #isAbsent(lease: Lease, signal: AbortSignal): Promise<boolean> {
    try {
      return await this.#options.isAbsent(lease, signal);
    } catch (thrown) {
      if (!signal.aborted)
        this.#options.log.failing('absence', 'absence of a released address not known', {
          cause: SeineError.from(thrown, 'isAbsent').message,
        });
      return false;
    }
  }
}
