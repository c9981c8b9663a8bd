/**
 * The changelog's section of a version, without its heading.
 *
 * @throws Error if there is no such section, or it is empty
 */
export function releaseNotes(changelog: string, version: string): string {
  const lines = changelog.split('\n');
  const start = lines.findIndex((line) => line.startsWith(`## [${version}]`));
  if (start === -1) throw new Error(`CHANGELOG.md has no section ${version}`);
  const length = lines.slice(start + 1).findIndex((line) => line.startsWith('## '));
  const section = lines.slice(start + 1, length === -1 ? undefined : start + 1 + length);
  // Link definitions stand at the end of the file.
  const text = section
    .filter((line) => !/^\[[^\]]+\]: /.test(line))
    .join('\n')
    .trim();
  if (text === '') throw new Error(`the section ${version} of CHANGELOG.md is empty`);
  return `${text}\n`;
}
