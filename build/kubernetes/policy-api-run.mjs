import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { runLogged } from '../setup/commands.mjs';
import { cache, root } from '../setup/paths.mjs';
import { SetupError, say } from '../setup/progress.mjs';

/** Duration of the suite: each denied attempt takes six seconds. */
const TIME_LIMIT = '60m';
/** The same in an emulated machine. */
const TIME_LIMIT_EMULATED = '4h';
const labProgram = join(root, 'bin', 'seine-lab.mjs');
const suiteTest = 'TestConformance';
/** Tests that only connect by SCTP. */
const sctpTests = 'SCTP$';

/** Kernel module for sockets of SCTP. Without it the base pods of the suite do not become Ready. */
const protocols = '/proc/net/protocols';

/** Reports whether the kernel has sockets of SCTP. */
export function hasSctp() {
  return /^SCTP\b/m.test(readFileSync(protocols, 'utf8'));
}

/**
 * Runs the conformance suite of ClusterNetworkPolicy on a running lab.
 *
 * @param {{ families: string, labFolder: string }} lab
 * @param {{ focus?: string, emulated?: boolean }} asked `focus`: regular expression over the names of tests; `emulated`: with longer time limits
 * @param {{ suite: string, withoutSctp: string, longLimits: string, definition: string }} built
 * @returns {Promise<{ results: ReturnType<typeof suiteResults>, log: string, failure: SetupError | undefined, isReduced: boolean }>}
 */
export async function runPolicyApi({ families, labFolder }, { focus, emulated = false }, { definition, ...programs }) {
  const { kubernetes, nodes } = JSON.parse(readFileSync(join(labFolder, 'lab.json'), 'utf8'));
  const isReduced = !hasSctp();
  const name = `policy-api-${families.replace(',', '-')}`;
  const folder = join(cache, 'kubernetes', name);
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  const kubeconfig = join(labFolder, 'kubeconfig');
  const kubectl = (...args) =>
    execFileSync(join(kubernetes.programs, 'kubectl'), ['--kubeconfig', kubeconfig, ...args], { stdio: 'ignore' });
  kubectl('apply', '--server-side', '-f', definition);
  kubectl('wait', '--for=condition=Established', '--timeout=60s', 'crd/clusternetworkpolicies.policy.networking.k8s.io');
  // A running agent looks for the API every two minutes; the suite gives a policy ten seconds.
  for (const node of nodes) restartAgent(labFolder, node);
  if (isReduced) say('the kernel has no SCTP: its containers, tests and attempts are left out');
  const skipped = isReduced ? [`-test.skip=^${suiteTest}$/${sctpTests}`] : [];
  const args = [
    `-test.run=^${suiteTest}$${focus === undefined ? '' : `/(${focus})`}`,
    ...skipped,
    '-test.v',
    `-test.timeout=${emulated ? TIME_LIMIT_EMULATED : TIME_LIMIT}`,
    '-all-features',
  ];
  const failure = await runLogged(`kubernetes-${name}`, programs[isReduced ? 'withoutSctp' : emulated ? 'longLimits' : 'suite'], args, {
    cwd: folder,
    env: { KUBECONFIG: kubeconfig },
    remedy: 'read the log: each failed attempt names its ends and what the client printed',
  }).catch((error) => {
    if (error instanceof SetupError) return error;
    throw error;
  });
  const log = join(cache, 'logs', `kubernetes-${name}.log`);
  return { results: suiteResults(readFileSync(log, 'utf8')), log, failure, isReduced };
}

function restartAgent(labFolder, { name }) {
  for (const verb of ['stop', 'start'])
    execFileSync(process.execPath, [labProgram, 'agent', name, verb], {
      stdio: 'ignore',
      env: { ...process.env, SEINE_LAB_DIR: labFolder },
    });
}

/**
 * Results of the tests, from the output of a Go test with `-test.v`.
 *
 * @param {string} text
 * @returns {{ name: string, state: 'passed' | 'failed' | 'skipped', seconds: number, leftOut: number }[]} `leftOut`: attempts by SCTP
 */
export function suiteResults(text) {
  const leftOut = new Map();
  const results = [];
  let running = '';
  for (const line of text.split('\n')) {
    const [, started] = /^=== (?:RUN|NAME|CONT) +(\S+)/.exec(line) ?? [];
    if (started !== undefined) [, running = ''] = started.split('/');
    if (line.includes('left out: an attempt by SCTP')) leftOut.set(running, (leftOut.get(running) ?? 0) + 1);
    const [, state, name, seconds] = /^ {4}--- (PASS|FAIL|SKIP): [^/\s]+\/([^/\s]+) \(([\d.]+)s\)$/.exec(line) ?? [];
    if (name !== undefined)
      results.push({ name, state: { PASS: 'passed', FAIL: 'failed', SKIP: 'skipped' }[state], seconds: Number(seconds), leftOut: 0 });
  }
  return results.map((result) => ({ ...result, leftOut: leftOut.get(result.name) ?? 0 }));
}
