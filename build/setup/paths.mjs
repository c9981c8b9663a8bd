import { existsSync } from 'node:fs';
import { delimiter, dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

/** Root of the checkout. */
export const root = resolve(dirname(fileURLToPath(import.meta.url)), '..', '..');

/** Stamps and downloads of the set-up; may be deleted at any time. */
export const cache = join(root, '.cache');

/** Compiler output: bundles, the plugin, the compiled exports. */
export const dist = join(root, 'dist');

/** Folder with the pinned Node's `node`, once npm has brought it. */
export const pinnedNodeBin = join(root, 'node_modules', `node-linux-${process.arch}`, 'bin');

/** PATH with the pinned Node and the project's tools before everything else. */
export function toolPath() {
  return [...(existsSync(pinnedNodeBin) ? [pinnedNodeBin] : []), join(root, 'node_modules', '.bin'), process.env.PATH ?? ''].join(
    delimiter,
  );
}
