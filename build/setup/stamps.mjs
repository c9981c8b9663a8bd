import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, statSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { cache, root } from './paths.mjs';

/** Hash over names and contents of files; a folder stands for every file below it. Absent inputs count as absent. */
export function contentHash(inputs) {
  const hash = createHash('sha256');
  for (const file of inputs.flatMap(filesBelow)) {
    const bytes = readFileSync(file);
    hash.update(`${relative(root, file)}\0${bytes.length}\0`).update(bytes);
  }
  return hash.digest('hex');
}

/** True if `name` was last built from inputs of this hash and its products still exist. */
export function isFresh(name, hash, products) {
  const file = stampFile(name);
  return existsSync(file) && readFileSync(file, 'utf8') === hash && products.every((product) => existsSync(product));
}

export function stamp(name, hash) {
  mkdirSync(join(cache, 'stamps'), { recursive: true });
  writeFileSync(`${stampFile(name)}.new`, hash);
  renameSync(`${stampFile(name)}.new`, stampFile(name));
}

function stampFile(name) {
  return join(cache, 'stamps', name);
}

function filesBelow(path) {
  if (!existsSync(path)) return [];
  if (!statSync(path).isDirectory()) return [path];
  return readdirSync(path)
    .sort()
    .flatMap((name) => filesBelow(join(path, name)));
}
