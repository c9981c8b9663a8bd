import { setImmediate as nextTurn } from 'node:timers/promises';
import { MemoryJournalStore } from '../../src/pods/ipam/testing/memory-journal-store.ts';

/** Where an ADD or a DEL meets its fate. */
export type InjectedFault =
  | 'none'
  /** The disk refuses the next write. */
  | 'diskFull'
  /** The disk takes the write, and refuses to make it durable. */
  | 'syncFails'
  /** The switch refuses the pod's port. */
  | 'refused'
  /** The machine dies: when the journal is written to, or while that is on its way to the disk. */
  | 'machineDiesInWrite'
  | 'machineDiesInSync'
  /** The agent dies: while the journal is on its way to the disk, before the interface is there, after it, and just before it answers. */
  | 'diesInSync'
  | 'diesBeforeLink'
  | 'diesAfterLink'
  | 'diesBeforeAnswer'
  /** The plugin is gone when the answer comes. */
  | 'pluginGone';

/** A planted bug, to see that it is found. */
export type Bug =
  /** Absence is believed while the kernel still has the interface. */
  | 'blindToLinks'
  /** What is on the disk is not what was written. */
  | 'forgetfulDisk'
  /** An interface is made before the agent's death could not lose the lease any more. */
  | 'handsOverLate'
  /** The inventory gives up the leases of pods that are there. */
  | 'releasesAll'
  /** GC looks at nothing. */
  | 'deafGc'
  /** Recorded DELs are dropped. */
  | 'losesDeletions'
  /** DEL does not take the addresses back. */
  | 'keepsLeases';

/** Says that it has written and has not. */
export class ForgetfulStore extends MemoryJournalStore {
  override append(): void {}
}

/** Gives the kernel a lease only once it is to be synced: so the agent's death loses it. */
export class LateStore extends MemoryJournalStore {
  #late: Uint8Array[] = [];

  override append(bytes: Uint8Array): void {
    if (Buffer.from(bytes).includes('"op":"lease"')) this.#late.push(bytes);
    else super.append(bytes);
  }

  override async sync(): Promise<void> {
    await nextTurn(); // the world goes on meanwhile
    for (const bytes of this.#late.splice(0)) super.append(bytes);
    await super.sync();
  }
}
