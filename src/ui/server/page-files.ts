import { readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { SeineError } from '../../base/errors/seine-error.ts';

export interface PageFile {
  readonly type: string;
  readonly content: string;
}

const types = {
  'index.html': 'text/html; charset=utf-8',
  'page.js': 'text/javascript; charset=utf-8',
  'page.css': 'text/css; charset=utf-8',
  'shared.js': 'text/javascript; charset=utf-8',
  'simulator-worker.js': 'text/javascript; charset=utf-8',
};

/**
 * Reads the files of the page by path. In a bundle, build/bundle.mjs replaces this module by one that contains them.
 *
 * @throws SeineError `UNAVAILABLE` if the page was not built
 */
export function loadPageFiles(): ReadonlyMap<string, PageFile> {
  const folder = resolve(import.meta.dirname, '../../../dist/ui');
  try {
    return new Map(
      Object.entries(types).map(([name, type]) => [
        name === 'index.html' ? '/' : `/${name}`,
        { type, content: readFileSync(join(folder, name), 'utf8') },
      ]),
    );
  } catch (cause) {
    throw new SeineError('UNAVAILABLE', 'the page was not built: npm run build', { cause });
  }
}
