import type { Readable } from 'node:stream';
import type { Terminal } from '../terminal.ts';

/** Context of the commands below `seinectl wire`. They need no agent. */
export interface WireContext {
  readonly terminal: Terminal;
  readonly stdin: Readable;
  /** Called with the exit code of the command. */
  readonly exitWith: (work: Promise<number>) => Promise<void>;
}
