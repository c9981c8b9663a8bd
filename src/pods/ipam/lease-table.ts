import type { Mac } from '../../base/net/mac.ts';
import type { AttachmentKey } from './attachment.ts';
import type { JournalRecord } from './journal-records.ts';
import { attachmentId, type Lease } from './lease.ts';

/** Leases by serial, by attachment and by MAC. An attachment has at most one allocated lease. */
export class LeaseTable {
  readonly #bySerial = new Map<number, Lease>();
  readonly #allocated = new Map<string, Lease>();
  /** MACs of allocated leases. The MAC of a quarantined lease may be used again: the same container keeps its MAC. */
  readonly #macs = new Set<Mac>();
  #lastSerial = 0;

  get lastSerial(): number {
    return this.#lastSerial;
  }

  nextSerial(): number {
    return ++this.#lastSerial;
  }

  /** Ensures that no serial up to this one is allocated again. */
  skipTo(serial: number): void {
    this.#lastSerial = Math.max(this.#lastSerial, serial);
  }

  /** All leases, the oldest first. */
  all(): readonly Lease[] {
    return [...this.#bySerial.values()];
  }

  has(serial: number): boolean {
    return this.#bySerial.has(serial);
  }

  allocated(key: AttachmentKey): Lease | undefined {
    return this.#allocated.get(attachmentId(key));
  }

  hasMac(mac: Mac): boolean {
    return this.#macs.has(mac);
  }

  /** Applies a record of a journal; records must arrive in order. */
  replay(record: JournalRecord): void {
    switch (record.op) {
      case 'open':
        this.skipTo(record.serial);
        return;
      case 'lease':
        this.put(record.lease);
        return;
      case 'attached':
        this.update(record.serial, { attached: record.attached });
        return;
      case 'quarantine':
        this.update(record.serial, { state: 'quarantined' });
        return;
      case 'free':
        this.remove(record.serial);
        return;
    }
  }

  /**
   * Adds a lease, or changes the one with its serial, which keeps its position. A previous lease of the attachment is quarantined: it must
   * have been released, and the record of that was lost in a crash of the host.
   */
  put(lease: Lease): void {
    this.#unlink(lease.serial);
    this.#bySerial.set(lease.serial, lease);
    this.skipTo(lease.serial);
    if (lease.state !== 'allocated') return;
    const before = this.#allocated.get(attachmentId(lease));
    if (before) this.put({ ...before, state: 'quarantined' });
    this.#allocated.set(attachmentId(lease), lease);
    this.#macs.add(lease.mac);
  }

  /** Changes the lease with this serial; does nothing if there is none. */
  update(serial: number, change: Pick<Lease, 'state'> | Pick<Required<Lease>, 'attached'>): void {
    const lease = this.#bySerial.get(serial);
    if (lease) this.put({ ...lease, ...change });
  }

  remove(serial: number): void {
    this.#unlink(serial);
    this.#bySerial.delete(serial);
  }

  #unlink(serial: number): void {
    const lease = this.#bySerial.get(serial);
    if (lease?.state !== 'allocated') return;
    this.#allocated.delete(attachmentId(lease));
    this.#macs.delete(lease.mac);
  }
}
