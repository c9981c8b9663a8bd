import type { Readable } from 'node:stream';
import type { Terminal } from '../terminal.ts';

/** What the commands below `seinectl wire` work with. They need no agent. */
export interface WireContext {
  readonly terminal: Terminal;
  readonly stdin: Readable;
  /** Takes the exit code of the command that was asked for. */
  readonly ends: (work: Promise<number>) => Promise<void>;
}
