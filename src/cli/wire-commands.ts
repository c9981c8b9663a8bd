import type { Readable } from 'node:stream';
import type { Command } from 'commander';
import type { Terminal } from './terminal.ts';
import { addOpenFlow } from './wire-openflow.ts';
import { addWatch } from './wire-watch.ts';

/** What the commands below `seinectl wire` work with. They need no agent. */
export interface WireContext {
  readonly terminal: Terminal;
  readonly stdin: Readable;
  /** Takes the exit code of the command that was asked for. */
  readonly ends: (work: Promise<number>) => Promise<void>;
}

/** `seinectl wire …`: the protocols of Open vSwitch, for people. */
export function addWire(root: Command, context: WireContext): void {
  const wire = root.command('wire').description('look at what Open vSwitch and its clients say to each other; needs no agent');
  addOpenFlow(wire, context);
  addWatch(wire, context);
}
