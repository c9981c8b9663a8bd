import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';

const folder = join(import.meta.dirname, '..', '..', 'docs', 'adr');

it('lists every decision in the index, with the title of its page', () => {
  const index = Array.from(
    readFileSync(join(folder, 'README.md'), 'utf8').matchAll(/^\| (\d+) \| \[(.*)\]\((\d{4}-[\w-]+\.md)\) \| .+ \|$/gm),
    ([, number = '', title = '', file = '']) => `${file} # ${number}. ${title}`,
  );
  const pages = readdirSync(folder)
    .filter((name) => /^\d{4}-/.test(name))
    .map((name) => `${name} ${readFileSync(join(folder, name), 'utf8').split('\n')[0]}`);
  expect(index).toEqual(pages);
});
