import { setImmediate as nextTurn } from 'node:timers/promises';
import { MemoryJournalStore } from '../../src/pods/ipam/testing/memory-journal-store.ts';

/** Fault during an ADD or a DEL. */
export type InjectedFault =
  | 'none'
  /** The disk rejects the next write. */
  | 'diskFull'
  /** The disk accepts the write, and rejects the sync. */
  | 'syncFails'
  /** OVS rejects the pod's port. */
  | 'refused'
  /** The host dies: when the journal is written, or during its sync. */
  | 'machineDiesInWrite'
  | 'machineDiesInSync'
  /** The agent dies: during the sync of the journal, before the interface exists, after it, and just before the answer. */
  | 'diesInSync'
  | 'diesBeforeLink'
  | 'diesAfterLink'
  | 'diesBeforeAnswer'
  /** The plugin has ended when the answer comes. */
  | 'pluginGone';

/** A planted bug that the test must detect. */
export type Bug =
  /** Absence is assumed while the kernel still has the interface. */
  | 'blindToLinks'
  /** The disk does not contain what was written. */
  | 'forgetfulDisk'
  /** An interface is created before the lease is safe from the agent's death. */
  | 'handsOverLate'
  /** The inventory releases the leases of present pods. */
  | 'releasesAll'
  /** GC checks nothing. */
  | 'deafGc'
  /** Recorded DELs are dropped. */
  | 'losesDeletions'
  /** DEL does not release the addresses. */
  | 'keepsLeases';

/** Reports a write that it did not do. */
export class ForgetfulStore extends MemoryJournalStore {
  override append(): void {}
}

/** Passes a lease to the kernel only at the sync: so the agent's death loses it. */
export class LateStore extends MemoryJournalStore {
  #late: Uint8Array[] = [];

  override append(bytes: Uint8Array): void {
    if (Buffer.from(bytes).includes('"op":"lease"')) this.#late.push(bytes);
    else super.append(bytes);
  }

  override async sync(): Promise<void> {
    await nextTurn(); // other processes continue meanwhile
    for (const bytes of this.#late.splice(0)) super.append(bytes);
    await super.sync();
  }
}
