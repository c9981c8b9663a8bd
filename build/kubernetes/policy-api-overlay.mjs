import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { SetupError } from '../setup/progress.mjs';

/*
 * The conformance suite of ClusterNetworkPolicy for kernels without SCTP: its pods have containers that open SCTP sockets, and become Ready on
 * no such kernel. These containers and all attempts to connect by SCTP are left out; everything else is upstream's.
 */

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

function changed(what) {
  return new SetupError(
    `the conformance suite of another version: ${what}`,
    'compare build/kubernetes/policy-api-overlay.mjs with its sources',
  );
}

/**
 * Writes the changed sources, and the file that names them for `go -overlay`.
 *
 * @param {string} module folder of the module `sigs.k8s.io/network-policy-api`
 * @param {string} folder destination
 * @returns {string} path of the overlay file
 */
export function writeOverlay(module, folder) {
  mkdirSync(folder, { recursive: true });
  const changes = {
    'conformance/base/manifests.yaml': manifestWithoutSctp,
    'conformance/utils/kubernetes/helper.go': helperWithoutSctp,
  };
  const replaced = Object.entries(changes).map(([path, change]) => {
    const own = join(folder, path.replaceAll('/', '-'));
    writeFileSync(own, change(readFileSync(join(module, path), 'utf8')));
    return [join(module, path), own];
  });
  const overlay = join(folder, 'overlay.json');
  writeFileSync(overlay, JSON.stringify({ Replace: Object.fromEntries(replaced) }));
  return overlay;
}
