import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Target } from './target.ts';

const folder = join(import.meta.dirname, '..', '..', 'fixtures', 'fuzz');
/** Maximum size in the repository; each input covered a block that none before it did. */
const keptBytesMax = 4 * 1024;

/**
 * Inputs of a target, one a line in base64, that together cover all blocks covered so far. They stay, and `npm test` passes them to the
 * reader again.
 */
export function storedCorpus({ name }: Target): readonly Buffer[] {
  const file = fileOf(name);
  if (!existsSync(file)) return [];
  const lines = readFileSync(file, 'utf8').split('\n');
  return lines.filter((line) => line !== '').map((line) => Buffer.from(line, 'base64'));
}

/** The shorter ones first, so that later minimization keeps short ones. */
export function storeCorpus({ name }: Target, inputs: readonly Buffer[]): void {
  mkdirSync(folder, { recursive: true });
  const kept = inputs.filter(({ length }) => length <= keptBytesMax).toSorted((a, b) => a.length - b.length || Buffer.compare(a, b));
  writeFileSync(fileOf(name), kept.map((input) => `${input.toString('base64')}\n`).join(''));
}

function fileOf(name: string): string {
  return join(folder, `${name}.txt`);
}
