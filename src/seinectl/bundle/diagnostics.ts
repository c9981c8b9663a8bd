import { type Command, Option } from 'commander';
import { defaultPaths } from '../../api/default-paths.ts';
import type { AgentClient } from '../agent-client.ts';
import type { Terminal } from '../terminal.ts';
import { secondsUpToADay } from '../time-option.ts';
import type { CollectOptions } from './collect.ts';
import type { CompileCommandOptions } from './compile.ts';
import { logLevel } from './log-level.ts';

/** Context of the diagnostic commands. */
interface DiagnosticsContext {
  readonly agent: () => AgentClient;
  readonly terminal: Terminal;
  /** Called with the exit code of the command. */
  readonly exitWith: (work: Promise<number>) => Promise<void>;
}

const collectHelp = `
One archive (tar.gz, mode 0600): the agent's state, the inputs of its compilers, OVSDB, flows and groups with
their counters, the node's links, routes, neighbours and nftables, counts of connections, logs and versions. Private keys, tokens and
passwords are removed by their form; addresses, names of pods and annotations of this node's network are not.

A part that cannot be read is recorded in manifest.json with the reason. Without an agent the rest is collected all the same.

Examples:
  seinectl collect                                         seine-NODE-TIME.tar.gz in this folder
  seinectl collect -o /tmp/n1.tar.gz --log /var/log/kubelet.log
  seinectl compile /tmp/n1.tar.gz --check                  on any host: did the bridge have the flows of these inputs?

Exit codes: 0 all parts are complete; 1 some failed or are cut, see standard error; 2 the archive cannot be written.`;

const compileHelp = `
Compiles the flows, groups and meters of a node again from the inputs in an archive, byte for byte, on any host, without agent and
Open vSwitch.

  text    as ovs-ofctl --no-names --no-stats dump-flows prints them
  names   the same with names of tables
  bundle  for ovs-ofctl -O OpenFlow15 bundle BRIDGE FILE
  hex     OpenFlow messages, for seinectl wire decode

Examples:
  seinectl compile n1.tar.gz > n1.flows
  seinectl compile n1.tar.gz --check                       only differences to the bridge; exit 1 if any
  seinectl compile n1.tar.gz -o bundle | ovs-ofctl -O OpenFlow15 bundle br-test -

Exit codes: 0 no differences; 1 differences, or an input does not compile; 2 not an archive of collect.`;

const logLevelHelp = `
Examples:
  seinectl log-level                                       show the level
  seinectl log-level debug --for 10m                       temporarily; then the configured level applies again
  seinectl log-level info                                  until the agent ends`;

/** Adds `seinectl collect`, `compile` and `log-level`. Modules that only they need are loaded on use. */
export function addDiagnostics(root: Command, { agent, terminal, exitWith }: DiagnosticsContext): void {
  root
    .command('collect')
    .description("collect this node's state into one archive, without secrets")
    .option('-o, --output <file>', 'the archive, which must not exist; - for standard output')
    .option('--config <file>', "the agent's configuration, where no agent answers", defaultPaths.configFile)
    .option('--log <file>', 'include the end of this log; may be repeated', (file: string, others: string[]) => [...others, file], [])
    .addHelpText('after', collectHelp)
    .action((options: CollectOptions) =>
      exitWith(import('./collect.ts').then(({ collectBundle }) => collectBundle(agent(), options, terminal))),
    );
  root
    .command('compile')
    .description("compile a node's flows from an archive of `seinectl collect`, without agent or Open vSwitch")
    .argument('<bundle>', 'the archive')
    .addOption(new Option('-o, --output <form>', 'output format').choices(['text', 'names', 'bundle', 'hex']).default('text'))
    .option('--check', 'print only differences to the bridge')
    .addHelpText('after', compileHelp)
    .action((bundle: string, options: CompileCommandOptions) =>
      exitWith(import('./compile.ts').then(({ compileBundle }) => compileBundle(bundle, options, terminal))),
    );
  root
    .command('log-level')
    .description("show the level of the agent's log, or change it without a restart")
    .argument('[level]', 'error, warn, info or debug')
    .option('--for <time>', 'duration, e.g. 10m; then the configured level applies again; at most a day', secondsUpToADay)
    .addHelpText('after', logLevelHelp)
    .action((level: string | undefined, { for: time }: { for?: number }) => exitWith(logLevel(agent(), level, time, terminal)));
}
