import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { packageRoot } from '../../src/lab/machine/installation.ts';

/**
 * The commands in the shell blocks below a heading of a page, in their order, without comments.
 *
 * @param page such as `docs/install.md`
 * @param heading its text; the blocks above the first heading below the title if it is the title
 * @throws Error if there are none
 */
export function commandsOf(page: string, heading: string): readonly string[] {
  const text = readFileSync(join(packageRoot, page), 'utf8');
  const found = shellCommands(text, heading);
  if (found.length === 0) throw new Error(`${page} has no commands below “${heading}”`);
  return found;
}

/** The one of those commands that begins so. @throws Error if there is none, or more than one */
export function commandOf(page: string, heading: string, beginning: string): string {
  const found = commandsOf(page, heading).filter((command) => command.startsWith(beginning));
  const [command] = found;
  if (command === undefined || found.length > 1)
    throw new Error(`${page}, “${heading}”: ${found.length} commands begin with “${beginning}”, not one`);
  return command;
}

/** @param text of a page in Markdown */
export function shellCommands(text: string, heading: string): readonly string[] {
  const section = text.split(/^(?=#{2,6} )/m).find((part) => part.split('\n', 1)[0]?.replace(/^#+ /, '') === heading) ?? '';
  const blocks = [...section.matchAll(/^```sh\n(.*?)^```$/gms)].map(([, block = '']) => block);
  return blocks.flatMap((block) => block.split('\n').map(withoutComment)).filter((line) => line !== '');
}

function withoutComment(line: string): string {
  return line.replace(/(^|\s)#\s.*$/, '').trim();
}
