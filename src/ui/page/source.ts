import { signal } from '@preact/signals';
import type { ShownSource } from '../answers/shown-source.ts';

/** Origin of the page's answers; undefined until it is known, and in the static simulator. */
export const shownSource = signal<ShownSource | undefined>(undefined);

/**
 * Returns the command that prints an answer.
 *
 * @param words the command for a cluster
 * @returns undefined if there is none for support bundles
 */
export function commandFor(source: ShownSource | undefined, words: readonly string[]): readonly string[] | undefined {
  if (source?.kind !== 'bundles') return words;
  const files = source.bundles.map(({ file }) => file);
  const [program = '', command, ...rest] = words;
  if (command === 'simulate') return words;
  if (command === 'trace') return [program, 'simulate', ...files.flatMap((file) => ['--bundle', file]), 'trace', ...rest];
  const [first] = files;
  return (command === 'policy' || command === 'whatif') && first !== undefined ? [...words, '--bundle', first] : undefined;
}
