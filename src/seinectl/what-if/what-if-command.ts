import { type Command, Option } from 'commander';
import { outputOption } from '../output.ts';
import type { Terminal } from '../terminal.ts';
import { secondsUpToADay } from '../time-option.ts';
import type { WhatIfFlags } from './run-what-if.ts';

interface WhatIfContext {
  readonly terminal: Terminal;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Takes the exit code. */
  readonly exitWith: (work: Promise<number>) => Promise<void>;
}

const help = `
The proposal: NetworkPolicies, ClusterNetworkPolicies, Services, EndpointSlices, and Pods and Namespaces of which only the labels count. Objects that
it does not have stay as they are. Labels that it does not mention stay; a label with the value null is removed. Nothing is changed.

The cluster is that of the kubeconfig: its API server first runs the proposal as a dry run, so that defaults and admission are the server's, and
its agents report which of the connections were used: from the flow log where it is on, else from the counters of the deciding rules. With --objects or --bundle no cluster is contacted.

Examples:
  seinectl whatif -f new-policy.yaml
  seinectl whatif --delete networkpolicy/shop/db-clients
  kubectl get service db -n shop -o yaml | sed s/5432/5433/ | seinectl whatif -f -
  seinectl whatif -f new-policy.yaml --objects manifests/

Exit codes:
  0  no connection that is possible today breaks
  1  something breaks
  2  a file, the command line, or the kubeconfig is invalid, or the API server rejects the proposal
  3  nothing breaks as far as known, but some objects could not be read
  4  engine and reference differ: a bug of Seine`;

/** Adds `seinectl whatif`. */
export function addWhatIf(root: Command, { terminal, env, exitWith }: WhatIfContext): void {
  root
    .command('whatif')
    .description('show which connections a change of policies, labels or Services breaks and opens, before it is made')
    .addOption(new Option('-f, --filename <file>', 'file or folder with the proposal; - is standard input').argParser(collect))
    .addOption(
      new Option('--delete <object>', 'object that is removed, KIND/NAMESPACE/NAME or clusternetworkpolicy/NAME').argParser(collect),
    )
    .addOption(new Option('--objects <file>', 'file or folder with the objects of the cluster').argParser(collect))
    .addOption(new Option('--bundle <file>', 'objects of a support bundle').conflicts(['objects']))
    .addOption(
      new Option('--kubeconfig <path>', 'kubeconfig of the cluster; default: as kubectl finds it').conflicts(['objects', 'bundle']),
    )
    .addOption(new Option('--context <name>', 'context of the kubeconfig; default: the current one').conflicts(['objects', 'bundle']))
    .option('-n, --namespace <namespace>', 'namespace of the agents', 'seine-system')
    .option('--no-dry-run', 'take the proposal as it is written')
    .option('--since <time>', 'how far back connections in the flow log count, e.g. 30m; at most a day', secondsUpToADay, 86_400)
    .option('--no-used', 'do not ask agents how much the connections and rules were used')
    .addOption(outputOption(['table', 'json', 'yaml']))
    .addHelpText('after', help)
    // Loaded on use: all other commands start faster without the policy engine and the client of the API.
    .action((flags: WhatIfFlags) => exitWith(import('./run-what-if.ts').then(({ runWhatIf }) => runWhatIf(flags, terminal, env))));
}

function collect(value: string, before: readonly string[] | undefined): readonly string[] {
  return [...(before ?? []), value];
}
