import { type Command, InvalidArgumentError, Option } from 'commander';
import type { AgentFacts, CheckEvent, CheckName, Finding } from '../../api/check.ts';
import { SeineError } from '../../base/errors/seine-error.ts';
import type { AgentClient } from '../agent-client.ts';
import { safeLine, safeText } from '../escape.ts';
import { exitCodes } from '../exit-codes.ts';
import type { Terminal } from '../terminal.ts';
import { secondsOf } from '../words.ts';
import { findingLines, summary } from './check-page.ts';
import { type CniFolders, gatherCni } from './cni-facts.ts';
import { assessCni } from './cni-findings.ts';
import { messageOf } from './failures.ts';
import { checkWithoutAgent } from './without-agent.ts';

/** Difference between our time limit and the agent's, so that its report about unfinished checks still arrives (ms). */
const MARGIN_MS = 1_500;

interface CheckOptions extends CniFolders {
  readonly json?: boolean;
  /** Seconds, for all checks. */
  readonly timeout: number;
  readonly peer?: string;
  readonly peers?: string;
  /** Folder of Open vSwitch's sockets; read without an agent only. */
  readonly ovsRunDir: string;
}

interface CheckCommandContext {
  readonly agent: AgentClient;
  readonly terminal: Terminal;
}

/** Adds `seinectl check`. @param run called with the exit code */
export function addCheck(root: Command, run: (options: CheckOptions) => Promise<void>): void {
  root
    .command('check')
    .description(
      'test this node: kernel, Open vSwitch, tunnels to other nodes with real packets, firewall rules, clock, CNI files (exit 1 for any problem)',
    )
    .option('--json', 'print {"node", "findings": […]} at the end')
    .option('--timeout <time>', 'time limit; unfinished checks are reported as unknown, e.g. 90s or 2m', wholeSeconds, 30)
    .option('--peer <node>', 'try the tunnel to this node only')
    .option('--peers <number>', 'try this many other nodes, chosen at random; all: every one (default: 16)', peerCount)
    .addOption(new Option('--conf-dir <path>', 'CNI configurations').env('SEINE_CNI_CONF_DIR').default('/etc/cni/net.d'))
    .addOption(new Option('--bin-dir <path>', 'CNI plugins').env('SEINE_CNI_BIN_DIR').default('/opt/cni/bin'))
    .addOption(new Option('--ovs-run-dir <path>', 'sockets of Open vSwitch').env('OVS_RUNDIR').default('/run/openvswitch'))
    .action((options: Omit<CheckOptions, keyof CniFolders> & { readonly confDir: string; readonly binDir: string }) => run(options));
}

function wholeSeconds(text: string): number {
  const found = secondsOf(text);
  if (found === undefined || found < 2 || found > 600) throw new InvalidArgumentError('must be a time from 2s to 10m, e.g. 30s.');
  return found;
}

function peerCount(text: string): string {
  if (text === 'all') return '100000';
  if (!/^\d{1,5}$/.test(text)) throw new InvalidArgumentError('must be a whole number or "all".');
  return text;
}

/** @returns 0 if nothing is wrong, 1 if something is or is not known, 3 if no agent answers (checks that need no agent are done) */
export async function check({ agent, terminal }: CheckCommandContext, options: CheckOptions): Promise<number> {
  const findings: Finding[] = [];
  const tell = (finding: Finding): void => {
    findings.push(finding);
    if (!options.json) for (const line of findingLines(finding, terminal.room)) terminal.line(line);
  };
  const signal = AbortSignal.timeout(options.timeout * 1_000);
  const asked = await askAgent(agent, options, { tell, progress: (says) => terminal.remark(safeLine(`… ${says}`)) }, signal);
  if (asked.kind === 'silent') for (const finding of await checkWithoutAgent(agent.socketPath, asked.why, options.ovsRunDir)) tell(finding);
  for (const finding of await checkCni(options, asked.kind === 'answered' ? asked.facts : undefined)) tell(finding);
  const node = asked.kind === 'answered' ? asked.node : null;
  if (options.json) terminal.line(safeText(JSON.stringify({ node, findings: findings }, undefined, 2)));
  else terminal.remark(summary(findings));
  if (asked.kind === 'silent') return exitCodes.unreachable;
  return findings.some(({ state }) => state === 'problem' || state === 'unknown') ? exitCodes.different : exitCodes.ok;
}

type AgentCheckResult =
  | { readonly kind: 'answered'; readonly node: string; readonly facts: AgentFacts }
  | { readonly kind: 'silent'; readonly why: string };

interface FindingSink {
  tell(finding: Finding): void;
  progress(says: string): void;
}

async function askAgent(
  agent: AgentClient,
  options: CheckOptions,
  { tell, progress }: FindingSink,
  signal: AbortSignal,
): Promise<AgentCheckResult> {
  let plan: Extract<CheckEvent, { kind: 'plan' }> | undefined;
  const reported = new Set<string>();
  try {
    for await (const line of agent.lines(pathOf(options), 'POST', signal)) {
      const event = JSON.parse(line) as CheckEvent;
      if (event.kind === 'plan') plan = event;
      if (event.kind === 'progress') progress(event.says);
      if (event.kind === 'finding') {
        const { finding } = event;
        reported.add(finding.check).add(event.finding.check);
        tell(finding);
      }
    }
  } catch (thrown) {
    const error = SeineError.from(thrown, 'query the agent');
    if (!plan && (error.code === 'UNAVAILABLE' || error.code === 'CANCELLED')) return { kind: 'silent', why: messageOf(error) };
    if (!plan || (error.code !== 'UNAVAILABLE' && error.code !== 'CANCELLED')) throw error;
    for (const finding of untold(plan.checks, reported, messageOf(error))) tell(finding);
  }
  if (!plan) return { kind: 'silent', why: 'the answer breaks off' };
  return { kind: 'answered', node: plan.node, facts: plan.facts };
}

function pathOf({ timeout, peer, peers }: CheckOptions): string {
  const seconds = Math.max(1, Math.floor(timeout - MARGIN_MS / 1_000));
  const query = new URLSearchParams({
    seconds: String(seconds),
    ...(peer === undefined ? {} : { peer }),
    ...(peers === undefined ? {} : { peers }),
  });
  return `/v1/check?${query}`;
}

/** Returns the checks that were not reported before the answer broke off. */
function untold(planned: readonly CheckName[], reported: ReadonlySet<string>, why: string): readonly Finding[] {
  return planned
    .filter((name) => ![...reported].some((each) => each === name || each.startsWith(`${name}.`)))
    .map((check) => ({
      check,
      state: 'unknown',
      what: `not known: ${why}`,
      effect: 'whether this is in order is not known',
      remedy: 'seinectl check --timeout 2m',
    }));
}

/** Checks the node's own files; they exist whether the agent answers or not. */
async function checkCni(options: CheckOptions, agent: AgentFacts | undefined): Promise<readonly Finding[]> {
  try {
    return assessCni(await gatherCni(options, agent, AbortSignal.timeout(options.timeout * 1_000)));
  } catch (thrown) {
    return [
      {
        check: 'cni',
        state: 'unknown',
        what: `not known: ${messageOf(thrown)}`,
        effect: 'whether a runtime finds the plugin is not known',
        remedy: 'seinectl check --conf-dir /etc/cni/net.d --bin-dir /opt/cni/bin    # as root, on the node itself',
      },
    ];
  }
}
