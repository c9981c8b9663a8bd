/** A block of shell commands of a page. */
export interface ShellBlock {
  /** The nearest heading above it, without its marks. */
  readonly heading: string;
  /** Its lines, without the indentation of a list. */
  readonly text: string;
  /** Reason why no test runs it, if the page states one below it. */
  readonly notRun?: string;
}

const notRun = /^\s*\*Not run by a test: (.+)\*$/;

/** @param page in Markdown @throws Error if a block has no end */
export function shellBlocks(page: string): readonly ShellBlock[] {
  const blocks: ShellBlock[] = [];
  const lines = page.split('\n');
  let heading = '';
  for (let at = 0; at < lines.length; at += 1) {
    const line = lines[at] ?? '';
    if (/^#+ /.test(line)) heading = line.replace(/^#+ /, '');
    const [, indent, language] = /^( *)```(.*)$/.exec(line) ?? [];
    if (indent === undefined) continue;
    const end = lines.indexOf(`${indent}\`\`\``, at + 1);
    if (end < 0) throw new Error(`a block below “${heading}” has no end`);
    if (language === 'sh') {
      const text = lines.slice(at + 1, end).map((inner) => inner.slice(indent.length));
      const reason = reasonBelow(lines.slice(end + 1));
      blocks.push({ heading, text: text.join('\n'), ...(reason !== undefined && { notRun: reason }) });
    }
    at = end;
  }
  return blocks;
}

/** The first line of text below a block. */
function reasonBelow(lines: readonly string[]): string | undefined {
  const [, reason] = notRun.exec(lines.find((line) => line !== '') ?? '') ?? [];
  return reason;
}
