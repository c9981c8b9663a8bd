import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { labProgram, packageRoot } from '../../lab/machine/installation.ts';
import { runtimeSocket } from '../../lab/real-kubernetes/node-files.ts';
import { callsOf } from '../support/page-calls.ts';
import { print, type RealCluster } from './cluster.ts';
import { type ShellBlock, shellBlocks } from './page-blocks.ts';
import { triedPages } from './tried-pages.ts';

/** Example objects: a namespace, and in it a pod, a Service and a policy of one name, and another pod. */
export const looked = { namespace: 'shop', name: 'db', other: 'api' };

interface Wanted {
  /** Node whose agent answers to `seinectl` as typed on a node. */
  readonly node: string;
  /** Another node. */
  readonly peer: string;
  /** Inserts the options of this installation into a call of the renderer. */
  readonly rendered: (command: string) => string;
}

/** Commands that may exit with a finding, because this cluster has something to find; by their first words. */
const mayFindSomething = [
  'ctr -n k8s.io tasks exec',
  'crictl exec',
  'seinectl check',
  'seinectl cluster',
  'seinectl status',
  'seinectl diff',
  'seinectl policy would-deny',
  'seinectl policy explain',
  'ssh',
];
const ovsTools = ['ovs-vsctl', 'ovs-ofctl', 'ovs-appctl'];
const nodeTools = ['iptables-save', 'iptables-restore', 'ip6tables-save', 'ip6tables-restore'];

/** Words of sentences that are not executed: not an object, a file, or not permitted for a test. */
const notCalled = /\b(FILE|HEX|annotate|node cleanup|wire)\b|^collect$|^compile$|^(?:cluster|explain|get|wire)$/;

/**
 * Runs commands of pages as written. Commands for a node, as root, `seinectl` and the tools of Open vSwitch, run in the pods of that node:
 * the text of the page is not changed for it, the shell finds programs of those names.
 */
export class Pages {
  readonly #cluster: RealCluster;
  readonly #wanted: Wanted;

  constructor(cluster: RealCluster, wanted: Wanted) {
    this.#cluster = cluster;
    this.#wanted = wanted;
  }

  /** Runs all blocks of a page that `triedPages` assigns to this class, each in its own shell that ends at the first failure. */
  async run(page: string): Promise<void> {
    const tried = triedPages[page] ?? {};
    const blocks = shellBlocks(readFileSync(join(packageRoot, page), 'utf8'));
    for (const block of blocks) if (tried[block.heading] === 'pages' && block.notRun === undefined) await this.#runBlock(page, block);
  }

  /** Runs each call of `seinectl` in sentences and tables of these pages and of the alerts. */
  async runNamed(): Promise<number> {
    const wanted = callsOf(/seinectl/).filter(({ where, isNamed }) => isNamed && (where.startsWith('alert ') || where in triedPages));
    const lines = [...new Set(wanted.map(({ words }) => words.join(' ')))].filter((line) => !notCalled.test(line));
    for (const line of lines) {
      const call = this.#named(line).replace('would-deny --for 5m', 'would-deny --for 2s');
      // Commands may be named without their arguments; they report that.
      await this.#type(/^[a-z-]+( [a-z-]+)*$/.test(call) ? `seinectl ${call} || test $? -eq 2` : `seinectl ${call}`);
    }
    return lines.length;
  }

  async #runBlock(page: string, { heading, text }: ShellBlock): Promise<void> {
    print(`${page}, “${heading}”`);
    const joined = text.replaceAll('\\\n', ' ');
    const lines = joined.split('\n').map((line) => this.#named(line.startsWith('npm run render') ? this.#wanted.rendered(line) : line));
    await this.#type(lines.join('\n'));
    // Applied objects exist before the next block.
    const agents = ['-l', 'app.kubernetes.io/name=seine-agent'];
    await this.#cluster.kubectl('-n', 'seine-system', 'rollout', 'status', 'daemonset', ...agents, '--timeout=300s');
  }

  /** Replaces the reader's values, which are in capitals. */
  #named(line: string): string {
    const { namespace, name, other } = looked;
    const { node, peer } = this.#wanted;
    const places: readonly (readonly [RegExp, string])[] = [
      [/exec POD\b/, 'exec "$agent_pod"'],
      [/get nodes NAME\b/, `get nodes ${peer}`],
      [/get services NAME$/, `get services ${name} -n ${namespace}`],
      [/policy (pod|show) NAME\b/, `policy $1 ${namespace}/${name}`],
      [/\bNAMESPACE\/(NAME|POD)\b/, `${namespace}/${name}`],
      [/--from POD\b/, `--from ${namespace}/${other}`],
      [/\bNAMESPACE\b/, namespace],
      [/\bNAME\b/, name],
      [/\bTHIS-NODE\b/, node],
      [/\bNODE\b/, peer],
      [/\bFROM TO\b/, `${namespace}/${other} ${namespace}/${name}`],
      [/\bPORT\b/, '5432'],
      [/\bTEXT\b/, 'tried'],
      [/\bTIME\b/, '10m'],
    ];
    return places.reduce((text, [place, value]) => text.replaceAll(new RegExp(place, 'g'), value), line);
  }

  async #type(text: string): Promise<void> {
    const output = await this.#cluster.typeAll(`${await this.#onNode()}\n${text}`, text);
    const found = [...output.matchAll(/^!! (.*): exit code 1$/gm)].map(([, call = '']) => call);
    const unexpected = found.filter((call) => !mayFindSomething.some((start) => call.startsWith(start)));
    if (unexpected.length > 0) throw new Error(`${unexpected.join('; ')}: exit code 1\n${output}`);
  }

  /** Prefix of a script that defines the programs of a node. Exit code 1 of `seinectl` is a finding: printed, and not an error. */
  async #onNode(): Promise<string> {
    const [agent, ovs] = await Promise.all(['seine-agent', 'seine-ovs'].map((app) => this.#cluster.podOf(app, this.#wanted.node)));
    const inPod = (pod: string | undefined, container: string) => `kubectl -n seine-system exec -i ${pod} -c ${container} --`;
    const laptop = `${process.execPath} ${join(packageRoot, 'bin', 'seinectl.mjs')}`;
    const onNode = join(this.#cluster.folder, 'on-node');
    mkdirSync(onNode, { recursive: true });
    const write = (tool: string, ...lines: readonly string[]) =>
      writeFileSync(join(onNode, tool), `${['#!/bin/sh', ...lines].join('\n')}\n`, { mode: 0o755 });
    for (const tool of ovsTools) write(tool, `exec ${inPod(ovs, 'ovs')} ${tool} "$@"`);
    // With the host's own path: else it would find itself there.
    const onAny = `env PATH=${process.env['PATH']} SEINE_LAB_DIR=${this.#cluster.plan.dir} ${process.execPath} ${labProgram} node exec`;
    const onTheNode = `${onAny} ${this.#wanted.node} --`;
    for (const tool of nodeTools) write(tool, `exec ${onTheNode} ${tool} "$@"`);
    write('ctr', `${onTheNode} ctr "$@"`, ...finding('ctr'));
    const crictl = process.env['SEINE_TEST_CRICTL'] ?? 'crictl';
    write('crictl', `${onTheNode} ${crictl} --runtime-endpoint unix://${runtimeSocket} "$@"`, ...finding('crictl'));
    write('ssh', 'node=$(echo "$1" | sed s/^root@//); shift', `${onAny} $node -- "$@"`, ...finding('ssh'));
    // `-C FILE root@NODE:PATH`, of a file of the checkout.
    write(
      'scp',
      'node=$(echo "$3" | sed "s/^root@//; s/:.*//"); path=$(echo "$3" | cut -d : -f 2)',
      `exec ${onAny} $node -- cp ${packageRoot}/$2 $path`,
    );
    write(
      'seinectl',
      `if [ "$1" = cluster ]; then ${laptop} "$@"; else ${inPod(agent, 'agent')} seinectl "$@"; fi`,
      ...finding('seinectl'),
    );
    return `PATH=${onNode}:$PATH; agent_pod=${agent}`;
  }
}

/** The rest of a script: exit code 1 of a check is its finding, which is printed. */
function finding(program: string): readonly string[] {
  return ['code=$?', '[ $code -eq 1 ] || exit $code', `echo "!! ${program} $*: exit code 1"`];
}
