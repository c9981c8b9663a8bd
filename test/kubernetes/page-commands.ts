import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { packageRoot } from '../../lab/machine/installation.ts';
import { shellBlocks } from './page-blocks.ts';

/**
 * The commands in the shell blocks below a heading of a page, in their order, without comments.
 *
 * @param page such as `docs/installation/manifest.md`
 * @param heading its text; that of the title for blocks above the others
 * @throws Error if there are none
 */
export function commandsOf(page: string, heading: string): readonly string[] {
  const text = readFileSync(join(packageRoot, page), 'utf8');
  const found = shellCommands(text, heading);
  if (found.length === 0) throw new Error(`${page} has no commands below “${heading}”`);
  return found;
}

/** The command with this beginning. @throws Error if there is none, or more than one */
export function commandOf(page: string, heading: string, beginning: string): string {
  const found = commandsOf(page, heading).filter((command) => command.startsWith(beginning));
  const [command] = found;
  if (command === undefined || found.length > 1)
    throw new Error(`${page}, “${heading}”: ${found.length} commands begin with “${beginning}”, not one`);
  return command;
}

/** @param text of a page in Markdown */
export function shellCommands(text: string, heading: string): readonly string[] {
  const blocks = shellBlocks(text).filter((block) => block.heading === heading);
  return blocks.flatMap((block) => block.text.split('\n').map(withoutComment)).filter((line) => line !== '');
}

function withoutComment(line: string): string {
  return line.replace(/(^|\s)#\s.*$/, '').trim();
}
