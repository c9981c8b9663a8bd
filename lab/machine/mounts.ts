import { readFileSync } from 'node:fs';
import { run } from './process.ts';

/** Unmounts everything below a folder, the innermost first. */
export async function unmountBelow(folder: string, signal: AbortSignal): Promise<void> {
  for (const at of mountsBelow(readFileSync('/proc/self/mountinfo', 'utf8'), folder)) await run('umount', ['--lazy', at], {}, signal);
}

/** Mount points below a folder, the last mounted first. @param mountinfo as proc(5) describes it */
export function mountsBelow(mountinfo: string, folder: string): string[] {
  const points = mountinfo.split('\n').map((line) => unescaped(line.split(' ')[4] ?? ''));
  return points.filter((point) => point.startsWith(`${folder}/`)).toReversed();
}

/** Spaces, tabs, line ends and backslashes are written in octal. */
function unescaped(point: string): string {
  return point.replace(/\\([0-7]{3})/g, (_, octal: string) => String.fromCharCode(Number.parseInt(octal, 8)));
}
