import { setTimeout as sleep } from 'node:timers/promises';
import { SeineError } from '../../base/errors/seine-error.ts';
import type { Log } from '../../base/log/log.ts';
import type { Ip } from '../../base/net/ip.ts';
import type { AttachmentKey } from './attachment.ts';
import { attachmentId, type Lease, throwIfAborted } from './lease.ts';
import type { LeaseTable } from './lease-table.ts';

export interface QuarantineOptions {
  /**
   * Returns true only with proof that no interface, port or flow of this node has the lease's addresses; false if that is unknown. Called
   * for quarantined leases only.
   */
  readonly isAbsent: (lease: Lease, signal: AbortSignal) => Promise<boolean>;
  /**
   * Reports whether packets may still be sent to the lease's addresses because the cluster considers them in use. Checked after `isAbsent`,
   * and ignored if an address is needed and there is no other.
   */
  readonly isClaimedByApi?: (lease: Lease) => boolean;
  /** Maximum wait of a request for the proof of absence (ms): the kernel releases an interface after about 20 ms. Default: 2 s. */
  readonly quarantinePatienceMs?: number;
  readonly log: Log;
}

const QUARANTINE_PATIENCE_MS = 2_000;
const QUARANTINE_CHECK_EVERY_MS = 20;

/** Released leases whose absence is not proven yet. */
export class Quarantine {
  readonly #options: QuarantineOptions;
  readonly #table: LeaseTable;
  readonly #free: (lease: Lease) => void;
  /** Attachments that the runtime considers valid, by network, without those that it has deleted since. */
  readonly #valid = new Map<string, Set<string>>();

  /** Creates a quarantine. @param free called with each lease whose absence is proven: its addresses may be allocated again */
  constructor(options: QuarantineOptions, table: LeaseTable, free: (lease: Lease) => void) {
    this.#options = options;
    this.#table = table;
    this.#free = free;
  }

  /** Sets the attachments of a network that the runtime considers valid. */
  keepValid(network: string, attachments: readonly Omit<AttachmentKey, 'network'>[]): void {
    this.#valid.set(network, new Set(attachments.map((attachment) => attachmentId({ network, ...attachment }))));
  }

  /** Notes that the runtime has deleted an attachment. */
  deleted(key: AttachmentKey): void {
    this.#valid.get(key.network)?.delete(attachmentId(key));
  }

  /** Reports whether one of these addresses is in quarantine. */
  holds(wanted: readonly Ip[]): boolean {
    if (wanted.length === 0) return false;
    const texts = new Set(wanted.map(({ text }) => text));
    return this.#table.all().some(({ state, addresses }) => state === 'quarantined' && addresses.some(({ ip }) => texts.has(ip.text)));
  }

  /** Frees leases whose absence is proven. @param need as for `Ipam.reclaim` @returns number of leases freed */
  async reclaim(signal: AbortSignal, need: 'none' | 'urgent'): Promise<number> {
    let count = 0;
    for (const lease of this.#table.all().filter(({ state }) => state === 'quarantined')) {
      if (signal.aborted) break;
      if (this.#valid.get(lease.network)?.has(attachmentId(lease)) === true) continue;
      const absent = await this.#isAbsent(lease, signal);
      if (!absent || !this.#table.has(lease.serial)) continue; // a concurrent reclaim has freed it
      if (need === 'none' && this.#options.isClaimedByApi?.(lease) === true) continue;
      this.#free(lease);
      count++;
    }
    return count;
  }

  /** Frees leases until `enough` returns true or waiting cannot help. @throws SeineError `CANCELLED` if `signal` aborts first */
  async reclaimUntil(enough: () => boolean, signal: AbortSignal): Promise<void> {
    const untilMs = performance.now() + (this.#options.quarantinePatienceMs ?? QUARANTINE_PATIENCE_MS);
    while (!enough()) {
      const freed = await this.reclaim(signal, 'urgent');
      throwIfAborted(signal);
      const waiting = this.#table.all().some(({ state }) => state === 'quarantined');
      if (freed > 0) continue;
      if (!waiting || performance.now() > untilMs) return;
      await sleep(QUARANTINE_CHECK_EVERY_MS, undefined, { signal }).catch(() => throwIfAborted(signal));
    }
  }

  /** Checks for absence; an error counts as no proof. */
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
