import { type Command, Option } from 'commander';
import { usualPlaces } from '../agent-api/usual-places.ts';
import type { AgentClient } from './agent-client.ts';
import type { CollectOptions } from './collect.ts';
import type { CompileOptions } from './compile.ts';
import { logLevel } from './log-level.ts';
import type { Terminal } from './terminal.ts';
import { secondsUpToADay } from './time-option.ts';

/** What the commands for a bad night work with. */
export interface DiagnosticsContext {
  readonly agent: () => AgentClient;
  readonly terminal: Terminal;
  /** Takes the exit code of the command that was asked for. */
  readonly ends: (work: Promise<number>) => Promise<void>;
}

const collectHelp = `
One archive (tar.gz, mode 0600): what the agent says of itself, what its compilers were given, the switch's database, flows and groups with
their counters, the node's links, routes, neighbours and packet filter, counts of connections, logs and versions. Private keys, tokens and
passwords are taken out by what they look like; addresses, names of pods and annotations of this node's network are not.

A part that cannot be had is recorded in manifest.json with the reason. Without an agent the rest is collected all the same.

Examples:
  seinectl collect                                         seine-NODE-TIME.tar.gz in this folder
  seinectl collect -o /tmp/n1.tar.gz --log /var/log/kubelet.log
  seinectl compile /tmp/n1.tar.gz --check                  elsewhere: did the bridge hold what the inputs come to?

Exit codes: 0 all parts are whole; 1 some failed or are cut, standard error says which; 2 the archive cannot be written.`;

const compileHelp = `
Makes the flows, groups and meters of a node again from what its compilers were given, byte for byte, wherever you are: no agent and no
switch is asked.

  text    as ovs-ofctl --no-names --no-stats dump-flows prints them
  names   the same with names of tables
  bundle  for ovs-ofctl -O OpenFlow15 bundle BRIDGE FILE
  hex     OpenFlow messages, for seinectl wire decode

Examples:
  seinectl compile n1.tar.gz > n1.flows
  seinectl compile n1.tar.gz --check                       only what the bridge did not hold so; exit 1 if there is anything
  seinectl compile n1.tar.gz -o bundle | ovs-ofctl -O OpenFlow15 bundle br-test -

Exit codes: 0 fine; 1 there are differences, or something does not compile; 2 that is no bundle.`;

const logLevelHelp = `
Examples:
  seinectl log-level                                       what it is now
  seinectl log-level debug --for 10m                       for a while; then what is configured holds again
  seinectl log-level info                                  until the agent ends`;

/** `seinectl collect`, `compile` and `log-level`. What only they need is loaded when they are asked for. */
export function addDiagnostics(root: Command, { agent, terminal, ends }: DiagnosticsContext): void {
  root
    .command('collect')
    .description('put everything that is needed to understand this node into one archive, without secrets')
    .option('-o, --output <file>', 'the archive; must not exist')
    .option('--config <file>', "the agent's configuration, where no agent answers", usualPlaces.configFile)
    .option('--log <file>', 'take the end of this log as well; may be repeated', (file: string, others: string[]) => [...others, file], [])
    .addHelpText('after', collectHelp)
    .action((options: CollectOptions) =>
      ends(import('./collect.ts').then(({ collectBundle }) => collectBundle(agent(), options, terminal))),
    );
  root
    .command('compile')
    .description("make a node's flows again from an archive of `seinectl collect`; no agent and no switch is asked")
    .argument('<bundle>', 'the archive')
    .addOption(new Option('-o, --output <form>', 'how to print them').choices(['text', 'names', 'bundle', 'hex']).default('text'))
    .option('--check', 'print only where the bridge held something else')
    .addHelpText('after', compileHelp)
    .action((bundle: string, options: CompileOptions) =>
      ends(import('./compile.ts').then(({ compileBundle }) => compileBundle(bundle, options, terminal))),
    );
  root
    .command('log-level')
    .description("show what the agent's log tells, or change it without a restart")
    .argument('[level]', 'error, warn, info or debug')
    .option('--for <time>', 'how long, e.g. 10m; then what is configured holds again; a day at most', secondsUpToADay)
    .addHelpText('after', logLevelHelp)
    .action((level: string | undefined, { for: time }: { for?: number }) => ends(logLevel(agent(), level, time, terminal)));
}
