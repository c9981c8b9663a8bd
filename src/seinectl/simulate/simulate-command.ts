import { type Command, Option } from 'commander';
import { outputOption } from '../output.ts';
import type { Terminal } from '../terminal.ts';
import type { SimulatedMatrixFlags, SimulatedTestFlags, SimulatedTraceFlags, SimulatedWhatIfFlags } from './run-simulation.ts';

interface SimulateContext {
  readonly terminal: Terminal;
  /** Takes the exit code. */
  readonly exitWith: (work: Promise<number>) => Promise<void>;
}

const help = `
The objects: manifests, or the output of kubectl get -o yaml or -o json, in files or folders. What they lack is added as a cluster would add it, in the
order of names: nodes, pod networks, addresses, EndpointSlices; workloads become up to two pods. No cluster is contacted.

Examples:
  seinectl simulate -f manifests/ trace shop/web-0 service:shop/db 5432
  seinectl simulate -f manifests/ matrix --to shop/db
  seinectl simulate -f manifests/ whatif -f new-policy.yaml
  seinectl simulate -f manifests/ test policy-tests.yaml`;

const traceHelp = `
Arguments, options and output are those of \`seinectl trace\`. The flows are those that the agents of the simulated nodes would install; "meaning" is
the verdict of the objects. Both agree unless Seine has a bug.

Exit codes: 0 allowed, 1 denied, 2 invalid input, 4 the verdicts differ.`;

const whatIfHelp = `
Options, output and exit codes are those of \`seinectl whatif\`.`;

const matrixHelp = `
Options, output and exit codes are those of \`seinectl policy reach\`.`;

const testHelp = `
Test files, output and exit codes are those of \`seinectl policy test\`. The objects are those of the simulation, and not those that the files name.`;

/** Adds `seinectl simulate`. */
export function addSimulate(root: Command, { terminal, exitWith }: SimulateContext): void {
  const simulate = root
    .command('simulate')
    .description('compute from manifests what a cluster does with packets, without a cluster')
    .addOption(
      new Option('-f, --filename <file>', 'file or folder with the objects; - is standard input').argParser(collect).makeOptionMandatory(),
    )
    .enablePositionalOptions()
    .addHelpText('after', help);
  const objects = (): readonly string[] => simulate.opts<{ filename: readonly string[] }>().filename;
  // Loaded on use: all other commands start faster without the compilers and the policy engine.
  const load = () => import('./run-simulation.ts');
  simulate
    .command('trace')
    .description('show the path of a packet over the simulated nodes, its verdict, and the policy that decides')
    .argument('<from>', 'sender')
    .argument('<to>', 'receiver')
    .argument('[port]', 'port and protocol')
    .addOption(new Option('--family <family>', 'only this address family; default: those that both ends have').choices(['ipv4', 'ipv6']))
    .option('--source-port <number>', 'port of the sender; default: 40000')
    .option('--established', 'trace a later packet of the connection instead of the first one')
    .addOption(outputOption(['table', 'wide', 'json', 'yaml']))
    .addHelpText('after', traceHelp)
    .action((from: string, to: string, port: string | undefined, flags: SimulatedTraceFlags) =>
      exitWith(load().then(({ simulatedTrace }) => simulatedTrace(objects(), { from, to, port }, flags, terminal))),
    );
  simulate
    .command('matrix')
    .description('show which connections the policies allow and deny')
    .option('--from <end>', 'only from these: NAMESPACE/POD, node:NAME, outside, outside:ADDRESS')
    .option('--to <end>', 'only to these; also service:NAMESPACE/NAME')
    .option('--port <port>', 'only this port: 5432, 53/UDP, ICMP')
    .addOption(new Option('-o, --output <form>', 'output format').choices(['table', 'json', 'csv']).default('table'))
    .addHelpText('after', matrixHelp)
    .action((flags: SimulatedMatrixFlags) => exitWith(load().then(({ simulatedMatrix }) => simulatedMatrix(objects(), flags, terminal))));
  simulate
    .command('whatif')
    .description('show which connections a change of policies, labels or Services breaks and opens')
    .addOption(new Option('-f, --filename <file>', 'file or folder with the proposal; - is standard input').argParser(collect))
    .addOption(
      new Option('--delete <object>', 'object that is removed, KIND/NAMESPACE/NAME or clusternetworkpolicy/NAME').argParser(collect),
    )
    .addOption(outputOption(['table', 'json', 'yaml']))
    .addHelpText('after', whatIfHelp)
    .action((flags: SimulatedWhatIfFlags) => exitWith(load().then(({ simulatedWhatIf }) => simulatedWhatIf(objects(), flags, terminal))));
  simulate
    .command('test')
    .description('evaluate test cases: which connections policies must allow or deny (exit 1 if a case fails)')
    .argument('<file...>', 'test files; - is standard input')
    .addOption(new Option('-o, --output <form>', 'output format').choices(['table', 'json', 'junit']).default('table'))
    .option('--coverage', 'list the rules that no case uses')
    .addHelpText('after', testHelp)
    .action((files: string[], flags: SimulatedTestFlags) =>
      exitWith(load().then(({ simulatedTest }) => simulatedTest(objects(), files, flags, terminal))),
    );
}

function collect(value: string, before: readonly string[] | undefined): readonly string[] {
  return [...(before ?? []), value];
}
