import { plain } from '../../src/seinectl/paint.ts';
import type { Terminal } from '../../src/seinectl/terminal.ts';

/** A terminal of unlimited width without colours, and its output, by line. */
export function recordingTerminal(): { readonly terminal: Terminal; readonly out: string[]; readonly err: string[] } {
  const out: string[] = [];
  const err: string[] = [];
  const terminal: Terminal = {
    room: { width: Number.POSITIVE_INFINITY, paint: plain },
    line: (text) => void out.push(text),
    remark: (text) => void err.push(text),
  };
  return { terminal, out, err };
}
