import { deletionFileName, deletionFilesMax, deletionsFolder } from '../cni/deletions.ts';
import { type Environment, environmentVariables, parseCommand } from '../cni/environment.ts';
import { CniError, cniCodes, formatError } from '../cni/errors.ts';
import { asString, member, parseObject } from '../cni/json.ts';
import { type CniRequest, parseCniRequest } from '../cni/request.ts';
import { bootIdPath, isServedBoot, journalFileName, journalHeadBytes } from '../cni/served-boot.ts';
import { cniVersions, formatVersions, newestVersion } from '../cni/versions.ts';
import { decodeReply, encodeRequest, replyBytesMax, stdinBytesMax, type WireReply } from '../cni/wire.ts';
import type { AgentCallOutcome, Host } from './host.ts';

type AgentRequest = Exclude<CniRequest, { command: 'VERSION' }>;

/**
 * Maximum time that STATUS waits for an agent that does not answer, restarts or starts (ms). A runtime whose STATUS fails makes its node
 * NotReady, and Kubernetes' controllers remove all pods of such a node from its Services at once: replacing the agent, or a second without
 * CPU on a busy node, must not cause that. kubelet itself waits for a runtime for 30 s (`maxWaitForContainerRuntime`).
 *
 * Only after an agent has served the node since it booted: kubelet starts no pod and registers no node while it waits for its first
 * answers, and the agent is such a pod, and waits for that node.
 */
const statusDeadlineMs = 10_000;
const pauseMsMin = 10;
const pauseMsMax = 200;

/**
 * Runs the plugin once: answers VERSION, and sends everything else to the agent. Prints the result or the error on stdout, as libcni
 * expects, and never throws.
 *
 * @returns the exit code
 */
export async function runPlugin(host: Host): Promise<number> {
  // Read before anything else, for VERSION too: a runtime whose configuration is not read gets EPIPE, and some fail on that.
  const input = host.readStdin(stdinBytesMax);
  const stdin = 'text' in input ? input.text : '';
  try {
    const env = readEnvironment(host);
    if (parseCommand(env) === 'VERSION') {
      host.writeStdout(formatVersions());
      return 0;
    }
    if ('failed' in input)
      throw new CniError(cniCodes.ioFailure, `standard input: ${input.failed}`, `at most ${stdinBytesMax} bytes are read`);
    return await callAgent(host, env, stdin);
  } catch (thrown) {
    host.writeStdout(formatError(toCniError(thrown), printableVersion(stdin)));
    return 1;
  }
}

function readEnvironment(host: Host): Environment {
  const env: { -readonly [K in keyof Environment]: string } = {};
  for (const name of environmentVariables) {
    const value = host.getenv(name);
    if (value !== undefined) env[name] = value;
  }
  return env;
}

/** One call of the runtime. */
interface PluginCall {
  readonly host: Host;
  readonly request: AgentRequest;
  readonly env: Environment;
  /** Standard input, unchanged. */
  readonly conf: string;
}

async function callAgent(host: Host, env: Environment, conf: string): Promise<number> {
  const started = host.monotonicMs();
  const request = parseCniRequest(env, conf);
  if (request.command === 'VERSION') throw new CniError(cniCodes.internal, 'VERSION reached the agent call');
  const { settings } = request;
  const call: PluginCall = { host, request, env, conf };
  const deadline = started + (request.command === 'STATUS' ? Math.min(statusDeadlineMs, settings.deadlineMs) : settings.deadlineMs);
  let attempt = 1;
  let pauseMs = pauseMsMin;
  for (;;) {
    const remainingMs = Math.max(1, deadline - host.monotonicMs());
    const frame = encodeRequest({ env, conf, deadlineMs: agentDeadline(remainingMs), attempt });
    const outcome = await host.call(settings.agentSocket, frame, remainingMs, replyBytesMax);
    if (outcome.kind === 'answered') return finish(call, decodeReply(outcome.reply));
    const leftMs = deadline - host.monotonicMs();
    if (request.command === 'STATUS' && outcome.kind === 'unreachable' && !wasServed(call)) return giveUp(call, outcome);
    if (!outcome.retry || leftMs <= pauseMs) return giveUp(call, outcome);
    if (outcome.kind === 'lost') attempt++;
    await host.sleep(pauseMs);
    pauseMs = Math.min(pauseMsMax, pauseMs * 2);
  }
}

function wasServed({ host, request }: PluginCall): boolean {
  const journal = `${request.settings.stateDir}/${journalFileName}`;
  return isServedBoot(host.readHead(journal, journalHeadBytes), host.readHead(bootIdPath, journalHeadBytes));
}

/** Deadline of the agent: slightly shorter than the plugin's, so that the agent's own message about a deadline still arrives. */
function agentDeadline(remainingMs: number): number {
  return Math.max(1, Math.floor(Math.max(remainingMs / 2, remainingMs - 250)));
}

function finish(call: PluginCall, { exit, stdout, pinPorts }: WireReply): number {
  if (call.request.command === 'DEL' && exit !== 0 && isTryAgainLater(stdout)) return recordDeletion(call, 'the agent is not ready');
  if (stdout !== '') call.host.writeStdout(stdout);
  if (pinPorts === true) pinNamespaceOfPorts(call);
  return exit;
}

/**
 * Runs after the answer, which does not depend on it. The path is that of `portsPathNextTo` in src/netlink; the plugin computes it itself,
 * so an agent cannot make it mount anything else.
 */
function pinNamespaceOfPorts({ host, request }: PluginCall): void {
  const { agentSocket } = request.settings;
  const folder = `${agentSocket.slice(0, agentSocket.lastIndexOf('/'))}/netns`;
  const failed = host.pinNamespace(folder, 'ports');
  if (failed !== undefined) host.writeStderr(`seine: no namespace for pre-plugged ports at ${folder}/ports: ${failed}\n`);
}

function isTryAgainLater(stdout: string): boolean {
  return member(parseObject(stdout, 'answer of the agent'), 'code') === cniCodes.tryAgainLater;
}

function giveUp(call: PluginCall, outcome: Exclude<AgentCallOutcome, { kind: 'answered' }>): number {
  const { request } = call;
  const reason = `no answer from the agent on ${request.settings.agentSocket}: ${outcome.reason}`;
  if (request.command === 'DEL') return recordDeletion(call, reason);
  throw new CniError(request.command === 'STATUS' ? cniCodes.notAvailable : cniCodes.tryAgainLater, reason);
}

/** Records a DEL for later, see deletions.ts. @throws CniError 11 if that fails too */
function recordDeletion({ host, request, env, conf }: PluginCall, reason: string): number {
  if (request.command !== 'DEL') throw new CniError(cniCodes.internal, `${request.command} is not a deletion`);
  const folder = `${request.settings.stateDir}/${deletionsFolder}`;
  const text = encodeRequest({ env, conf, deadlineMs: request.settings.deadlineMs, attempt: 1 });
  const failed = host.saveFile(folder, deletionFileName(request.attachment), text, deletionFilesMax);
  if (failed !== undefined) throw new CniError(cniCodes.tryAgainLater, reason, `not recorded in ${folder} either: ${failed}`);
  host.writeStderr(`seine: DEL recorded in ${folder}, to be done later: ${reason}\n`);
  return 0;
}

function toCniError(thrown: unknown): CniError {
  if (thrown instanceof CniError) return thrown;
  return new CniError(
    cniCodes.internal,
    'the plugin failed',
    thrown instanceof Error ? `${thrown.name}: ${thrown.message}` : String(thrown),
  );
}

/** Returns the version for a printed error: the caller's if it is supported, even if the configuration is otherwise invalid. */
function printableVersion(stdin: string): string {
  try {
    const asked = asString(member(parseObject(stdin, 'network configuration'), 'cniVersion'), 'cniVersion');
    return cniVersions.find((known) => known === asked) ?? newestVersion;
  } catch {
    return newestVersion; // undecodable, which the printed error reports
  }
}
