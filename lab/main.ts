import { join } from 'node:path';
import { Command, Option } from 'commander';
import { SeineError } from '../src/base/errors/seine-error.ts';
import type { Family } from '../src/base/net/ip.ts';
import { askControl } from './daemon/control.ts';
import { formatStatus } from './daemon/status.ts';
import { removeLab } from './down.ts';
import { executeInPod, executeOnNode, executeOutside } from './execute.ts';
import { packageVersion } from './machine/installation.ts';
import { commaSeparated, defaultLabDir, familiesOption, needRoot, oneOf, seconds, wholeNumber } from './options.ts';
import { labPaths, realLabDir } from './plan/names.ts';
import { type Datapath, type PodInterfaceOption, planLab, type TrafficMode, type Tunnel } from './plan/plan.ts';
import { builtIfAsked, type RealOptions } from './real-kubernetes/built-programs.ts';
import { askStatus, bringUp, planOf } from './up.ts';

const signal = new AbortController().signal;

interface DirOption {
  readonly dir: string;
}

interface UpCommandOptions extends DirOption, RealOptions {
  readonly nodes: number;
  readonly families: Family[];
  readonly subnets: number;
  readonly mode: TrafficMode;
  readonly encryption?: 'wireguard';
  readonly tunnel: Tunnel;
  readonly datapath: Datapath;
  readonly podInterface?: PodInterfaceOption;
  readonly podCidr?: string[];
  readonly serviceCidr?: string[];
  readonly kubeconfig?: string;
  readonly bare?: boolean;
  readonly agent?: string;
}

const examples = `
Examples:
  seine-lab up --nodes 2 --families ipv4           a cluster of two nodes, ready in a few seconds
  export KUBECONFIG=/run/seine-lab/kubeconfig      kubectl talks to it
  kubectl run a1 --image=responder                 a pod that answers who it is, whatever the image
  seine-lab exec default/a1 -- ip -br addr         in a pod
  seine-lab node exec node-1 -- seinectl status    on a node
  seine-lab external exec -- curl -s 192.168.77.1:30080   from outside the cluster
  seine-lab ovs node-1 kill && seine-lab ovs node-1 start
  seine-lab down

Every command takes --dir, before the command that is run. exec exits with the status of its command; all others exit with 0, or
with 1 and an error message. docs/contributing/lab.md describes the lab and its limits.`;

/** Adds the option of the lab's folder, which every command has. */
function withDir(command: Command): Command {
  return command.addOption(new Option('--dir <folder>', 'folder of the lab').default(defaultLabDir).env('SEINE_LAB_DIR'));
}

const program = new Command('seine-lab')
  .description('A Kubernetes cluster on one machine: each node is a network namespace with its own Open vSwitch and agent')
  .version(packageVersion, '--version', 'print the version of Seine')
  .helpCommand('help [command]', 'help about a command')
  .addHelpText('after', examples)
  .showHelpAfterError('(seine-lab --help for usage)')
  .enablePositionalOptions();

withDir(program.command('up').description('create a lab and wait until its nodes are Ready'))
  .option('--nodes <count>', 'how many nodes', wholeNumber, 3)
  .addOption(familiesOption('ipv4, ipv6 or both; the first is the primary family of every pod'))
  .option('--subnets <count>', '1 or 2: with 2, every second node is in another network, behind a router', wholeNumber, 1)
  .addOption(new Option('--mode <mode>', 'how nodes send to each other’s pods').choices(['encap', 'noEncap', 'hybrid']).default('encap'))
  .addOption(
    new Option('--encryption <kind>', 'encryption between nodes; without the kernel module by wireguard-go').choices(['wireguard']),
  )
  .addOption(new Option('--tunnel <type>', 'tunnel protocol between nodes').choices(['geneve', 'vxlan', 'gre']).default('geneve'))
  .addOption(
    new Option('--datapath <type>', 'datapath of Open vSwitch; "system" needs its kernel module')
      .choices(['netdev', 'system'])
      .default('netdev'),
  )
  .addOption(new Option('--pod-interface <kind>', 'what pods get, as the key of the agent').choices(['auto', 'standing', 'veth']))
  .option('--pod-cidr <list>', 'networks of the pods, one a family; each node gets a /22 and a /64 of them', commaSeparated)
  .option('--service-cidr <list>', 'networks of the Services, one a family', commaSeparated)
  .option('--kubeconfig <file>', "use the API server that this file names instead of the lab's own")
  .addOption(
    new Option(
      '--kubernetes [version]',
      'a real Kubernetes: its control plane, containerd and kubelets; built once, which takes minutes',
    ).conflicts('kubeconfig'),
  )
  .addOption(
    new Option(
      '--control-plane <version>',
      'a real API server of that version, with controllers and scheduler, and the lab’s own kubelets; built once',
    ).conflicts(['kubeconfig', 'kubernetes']),
  )
  .option('--bare', 'with --kubernetes: nodes without Open vSwitch, agent and plugin, which stay NotReady until a network is installed')
  .addOption(new Option('--agent <file>', 'what node runs as the agent').hideHelp())
  .action(async ({ dir, podCidr, serviceCidr, agent, ...options }: UpCommandOptions) => {
    needRoot();
    const real = await builtIfAsked(options);
    const agentPods = real.kubernetes === undefined && real.controlPlane === undefined && options.kubeconfig === undefined;
    const plan = planLab({ ...options, ...real, agentPods, dir: realLabDir(dir), podCidrs: podCidr, serviceCidrs: serviceCidr });
    const tookMs = await bringUp({ plan, agent, onStep: (text, atMs) => print(`${seconds(atMs)}  ${text}`) }, signal);
    print(`${seconds(tookMs)}  ready: export KUBECONFIG=${labPaths(plan.dir).kubeconfig}`);
    if (agentPods)
      print(`          the page: ${join(labPaths(plan.dir).bin, 'seinectl')} ui --kubeconfig ${labPaths(plan.dir).kubeconfig}`);
  });

withDir(program.command('status').description('show nodes, pods and processes'))
  .option('--json', 'as JSON, for programs')
  .action(async ({ dir, json }: DirOption & { json?: boolean }) => {
    const status = await askStatus(realLabDir(dir));
    process.stdout.write(json ? `${JSON.stringify(status)}\n` : formatStatus(status));
  });

withDir(program.command('exec').description('run a command in the network namespace of a pod'))
  .argument('<pod>', 'NAMESPACE/POD')
  .argument('<command...>', 'with its arguments')
  .passThroughOptions()
  .action(async (pod: string, command: string[], { dir }: DirOption) => {
    process.exitCode = await executeInPod(planOf(realLabDir(dir)), pod, withoutDashes(command));
  });

const node = program.command('node').description('run commands on a node').enablePositionalOptions();
withDir(node.command('exec').description('run a command on a node'))
  .argument('<node>', 'such as node-1; status lists them')
  .argument('<command...>', 'with its arguments')
  .passThroughOptions()
  .action(async (name: string, command: string[], { dir }: DirOption) => {
    process.exitCode = await executeOnNode(planOf(realLabDir(dir)), name, withoutDashes(command));
  });

const external = program.command('external').alias('world').description('run commands outside the cluster').enablePositionalOptions();
withDir(
  external
    .command('exec')
    .description('run a command in a network namespace outside the cluster, as a client of node ports and load balancers'),
)
  .argument('<command...>', 'with its arguments')
  .passThroughOptions()
  .action(async (command: string[], { dir }: DirOption) => {
    process.exitCode = await executeOutside(planOf(realLabDir(dir)), withoutDashes(command));
  });

withDir(program.command('apiserver').description('stop or start the API server of the lab'))
  .argument(
    '<verb>',
    'stop or start; start-empty: start with an empty watch cache of nodes and Services, which only quorum reads see',
    oneOf('stop', 'start', 'start-empty'),
  )
  .action(async (verb: string, { dir }: DirOption) => tell(dir, `/apiserver/${verb}`));

withDir(program.command('agent').description('stop, kill or start the agent of a node'))
  .argument('<node>', 'such as node-1; status lists them')
  .argument('<verb>', 'stop, kill or start', oneOf('stop', 'kill', 'start'))
  .action(async (name: string, verb: string, { dir }: DirOption) => tell(dir, `/agents/${encodeURIComponent(name)}/${verb}`));

withDir(program.command('ovs').description('kill or start Open vSwitch on a node'))
  .argument('<node>', 'such as node-1; status lists them')
  .argument('<verb>', 'kill or start', oneOf('kill', 'start'))
  .addOption(new Option('--only <daemon>', 'kill this one only').choices(['ovs-vswitchd', 'ovsdb-server']))
  .action(async (name: string, verb: string, { dir, only = 'all' }: DirOption & { only?: string }) =>
    tell(dir, `/ovs/${encodeURIComponent(name)}/${verb === 'kill' ? `kill/${only}` : 'start'}`),
  );

for (const name of ['kubelet', 'containerd'])
  withDir(program.command(name).description(`stop, kill or start the ${name} of a node; in a lab with a real Kubernetes`))
    .argument('<node>', 'such as node-1; status lists them')
    .argument('<verb>', 'stop, kill or start', oneOf('stop', 'kill', 'start'))
    .action(async (node: string, verb: string, { dir }: DirOption) => tell(dir, `/programs/${name}/${encodeURIComponent(node)}/${verb}`));

withDir(program.command('check').description("run the plugins' CHECK for a pod"))
  .argument('<pod>', 'NAMESPACE/POD')
  .action(async (pod: string, { dir }: DirOption) => tell(dir, `/pods/${pod.split('/').map(encodeURIComponent).join('/')}/check`));

withDir(program.command('down').description('remove the lab and everything it created; does nothing if there is none')).action(
  async ({ dir }: DirOption) => {
    needRoot();
    const { processes, namespaces } = await removeLab(realLabDir(dir), signal);
    print(`removed ${processes} processes and ${namespaces} network namespaces`);
  },
);

withDir(program.command('daemon', { hidden: true }))
  .addOption(new Option('--agent <file>').hideHelp())
  .action(async ({ dir, agent }: DirOption & { agent?: string }) => {
    const { runDaemon } = await import('./daemon/daemon.ts');
    await runDaemon(planOf(realLabDir(dir)), agent);
  });

async function tell(dir: string, path: string): Promise<void> {
  const { control } = labPaths(planOf(realLabDir(dir)).dir);
  await askControl(control, 'POST', path);
}

function print(text: string): void {
  process.stderr.write(`${text}\n`);
}

function withoutDashes(command: readonly string[]): readonly string[] {
  return command[0] === '--' ? command.slice(1) : command;
}

try {
  await program.parseAsync();
} catch (error) {
  print(`seine-lab: ${SeineError.from(error, 'seine-lab').rawMessage}`);
  if (!(error instanceof SeineError)) print(String(error instanceof Error ? error.stack : error));
  process.exitCode = 1;
}
