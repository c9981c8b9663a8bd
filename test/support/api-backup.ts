import { copyFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Change, openJournal } from '../../src/lab/apiserver/journal.ts';
import { keyOf } from '../../src/lab/apiserver/kube-object.ts';
import { labPaths } from '../../src/lab/names.ts';
import type { LabPlan } from '../../src/lab/plan.ts';

const objectsOf = (plan: LabPlan): string => join(labPaths(plan.dir).apiServer, 'objects.log');
const backupOf = (plan: LabPlan): string => join(plan.dir, 'objects.backup');

/** Copies all objects of a lab's API server, which may run. */
export function backUp(plan: LabPlan): void {
  copyFileSync(objectsOf(plan), backupOf(plan));
}

/** Gives the API server back what it had at the backup, versions included. It must not run. */
export function restore(plan: LabPlan): void {
  copyFileSync(backupOf(plan), objectsOf(plan));
}

/**
 * Takes from the API server what it remembers of the past, so that no watch goes on from where it was. It must not run.
 *
 * @param keeps which objects are left
 */
export function forgetHistory(plan: LabPlan, keeps: (change: Change) => boolean = () => true): void {
  const { journal, floor, changes } = openJournal(labPaths(plan.dir).apiServer);
  const live = new Map<string, Change>();
  for (const change of changes) {
    const key = `${change.storage} ${keyOf(change.object.metadata)}`;
    if (change.deleted) live.delete(key);
    else live.set(key, change);
  }
  journal.rewrite(
    // One later than all that anybody has seen: who has seen the newest could go on from there.
    changes.reduce((newest, { revision }) => Math.max(newest, revision), floor) + 1,
    [...live.values()].filter(keeps).toSorted((a, b) => a.revision - b.revision),
  );
  journal.close();
}
