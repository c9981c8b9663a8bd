import type { Writable } from 'node:stream';
import { coloured, plain } from './paint.ts';
import type { Room } from './table.ts';

/** Like `process.stdout`. */
export type StandardOutput = Writable & { readonly isTTY?: boolean };

/** Output streams of a command, and their format. */
export interface Terminal {
  readonly room: Room;
  line(text: string): void;
  /** Writes to standard error. */
  remark(text: string): void;
}

interface TerminalStreams {
  readonly out: NodeJS.WriteStream;
  readonly err: NodeJS.WriteStream;
  readonly env: Readonly<Record<string, string | undefined>>;
}

/** Colours, and lines cut to the screen's width, only on a terminal. */
export function terminalOf({ out, err, env }: TerminalStreams): Terminal {
  const isScreen = out.isTTY === true;
  const colours = isScreen && (env['NO_COLOR'] ?? '') === '' && env['TERM'] !== 'dumb';
  return {
    room: { width: isScreen ? (out.columns ?? 80) : Number.POSITIVE_INFINITY, paint: colours ? coloured : plain },
    line: (text) => void out.write(`${text}\n`),
    remark: (text) => void err.write(`${text}\n`),
  };
}
