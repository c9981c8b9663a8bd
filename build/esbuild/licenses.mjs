import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

/**
 * License texts of the npm packages of which a bundle has code.
 *
 * @param {string} root of the checkout
 * @param {Iterable<string>} inputs paths of the bundled files, relative to `root`
 * @returns {string}
 * @throws {Error} naming a package that brings neither a license file nor the name of a license
 */
export function licensesOf(root, inputs) {
  const folders = new Set();
  for (const path of inputs) {
    const [, folder] = /^((?:.*\/)?node_modules\/(?:@[^/]+\/)?[^/]+)\//.exec(path) ?? [];
    if (folder !== undefined) folders.add(folder);
  }
  return [...folders]
    .toSorted()
    .map((folder) => licenseOf(join(root, folder)))
    .join('\n');
}

function licenseOf(folder) {
  const { name, version, license } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'));
  const file = readdirSync(folder).find((each) => /^licen[sc]e(?:[.-]|$)/i.test(each));
  if (file === undefined && license === undefined) throw new Error(`${folder} has no license file, and names no license`);
  const text = file === undefined ? `License: ${license}` : readFileSync(join(folder, file), 'utf8').trim();
  return `${name} ${version}\n${'='.repeat(name.length + version.length + 1)}\n\n${text}\n`;
}
