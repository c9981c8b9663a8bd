/** More than that is no accident. */
const filesMost = 3;

/**
 * The files that failed, if they may be run once more, alone: a few, of real switches and labs, which the rest of the machine may have
 * been too slow for. What fails again has failed; what passes is *unsteady*, a bug of the test or of what it tests, and is named.
 *
 * @param {{ name: string, project: string, ok: boolean }[]} files of a run
 * @returns {string[]} their names; empty if the run's failure stands
 */
export function forSecondRun(files) {
  const failed = files.filter(({ ok }) => !ok);
  const isForeseeable = failed.some(({ project }) => project === 'unit');
  return isForeseeable || failed.length > filesMost ? [] : failed.map(({ name }) => name);
}
