import type { Mac } from '../../base/net/mac.ts';
import type { AttachmentKey } from './attachment.ts';
import type { JournalRecord } from './journal-records.ts';
import { attachmentId, type Lease } from './lease.ts';

/** The leases, found by serial, by attachment and by MAC. Of one attachment at most one is allocated. */
export class LeaseTable {
  readonly #bySerial = new Map<number, Lease>();
  readonly #allocated = new Map<string, Lease>();
  /** MACs of allocated leases. A quarantined one's may be used again: the same container keeps its MAC. */
  readonly #macs = new Set<Mac>();
  #lastSerial = 0;

  get lastSerial(): number {
    return this.#lastSerial;
  }

  nextSerial(): number {
    return ++this.#lastSerial;
  }

  /** No serial up to this one is given again. */
  skipTo(serial: number): void {
    this.#lastSerial = Math.max(this.#lastSerial, serial);
  }

  /** Oldest first. */
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

  /** Applies what a journal holds; its records come in order. */
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
   * Adds a lease, or changes the one with its serial, which keeps its place. One that the attachment had before is quarantined:
   * it was given back, or there were no other, and the record of that was lost with the machine.
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

  /** Changes the lease with that serial; none is fine. */
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
