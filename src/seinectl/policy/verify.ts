import { pause } from '../../base/async/pause.ts';
import { SeineError, withoutCode } from '../../base/errors/seine-error.ts';
import { tableName } from '../../dataplane/pipeline/tables.ts';
import { printFlow } from '../../openflow/text/flow-text.ts';
import { PolicyBytes } from '../../policy/verify/flow-reader/flow-reader.ts';
import type { HeldFlow } from '../../policy/verify/flow-reader/table-index.ts';
import { type ProofResult, prove } from '../../policy/verify/proof/prove.ts';
import type { AgentClient } from '../agent-client.ts';
import { safeLine } from '../escape.ts';
import { exitCodes } from '../exit-codes.ts';
import { type OutputForm, print } from '../output.ts';
import type { Terminal } from '../terminal.ts';
import { comparedPods, type Evidence, readEvidence } from './policy-evidence.ts';
import type { Verification, VerifiedDifference } from './verification.ts';
import { verificationLines } from './verify-lines.ts';

/** Delay before differences are compared again: recent changes need time (ms). */
const AGAIN_AFTER_MS = 2_000;
/** Time limit; a cluster of 100,000 pods is listed in less (ms). */
const PATIENCE_MS = 300_000;

interface VerifyRun {
  readonly agent: AgentClient;
  readonly terminal: Terminal;
}

interface VerifyOptions {
  /** `namespace/name`; absent: all pods of this node. */
  readonly pod?: string;
  readonly output: OutputForm;
}

/**
 * Proves here, outside the agent, that the bridge implements the policies. A difference counts only if a second comparison has it, too.
 *
 * @returns 0 if nothing is different, 1 if something is, 2 if it could not be determined
 */
export async function verify({ agent, terminal }: VerifyRun, { pod, output }: VerifyOptions): Promise<number> {
  const signal = AbortSignal.timeout(PATIENCE_MS);
  const look = async (): Promise<Verification> => verified(await readEvidence(agent, signal), pod);
  try {
    const first = await look();
    const found = isEqual(first) ? first : await again(first, look, { terminal, signal });
    if (pod !== undefined && found.pods + found.leftOut.length === 0)
      throw new SeineError('INVALID_INPUT', `this node has no pod ${JSON.stringify(pod)}; run this on its node`);
    if (output === 'json' || output === 'yaml') print(terminal, found, output);
    else for (const line of verificationLines(found)) terminal.line(safeLine(line));
    if (pod !== undefined && found.pods === 0) return exitCodes.usage;
    return isEqual(found) ? exitCodes.ok : exitCodes.different;
  } catch (thrown) {
    const error = SeineError.from(thrown, 'policy verify');
    if (error.context['errno'] !== undefined) throw error; // no agent
    terminal.remark(safeLine(`could not be verified: ${withoutCode(error.message)}`));
    return exitCodes.usage;
  }
}

async function again(
  first: Verification,
  look: () => Promise<Verification>,
  { terminal, signal }: { readonly terminal: Terminal; readonly signal: AbortSignal },
): Promise<Verification> {
  terminal.remark(`${first.differencesTotal + first.problems.length} different; looking again, for something may just be changing`);
  await pause(AGAIN_AFTER_MS, signal);
  signal.throwIfAborted();
  const second = await look();
  if (first.differencesTotal > first.differences.length || second.differencesTotal > second.differences.length) return second;
  const lasting = second.differences.filter((now) => first.differences.some((before) => isSame(before, now)));
  const problems = second.problems.filter((each) => first.problems.includes(each));
  const passing = first.differences.length + first.problems.length - lasting.length - problems.length;
  return { ...second, differences: lasting, differencesTotal: lasting.length, problems, passing: Math.max(0, passing) };
}

function isSame(a: VerifiedDifference, b: VerifiedDifference): boolean {
  const isOf = (['pod', 'direction', 'protocol', 'bridge', 'policies', 'peer'] as const).every((key) => a[key] === b[key]);
  return isOf && a.first <= b.last && b.first <= a.last;
}

function isEqual({ differencesTotal, problems, fullAssociationShares }: Verification): boolean {
  return differencesTotal + problems.length + fullAssociationShares.length === 0;
}

function verified(evidence: Evidence, only: string | undefined): Verification {
  const { node, objects, flows } = evidence;
  const { pods, leftOut } = comparedPods(evidence, only);
  const before = process.cpuUsage();
  const bytes = new PolicyBytes(flows);
  const mode = node.mode === 'audit' ? 'audit' : 'enforce';
  const { leftOutRules = [], ownAddresses, unknownPeers = 'closed', denied } = node;
  const reported = { ownAddresses: new Set(ownAddresses), leftOutRules: new Set(leftOutRules), unknownPeers, ...(denied && { denied }) };
  const result = finished(prove({ objects, nodeName: node.name, ...reported, pods, bytes, mode }));
  const { user, system } = process.cpuUsage(before);
  return {
    node: node.name,
    mode: node.mode,
    pods: pods.length,
    otherwise: node.pods.flatMap(({ name, holds, why = '' }) =>
      holds !== 'policies' && pods.some(({ pod }) => pod === name) ? [{ pod: name, holds, why }] : [],
    ),
    leftOut,
    leftOutRules,
    policies: objects.networkPolicies.length,
    flows: flows.length,
    proofSeconds: (user + system) / 1e6,
    passing: 0,
    ...result,
    differences: result.differences.map((each) => ({ ...each, flows: each.flows.map((flow) => flowView(flow, evidence)) })),
    problems: bytes.problems,
    fullAssociationShares: evidence.fullAssociationShares,
  };
}

function finished(steps: Generator<undefined, ProofResult>): ProofResult {
  for (;;) {
    const { done, value } = steps.next();
    if (done) return value;
  }
}

function flowView(flow: HeldFlow, { owners }: Evidence): VerifiedDifference['flows'][number] {
  const owner = owners.get(flow);
  const text = printFlow({ ...flow, idleTimeout: 0, hardTimeout: 0, importance: 0, flags: 0 }, { table: tableName });
  return { table: tableName(flow.table) ?? String(flow.table), ...(owner === undefined ? {} : { owner }), text };
}
