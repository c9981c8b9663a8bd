import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { Readable } from 'node:stream';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { plain } from '../../src/seinectl/paint.ts';
import { run } from '../../src/seinectl/program.ts';
import { root } from '../support/source-tree.ts';

/** Defines tests that run the commands of pages, beside their files, and compare the output that the pages show. @param names without `.md` */
export function testExamples(names: readonly string[], counts: { readonly files: number; readonly commands: number }): void {
  const page = names.map((name) => readFileSync(join(root, `docs/${name}.md`), 'utf8')).join('\n');
  const files = [...page.matchAll(/^`([\w./-]+)`:\n```(?:yaml|json)\n([\s\S]*?)^```$/gm)];
  const commands = [...page.matchAll(/^```sh\nseinectl (.*)\n```\n```text\n([\s\S]*?)^```$/gm)];
  const folder = mkdtempSync(join(tmpdir(), `${names[0]}-`));
  const before = process.cwd();

  beforeAll(() => {
    for (const [, name = '', text = ''] of files) {
      mkdirSync(join(folder, dirname(name)), { recursive: true });
      writeFileSync(join(folder, name), text);
    }
    process.chdir(folder);
  });
  afterAll(() => {
    process.chdir(before);
    rmSync(folder, { recursive: true });
  });

  it('has the files and commands of the pages', () => {
    expect({ files: files.length, commands: commands.length }).toEqual(counts);
  });

  it.each(commands.map(([, command = '', output = '']) => [command, output] as const))(
    'prints what the pages show: seinectl %s',
    async (command, output) => {
      const lines: string[] = [];
      const room = { width: Number.POSITIVE_INFINITY, paint: plain };
      await run(command.split(' '), { room, line: (text) => void lines.push(text), remark: () => undefined }, Readable.from([]));
      expect(lines.map((line) => `${line}\n`).join('')).toBe(output);
    },
  );
}
