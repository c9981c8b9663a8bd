import { copyFileSync } from 'node:fs';
import { join } from 'node:path';
import { keyOf } from '../../lab/apiserver/object/api-object.ts';
import { type ObjectChange, openJournal } from '../../lab/apiserver/store/object-journal.ts';
import { labPaths } from '../../lab/plan/names.ts';
import type { LabPlan } from '../../lab/plan/plan.ts';

const objectsOf = (plan: LabPlan): string => join(labPaths(plan.dir).apiServer, 'objects.log');
const backupOf = (plan: LabPlan): string => join(plan.dir, 'objects.backup');

/** Copies all objects of a lab's API server, which may run. */
export function backUp(plan: LabPlan): void {
  copyFileSync(objectsOf(plan), backupOf(plan));
}

/** Restores the API server's data of the backup, versions included. It must not run. */
export function restore(plan: LabPlan): void {
  copyFileSync(backupOf(plan), objectsOf(plan));
}

/**
 * Removes the API server's history, so that no watch can continue. It must not run.
 *
 * @param keeps selects the remaining objects
 */
export function forgetHistory(plan: LabPlan, keeps: (change: ObjectChange) => boolean = () => true): void {
  const { journal, floor, changes } = openJournal(labPaths(plan.dir).apiServer);
  const live = new Map<string, ObjectChange>();
  for (const change of changes) {
    const key = `${change.storage} ${keyOf(change.object.metadata)}`;
    if (change.deleted) live.delete(key);
    else live.set(key, change);
  }
  journal.rewrite(
    // One later than any version seen so far: a client that has seen the newest could continue from there.
    changes.reduce((newest, { revision }) => Math.max(newest, revision), floor) + 1,
    [...live.values()].filter(keeps).toSorted((a, b) => a.revision - b.revision),
  );
  journal.close();
}
