import { type Command, Option } from 'commander';
import { SeineError } from '../../base/errors/seine-error.ts';
import { outputOption } from '../output.ts';
import type { Terminal } from '../terminal.ts';
import type { SimulatedMatrixFlags, SimulatedTestFlags, SimulatedTraceFlags, SimulatedWhatIfFlags } from './run-simulation.ts';
import type { SimulationFiles } from './simulated-source.ts';

interface SimulateContext {
  readonly terminal: Terminal;
  /** Takes the exit code. */
  readonly exitWith: (work: Promise<number>) => Promise<void>;
}

const help = `
The objects: manifests, or the output of kubectl get -o yaml or -o json, in files or folders. What they lack is added as a cluster would add it, in the
order of names: nodes, pod networks, addresses, EndpointSlices; workloads become up to two pods. No cluster is contacted.

With --bundle they are those that \`seinectl collect\` kept, unchanged. A node of which there is a bundle has the flows that it had, byte for byte;
others are compiled from the objects, with the settings of the first bundle's node. Bundles of Seine before 0.29 have no Services.

Examples:
  seinectl simulate -f manifests/ trace shop/web-0 service:shop/db 5432
  seinectl simulate -f manifests/ matrix --to shop/db
  seinectl simulate -f manifests/ whatif -f new-policy.yaml
  seinectl simulate -f manifests/ test policy-tests.yaml
  seinectl simulate --bundle node-1.tar.gz --bundle node-2.tar.gz trace shop/web-0 service:shop/db 5432`;

const traceHelp = `
Arguments, options and output are those of \`seinectl trace\`. The flows are those that the agents of the simulated nodes would install; "meaning" is
the verdict of the objects. Both agree unless Seine has a bug.

Exit codes: 0 allowed, 1 denied, 2 invalid input, 3 incomplete, 4 the verdicts differ.`;

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
      new Option('-f, --filename <file>', 'file or folder with the objects; - is standard input').argParser(collect).conflicts('bundle'),
    )
    .addOption(new Option('--bundle <file>', 'support bundle of a node, instead of -f; once for each node').argParser(collect))
    .enablePositionalOptions()
    .addHelpText('after', help);
  const objects = (): SimulationFiles => filesOf(simulate.opts());
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

/** @throws SeineError `INVALID_INPUT` if no file is named */
function filesOf({ filename, bundle }: { readonly filename?: readonly string[]; readonly bundle?: readonly string[] }): SimulationFiles {
  if (bundle) return { bundles: bundle };
  if (filename) return { manifests: filename };
  throw new SeineError('INVALID_INPUT', 'the objects are missing: use -f FILE or --bundle FILE after `simulate`');
}

function collect(value: string, before: readonly string[] | undefined): readonly string[] {
  return [...(before ?? []), value];
}
