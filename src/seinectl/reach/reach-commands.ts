import { type Command, Option } from 'commander';
import type { Terminal } from '../terminal.ts';
import type { ConvertOptions } from './convert-command.ts';
import type { LintOptions } from './lint-command.ts';
import { convertExitCodeHelp, reachExitCodeHelp } from './reach-exit-codes.ts';
import type { DiffOptions, ReachOptions } from './show-commands.ts';
import type { TestOptions } from './test-command.ts';

interface ReachCommandContext {
  readonly terminal: Terminal;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Takes the exit code. */
  readonly exitWith: (work: Promise<number>) => Promise<void>;
}

const sources = `
The objects come from the files of -f, from a support bundle, or else from the cluster of the kubeconfig (list of Namespaces, Nodes, Pods,
NetworkPolicies, ClusterNetworkPolicies and Services). Workloads in files become pods with addresses that no cluster has. Nothing is written, and no agent is asked.`;

const testHelp = `
${sources.trim()}

A test file:
  tests: seine.dev/v1
  objects: [policies/, workloads.yaml]          # as kubectl apply -f; relative to this file
  cases:
  - {from: shop/api-*, to: service:shop/db, port: 5432/TCP, expect: allow, by: shop/db-clients}
  - {from: {namespace: {tenant: b}}, to: {namespace: {tenant: a}}, expect: deny}
  - {from: outside:198.51.100.7, to: shop/web-*, port: 8080/TCP, expect: allow}
  coverage: {rules: 100}

Examples:
  seinectl policy test policy-tests.yaml
  seinectl policy test policy-tests.yaml -o junit > report.xml
  seinectl policy test policy-tests.yaml --cluster      the same cases with the objects of the cluster
  seinectl policy test --traffic traffic.json -f policies/    verdicts of a list of connections

${reachExitCodeHelp}`;

const reachHelp = `
${sources.trim()}

Examples:
  seinectl policy reach -f policies/ -f workloads.yaml
  seinectl policy reach --to shop/db --port 5432
  seinectl policy reach --from outside -o csv

${reachExitCodeHelp}`;

const diffHelp = `
${sources.trim()}

Examples:
  seinectl policy diff --apply new-policy.yaml                       what the change does to the cluster
  seinectl policy diff --delete networkpolicy/shop/db-clients
  seinectl policy diff -f policies/ -f workloads.yaml --apply new-policy.yaml

Lines begin with + for connections that the change opens, - for those that it closes, ~ for those that another rule decides.

${reachExitCodeHelp}`;

const lintHelp = `
${sources.trim()}

Examples:
  seinectl policy lint -f policies/ -f workloads.yaml
  seinectl policy lint --fail-on error -o sarif > policies.sarif

Findings: docs/policy-testing.md lists the codes.

${reachExitCodeHelp}`;

const convertHelp = `
Reads AdminNetworkPolicies and BaselineAdminNetworkPolicies (policy.networking.k8s.io/v1alpha1), and ClusterNetworkPolicies and NetworkPolicies of
Antrea (crd.antrea.io/v1beta1) with their ClusterGroups, Groups and Tiers. Prints ClusterNetworkPolicies (policy.networking.k8s.io/v1beta1).
No cluster is asked. Convert all policies at once: their order becomes priorities.

Examples:
  seinectl policy convert -f antrea-policies/ > policies.yaml
  kubectl get adminnetworkpolicies,baselineadminnetworkpolicies -o yaml | seinectl policy convert -f - > policies.yaml

${convertExitCodeHelp}`;

/** Adds the commands of `seinectl policy` that read objects and not an agent. */
export function addReach(policy: Command, context: ReachCommandContext): void {
  const { terminal, env, exitWith } = context;
  addConvert(policy, context);
  withSources(
    policy
      .command('test')
      .description('evaluate test cases: which connections policies must allow or deny (exit 1 if a case fails)')
      .argument('[file...]', 'test files; - is standard input')
      .addOption(new Option('-o, --output <form>', 'output format').choices(['table', 'json', 'junit']).default('table'))
      .option('--traffic <file>', 'also print the verdicts of a list of connections, JSON as policy-assistant reads it')
      .option('--coverage', 'list the rules that no case uses')
      .option('--cluster', 'objects of the cluster instead of those that the file names')
      .addHelpText('after', testHelp),
  ).action((files: string[], options: TestOptions) =>
    exitWith(import('./test-command.ts').then(({ testPolicies }) => testPolicies(files, options, terminal, env))),
  );
  withSources(
    policy
      .command('reach')
      .description('show which connections the policies allow and deny')
      .option('--from <end>', 'only from these: NAMESPACE/POD, node:NAME, outside, outside:ADDRESS')
      .option('--to <end>', 'only to these; also service:NAMESPACE/NAME')
      .option('--port <port>', 'only this port: 5432, 53/UDP, ICMP')
      .addOption(new Option('-o, --output <form>', 'output format').choices(['table', 'json', 'csv']).default('table'))
      .addHelpText('after', reachHelp),
  ).action((options: ReachOptions) => exitWith(import('./show-commands.ts').then(({ showReach }) => showReach(options, terminal, env))));
  withSources(
    policy
      .command('lint')
      .description('find likely mistakes in policies (exit 1 if there are any)')
      .addOption(
        new Option('--fail-on <level>', 'lowest level of findings that makes the command fail')
          .choices(['error', 'warning'])
          .default('warning'),
      )
      .addOption(new Option('-o, --output <form>', 'output format').choices(['table', 'json', 'sarif']).default('table'))
      .addHelpText('after', lintHelp),
  ).action((options: LintOptions) =>
    exitWith(import('./lint-command.ts').then(({ lintPolicies }) => lintPolicies(options, terminal, env))),
  );
  withSources(
    policy
      .command('diff')
      .description('show which connections a change of policies opens and closes (exit 1 if any)')
      .option('--apply <file>', 'file or folder with policies and namespaces that are added or replaced', collect)
      .option('--delete <object>', 'policy that is removed, networkpolicy/NAMESPACE/NAME or clusternetworkpolicy/NAME', collect)
      .addOption(new Option('-o, --output <form>', 'output format').choices(['table', 'json']).default('table'))
      .addHelpText('after', diffHelp),
  ).action((options: DiffOptions) => exitWith(import('./show-commands.ts').then(({ showDiff }) => showDiff(options, terminal, env))));
}

function addConvert(policy: Command, { terminal, exitWith }: ReachCommandContext): void {
  policy
    .command('convert')
    .description('convert policies of Antrea and AdminNetworkPolicies to ClusterNetworkPolicies')
    .addOption(
      new Option('-f, --filename <file>', 'file or folder with policies, groups and tiers; - is standard input')
        .argParser(collect)
        .makeOptionMandatory(),
    )
    .addOption(new Option('-o, --output <form>', 'output format').choices(['yaml', 'json']).default('yaml'))
    .addHelpText('after', convertHelp)
    .action((options: ConvertOptions) =>
      exitWith(import('./convert-command.ts').then(({ printConverted }) => printConverted(options, terminal))),
    );
}

function withSources(command: Command): Command {
  return command
    .addOption(new Option('-f, --filename <file>', 'file or folder with objects; - is standard input').argParser(collect))
    .addOption(new Option('--bundle <file>', 'objects of a support bundle').conflicts(['filename']))
    .addOption(
      new Option('--kubeconfig <path>', 'kubeconfig of the cluster; default: as kubectl finds it').conflicts(['filename', 'bundle']),
    )
    .addOption(new Option('--context <name>', 'context of the kubeconfig; default: the current one').conflicts(['filename', 'bundle']));
}

function collect(value: string, before: readonly string[] | undefined): readonly string[] {
  return [...(before ?? []), value];
}
