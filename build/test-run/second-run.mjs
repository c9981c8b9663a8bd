/** More failures than this are not accidental. */
const filesMost = 6;

/**
 * The failed files, if they may be run again, alone: a few, which may have failed because the host was slow. A second failure stands; a
 * file that passes is *unsteady*, a bug of the test or of its subject, and is named. A random test that fails prints its seed.
 *
 * @param {{ name: string, project: string, ok: boolean }[]} files of a run
 * @returns {string[]} their names; empty if the run's failure stands
 */
export function forSecondRun(files) {
  const failed = files.filter(({ ok }) => !ok);
  return failed.length > filesMost ? [] : failed.map(({ name }) => name);
}
