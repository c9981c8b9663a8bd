import type { Command } from 'commander';
import { addOpenFlow } from './openflow.ts';
import { addWatch } from './watch.ts';
import type { WireContext } from './wire-context.ts';

/** Adds `seinectl wire …`: the protocols of Open vSwitch, for humans. */
export function addWire(root: Command, context: WireContext): void {
  const wire = root.command('wire').description('decode the protocols of Open vSwitch; needs no agent');
  addOpenFlow(wire, context);
  addWatch(wire, context);
}
