import { type Command, InvalidArgumentError, Option } from 'commander';
import type { Terminal } from '../terminal.ts';
import type { UiFlags } from './ui-flags.ts';

interface UiCommandContext {
  readonly terminal: Terminal;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Called with the exit code. */
  readonly exitWith: (work: Promise<number>) => Promise<void>;
}

const help = `
Serves a page on this host alone, and prints its address, which is valid once: in one browser. The page shows the cluster with the rights of the
kubeconfig's user, changes nothing, and prints the command of each view. The kubeconfig stays in this process. It ends with Ctrl-C, or an hour after the
last request.

With --bundle it shows what \`seinectl collect\` kept of nodes. No kubeconfig is read, and no cluster is contacted. Views without data say so.

Examples:
  seinectl ui
  seinectl ui --bundle node-1.tar.gz --bundle node-2.tar.gz
  seinectl ui --context production --no-open
  seinectl ui --port 8080                      an address for a tunnel: ssh -L 8080:127.0.0.1:8080 HOST

Exit codes: 0 it has ended; 2 the command line, the kubeconfig or a bundle is invalid; 3 the port is in use.`;

/** Adds `seinectl ui`. */
export function addUi(root: Command, { terminal, env, exitWith }: UiCommandContext): void {
  root
    .command('ui')
    .description('show the cluster in a browser: a page on this host, with the rights of the kubeconfig')
    .option('--kubeconfig <path>', 'kubeconfig of the cluster; default: as kubectl finds it')
    .option('--context <name>', 'context of the kubeconfig; default: the current one')
    .option('--agent-namespace <namespace>', 'namespace of the agents', 'seine-system')
    .addOption(
      new Option('--bundle <file>', 'support bundle of a node instead of a cluster; once for each node')
        .argParser(collect)
        .conflicts(['kubeconfig', 'context']),
    )
    .option('--port <number>', 'port on the loopback addresses; default: any free one', portNumber, 0)
    .option('--no-open', 'do not open a browser')
    .addHelpText('after', help)
    .action((flags: UiFlags) => exitWith(import('./serve-ui.ts').then(({ serveUi }) => serveUi(flags, terminal, env))));
}

function collect(value: string, before: readonly string[] | undefined): readonly string[] {
  return [...(before ?? []), value];
}

function portNumber(text: string): number {
  const found = /^\d{1,5}$/.test(text) ? Number(text) : 0;
  if (found < 1 || found > 65_535) throw new InvalidArgumentError('must be a port from 1 to 65535.');
  return found;
}
