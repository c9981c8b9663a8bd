import type { Environment } from './environment.ts';
import { environmentVariables } from './environment.ts';
import { CniError, cniCodes } from './errors.ts';
import { asObject, asString, member, parseObject } from './json.ts';

/*
 * Plugin ↔ agent, over a unix stream socket. One request and one answer for a connection:
 *
 *   0                   4
 *   | length, big-endian | that many bytes of JSON, UTF-8 |
 *
 * The request carries the variables and the configuration of CNI unchanged, so that the plugin need not know which parts the
 * agent reads. The answer carries the output. A plugin of release N works with an agent of N-1, N and N+1: within one
 * `v`, members are only ever added, and a reader ignores unknown ones. A new `v` is introduced only for a change that
 * cannot be expressed that way; then plugin and agent support the old one for one more release. For any `v` of a request, the
 * answer has the members below.
 *
 * If the plugin's end closes before the answer, the call was cancelled: the agent undoes everything.
 */

const wireVersion = 1;

/** Maximum size of a request: stdin of at most 1 MiB, as JSON in JSON (at worst six bytes for one), and the variables. */
export const requestBytesMax = 8 * 1024 * 1024;
export const replyBytesMax = 4 * 1024 * 1024;
export const stdinBytesMax = 1024 * 1024;

export interface WireRequest {
  readonly env: Environment;
  readonly conf: string;
  /** Maximum time that the plugin will wait for the answer (ms). */
  readonly deadlineMs: number;
  /** 1 for the first attempt; more after a connection was lost before the answer: the ADD may already be done. */
  readonly attempt: number;
}

export interface WireReply {
  /** Exit code of the plugin. */
  readonly exit: number;
  readonly stdout: string;
  /** Set if the plugin, which has the host's rights and mounts, should create the namespace of pre-plugged ports (docs/adr/0058). */
  readonly pinPorts?: boolean;
}

export function encodeRequest({ env, conf, deadlineMs, attempt }: WireRequest): string {
  return JSON.stringify({ v: wireVersion, env, conf, deadlineMs, attempt });
}

/** @throws CniError 106 if this is not a valid request */
export function decodeRequest(text: string): WireRequest {
  return orProtocolError(() => {
    const request = parseObject(text, 'request');
    needVersion(member(request, 'v'));
    const variables = asObject(member(request, 'env'), 'env') ?? {};
    const env: { -readonly [K in keyof Environment]: string } = {};
    for (const name of environmentVariables) {
      const value = asString(member(variables, name), `env.${name}`);
      if (value !== undefined) env[name] = value;
    }
    const conf = asString(member(request, 'conf'), 'conf') ?? '';
    return {
      env,
      conf,
      deadlineMs: positive(member(request, 'deadlineMs'), 'deadlineMs'),
      attempt: positive(member(request, 'attempt'), 'attempt'),
    };
  });
}

export function encodeReply({ exit, stdout, pinPorts }: WireReply): string {
  return JSON.stringify({ v: wireVersion, exit, stdout, ...(pinPorts === true ? { pinPorts } : {}) });
}

/** @throws CniError 106 if this is not a valid answer */
export function decodeReply(text: string): WireReply {
  return orProtocolError(() => {
    const reply = parseObject(text, 'answer of the agent');
    const exit = member(reply, 'exit');
    const stdout = member(reply, 'stdout');
    if (typeof exit !== 'number' || !Number.isInteger(exit) || exit < 0 || exit > 255 || typeof stdout !== 'string')
      throw new CniError(cniCodes.agentProtocol, 'answer of the agent: no exit code and text');
    return { exit, stdout, ...(member(reply, 'pinPorts') === true ? { pinPorts: true } : {}) };
  });
}

function needVersion(value: unknown): void {
  if (value !== wireVersion)
    throw new CniError(cniCodes.agentProtocol, `request: version ${String(value)} is not supported`, `this agent supports ${wireVersion}`);
}

function positive(value: unknown, path: string): number {
  if (typeof value === 'number' && value > 0 && value <= 3_600_000) return Math.ceil(value);
  throw new CniError(cniCodes.agentProtocol, `request: ${path} is not a positive number`);
}

function orProtocolError<T>(decode: () => T): T {
  try {
    return decode();
  } catch (thrown) {
    if (thrown instanceof CniError && thrown.code !== cniCodes.agentProtocol)
      throw new CniError(cniCodes.agentProtocol, thrown.message, thrown.details);
    throw thrown;
  }
}
