/** More than that is no accident. */
const filesMost = 6;

/**
 * The files that failed, if they may be run once more, alone: a few, which the rest of the machine may have been too slow for. What fails
 * again has failed; what passes is *unsteady*, a bug of the test or of what it tests, and is named. A random test that fails prints its seed.
 *
 * @param {{ name: string, project: string, ok: boolean }[]} files of a run
 * @returns {string[]} their names; empty if the run's failure stands
 */
export function forSecondRun(files) {
  const failed = files.filter(({ ok }) => !ok);
  return failed.length > filesMost ? [] : failed.map(({ name }) => name);
}
