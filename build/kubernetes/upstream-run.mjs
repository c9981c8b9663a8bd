import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { runLogged } from '../setup/commands.mjs';
import { cache } from '../setup/paths.mjs';
import { SetupError } from '../setup/progress.mjs';
import { focusOf, readResults } from './upstream-tests.mjs';

export const procsUsual = '4';
/** Time after which a hanging run is ended. */
const limit = '2h';

/**
 * Runs upstream's tests of a set on a running lab, concurrently, each tried once.
 *
 * @param {object} wanted
 * @param {string} wanted.set one of `sets`
 * @param {string} wanted.families of the lab, such as `ipv4,ipv6`
 * @param {string} wanted.labFolder folder of the lab
 * @param {{ short?: boolean, focus?: string, procs?: string, mode?: string, encryption?: string }} asked
 * @returns result of each test, ginkgo's report, and ginkgo's own failure, if it failed as a whole
 */
export async function runUpstream({ set, families, labFolder }, asked) {
  const { kubernetes, nodes } = JSON.parse(readFileSync(join(labFolder, 'lab.json'), 'utf8'));
  const name = nameOf(set, families, asked);
  const folder = join(cache, 'kubernetes', name);
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  const { focus, skip } = focusOf(set, asked);
  const procs = asked.procs ?? procsUsual;
  const ginkgo = [`--procs=${procs}`, '--no-color', '--flake-attempts=0', `--timeout=${limit}`, `--focus=${focus}`, `--skip=${skip}`];
  const kubeconfig = join(labFolder, 'kubeconfig');
  giveZones(join(kubernetes.programs, 'kubectl'), kubeconfig, nodes.length);
  const tests = [`--kubeconfig=${kubeconfig}`, '--provider=skeleton', `--num-nodes=${nodes.length}`];
  const reports = ['--json-report=report.json', '--junit-report=junit.xml', `--output-dir=${folder}`];
  const failure = await runLogged(
    `kubernetes-${name}`,
    join(kubernetes.programs, 'ginkgo'),
    [...ginkgo, ...reports, join(kubernetes.programs, 'e2e.test'), '--', ...tests],
    {
      cwd: folder,
      env: { PATH: `${kubernetes.programs}:${process.env.PATH}` },
      remedy: `look at the log, and at ${folder}`,
    },
  ).catch((error) => {
    if (error instanceof SetupError) return error;
    throw error;
  });
  const file = reportFile(set, families, asked);
  return { file, results: readResults(file), failure, kubernetes, nodes: nodes.length };
}

/** Name of a run: a part of a set does not replace all of it. */
function nameOf(set, families, { short, mode, encryption }) {
  return [set, ...(short ? ['short'] : []), ...(mode ? [mode] : []), ...(encryption ? [encryption] : []), families.replace(',', '-')].join(
    '-',
  );
}

/** Path of ginkgo's report of the last run of a set. */
export function reportFile(set, families, asked) {
  return join(cache, 'kubernetes', nameOf(set, families, asked), 'report.json');
}

/** Makes each node its own zone: tests of topology run with three zones. */
function giveZones(kubectl, kubeconfig, count) {
  for (let number = 1; number <= count; number += 1) {
    const label = `topology.kubernetes.io/zone=zone-${number}`;
    execFileSync(kubectl, ['--kubeconfig', kubeconfig, 'label', '--overwrite', 'node', `node-${number}`, label], { stdio: 'ignore' });
  }
}
