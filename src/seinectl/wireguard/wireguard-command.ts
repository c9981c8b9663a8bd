import type { Command } from 'commander';
import type { RotationAnswer } from '../../api/wireguard.ts';
import type { AgentClient } from '../agent-client.ts';
import { safeLine } from '../escape.ts';
import { exitCodes } from '../exit-codes.ts';
import { type OutputForm, outputOption, print } from '../output.ts';
import type { Terminal } from '../terminal.ts';

interface WireGuardContext {
  readonly agent: () => AgentClient;
  readonly terminal: Terminal;
  /** Called with the exit code. */
  readonly exitWith: (work: Promise<number>) => Promise<void>;
}

const rotateHelp = `
The node announces a new key. 30 seconds later its peers use it, and the node shortly after them; packets of about 100 ms are lost. Clocks of the nodes
must not differ by more than a second.

Examples:
  seinectl wireguard rotate
  seinectl cluster wireguard rotate     every node

Exit codes: 0 announced; 2 refused: encryption is off.`;

/** Adds `seinectl wireguard rotate`. */
export function addWireGuard(root: Command, { agent, terminal, exitWith }: WireGuardContext): void {
  root
    .command('wireguard')
    .description('encryption between nodes')
    .command('rotate')
    .description('replace the WireGuard key of this node')
    .addOption(outputOption(['table', 'json', 'yaml']))
    .addHelpText('after', rotateHelp)
    .action(({ output }: { readonly output: OutputForm }) => exitWith(rotate(agent(), terminal, output)));
}

async function rotate(agent: AgentClient, terminal: Terminal, form: OutputForm): Promise<number> {
  const answer = (await agent.json('/v1/wireguard/rotate', 'POST')) as RotationAnswer;
  if (form === 'json' || form === 'yaml') print(terminal, answer, form);
  else terminal.line(safeLine(`the key ${answer.publicKey} is replaced at ${answer.changesAt}`));
  return exitCodes.ok;
}
