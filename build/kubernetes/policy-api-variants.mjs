import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { SetupError } from '../setup/progress.mjs';

/*
 * Two variants of the conformance suite of ClusterNetworkPolicy; everything else of them is upstream's.
 *
 * - Without SCTP, for kernels that lack it: pods of the suite have containers that open SCTP sockets, and become Ready on no such kernel. These
 *   containers and all attempts to connect by SCTP are left out.
 * - With longer time limits, for an emulated machine.
 */

/** Factor of the time limits in the variant for an emulated machine. */
export const LIMITS_FACTOR = 6;

/** Start of a container in the manifest. */
const container = /^ {8}- name: /m;
const sctpContainer = /SERVE_SCTP_PORT/;
const attempt = /^func PokeServer\(.*\bprotocol\b.*\{\n/m;
const leftOutLine = 'left out: an attempt by SCTP';

/**
 * The manifest without containers that open SCTP sockets.
 *
 * @param {string} text
 * @throws SetupError if there is no such container
 */
export function manifestWithoutSctp(text) {
  const kept = text.split(/^(?=---$)/m).map((document) => {
    const [head = '', ...containers] = document.split(new RegExp(`(?=${container.source})`, 'm'));
    return [head, ...containers.filter((each) => !sctpContainer.test(each))].join('');
  });
  const result = kept.join('');
  if (result === text) throw changed('no container opens SCTP sockets');
  return result;
}

/**
 * The suite's helper, whose attempts by SCTP return at once and are logged.
 *
 * @param {string} text
 * @throws SetupError if it has no function `PokeServer`
 */
export function helperWithoutSctp(text) {
  if (!attempt.test(text)) throw changed('no function PokeServer');
  return text.replace(attempt, (line) => `${line}\tif protocol == "sctp" {\n\t\tt.Log("${leftOutLine}")\n\t\treturn\n\t}\n`);
}

/**
 * The suite's usual time limits, `LIMITS_FACTOR` times as long. Its interval between attempts, in milliseconds, stays.
 *
 * @param {string} text
 * @throws SetupError if it has no limit in seconds
 */
export function limitsLengthened(text) {
  const result = text.replace(
    /(\w+: +)(\d+)( \* time\.Second)/g,
    (_, name, seconds, unit) => name + Number(seconds) * LIMITS_FACTOR + unit,
  );
  if (result === text) throw changed('no time limit in seconds');
  return result;
}

function changed(what) {
  return new SetupError(
    `the conformance suite of another version: ${what}`,
    'compare build/kubernetes/policy-api-variants.mjs with its sources',
  );
}

/** Changed sources of each variant, by path in the module. */
export const variants = {
  withoutSctp: {
    'conformance/base/manifests.yaml': manifestWithoutSctp,
    'conformance/utils/kubernetes/helper.go': helperWithoutSctp,
  },
  longLimits: { 'conformance/utils/config/timeout.go': limitsLengthened },
};

/**
 * Copies the suite's module with the changed sources, and writes a `go.mod` that uses the copy: Go replaces no files of its module cache.
 *
 * @param {{ module: string, requiring: string, folder: string }} folders `module`: of `sigs.k8s.io/network-policy-api`; `requiring`: of the
 *   module that requires it; `folder`: the destination
 * @param {Record<string, (text: string) => string>} changes one of `variants`
 * @returns {string} path for `go -modfile`
 */
export function writeChangedModule({ module, requiring, folder }, changes) {
  const copy = join(folder, 'module');
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(copy, { recursive: true });
  const parts = ['go.mod', 'go.sum', 'apis', 'conformance', 'pkg'].map((part) => join(module, part));
  // Files and folders of the module cache cannot be written; their copies must be.
  execFileSync('cp', ['-r', '--no-preserve=mode', ...parts, copy]);
  for (const [path, change] of Object.entries(changes)) writeFileSync(join(copy, path), change(readFileSync(join(module, path), 'utf8')));
  const mod = join(folder, 'go.mod');
  writeFileSync(mod, `${readFileSync(join(requiring, 'go.mod'), 'utf8')}\nreplace sigs.k8s.io/network-policy-api => ${copy}\n`);
  writeFileSync(join(folder, 'go.sum'), readFileSync(join(requiring, 'go.sum'), 'utf8'));
  return mod;
}
