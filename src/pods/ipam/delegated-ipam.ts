import { spawn } from 'node:child_process';
import { accessSync, constants, statSync } from 'node:fs';
import { join } from 'node:path';
import { SeineError } from '../../base/errors/seine-error.ts';
import { type Ip, parseCidr, parseIp } from '../../base/net/ip.ts';
import { CniError, cniCodes } from '../../cni/errors.ts';
import { asString, member, parseObject, show } from '../../cni/json.ts';
import { type CniDns, type CniIp, type CniResult, type CniRoute, parseResult } from '../../cni/result.ts';
import type { CniCommand, CniVersion } from '../../cni/versions.ts';
import type { AttachmentKey, PodAddress, PodRoute } from './attachment.ts';

/** Parameters of every call to the plugin of `ipam.type`, taken from the agent's own call. */
export interface DelegatedNetworkCall {
  readonly ipamType: string;
  readonly cniVersion: CniVersion;
  /** Absolute paths, in search order. */
  readonly pluginFolders: readonly string[];
  /** Network configuration, unchanged. */
  readonly conf: string;
}

/** Call for one attachment. */
export interface DelegatedCall extends DelegatedNetworkCall, AttachmentKey {
  readonly netns: string;
  readonly args: string;
}

/** Result of another plugin for a pod. */
interface DelegatedAnswer {
  readonly addresses: readonly PodAddress[];
  /** Routes other than the default ones, which every pod has. */
  readonly routes: readonly PodRoute[];
  readonly dns: CniDns;
}

/** Client of another IPAM plugin. */
export interface DelegatedIpam {
  /**
   * Requests addresses. All methods throw CniError 105, or 7 if there is no such plugin; SeineError `CANCELLED`. After a failed `add` the
   * plugin may have allocated something.
   */
  add(call: DelegatedCall, signal: AbortSignal): Promise<DelegatedAnswer>;
  del(call: DelegatedCall, signal: AbortSignal): Promise<void>;
  check(call: DelegatedCall, signal: AbortSignal): Promise<void>;
  status(call: DelegatedNetworkCall, signal: AbortSignal): Promise<void>;
  /** Runs GC. The configuration contains the list of valid attachments. */
  gc(call: DelegatedNetworkCall, signal: AbortSignal): Promise<void>;
}

const outputBytesMax = 1024 * 1024;

/**
 * Runs the plugin's program like libcni (CNI SPEC 1.1.0, "Plugin Delegation"). Used only for networks that configure it: the agent's IPAM
 * starts no process.
 */
export const delegatedIpam: DelegatedIpam = {
  add: async (call, signal) => answerOf(parsePluginResult(await runFor('ADD', call, signal), call), call.ipamType),
  del: async (call, signal) => void (await runFor('DEL', call, signal)),
  check: async (call, signal) => void (await runFor('CHECK', call, signal)),
  status: async (call, signal) => void (await run('STATUS', call, {}, signal)),
  gc: async (call, signal) => void (await run('GC', call, {}, signal)),
};

async function runFor(command: 'ADD' | 'DEL' | 'CHECK', call: DelegatedCall, signal: AbortSignal): Promise<string> {
  const { containerId, netns, ifName, args } = call;
  return await run(command, call, { CNI_CONTAINERID: containerId, CNI_NETNS: netns, CNI_IFNAME: ifName, CNI_ARGS: args }, signal);
}

async function run(command: CniCommand, call: DelegatedNetworkCall, variables: NodeJS.ProcessEnv, signal: AbortSignal): Promise<string> {
  const program = findPlugin(call);
  const env = {
    CNI_COMMAND: command,
    ...variables,
    CNI_PATH: call.pluginFolders.join(':'),
    PATH: '/usr/sbin:/usr/bin:/sbin:/bin',
  };
  const { code, stdout } = await execute(program, env, call.conf, signal);
  if (signal.aborted) throw SeineError.from(signal.reason, `IPAM plugin ${call.ipamType}`);
  if (code === 0) return stdout;
  throw new CniError(cniCodes.ipamPluginFailed, `IPAM plugin ${call.ipamType}: ${messageOf(stdout)}`, `exit code ${code}`);
}

function findPlugin({ ipamType, pluginFolders }: DelegatedNetworkCall): string {
  for (const folder of pluginFolders) {
    const path = join(folder, ipamType);
    if (statSync(path, { throwIfNoEntry: false })?.isFile() !== true) continue;
    try {
      accessSync(path, constants.X_OK);
      return path;
    } catch {
      // a file that is not executable is not the plugin: continue the search
    }
  }
  throw new CniError(
    cniCodes.invalidConfig,
    `ipam.type: ${JSON.stringify(ipamType)} is in none of the folders of CNI_PATH`,
    pluginFolders.join(':'),
  );
}

function execute(program: string, env: NodeJS.ProcessEnv, stdin: string, signal: AbortSignal): Promise<{ code: number; stdout: string }> {
  return new Promise((resolve, reject) => {
    const child = spawn(program, { env, stdio: ['pipe', 'pipe', 'ignore'] });
    const chunks: Buffer[] = [];
    let length = 0;
    const kill = (): void => {
      child.kill('SIGKILL');
      child.stdout.destroy(); // a child process of the plugin may keep the other end open indefinitely
    };
    signal.addEventListener('abort', kill, { once: true });
    child.stdout.on('data', (chunk: Buffer) => {
      length += chunk.length;
      if (length > outputBytesMax) kill();
      else chunks.push(chunk);
    });
    child.stdin.on('error', () => {}); // a plugin may answer without reading its configuration
    child.on('error', (error) => reject(new CniError(cniCodes.ipamPluginFailed, `${program} cannot be started: ${error.message}`)));
    child.on('close', (code) => {
      signal.removeEventListener('abort', kill);
      resolve({ code: code ?? 128, stdout: Buffer.concat(chunks).toString('utf8') });
    });
    if (signal.aborted) kill();
    child.stdin.end(stdin);
  });
}

function messageOf(stdout: string): string {
  try {
    const error = parseObject(stdout, 'error');
    const parts = [asString(member(error, 'msg'), 'msg'), asString(member(error, 'details'), 'details')];
    return parts.filter((part) => part !== undefined && part !== '').join('; ') || 'failed';
  } catch {
    return `failed with output ${JSON.stringify(stdout.slice(0, 200))}`;
  }
}

function parsePluginResult(stdout: string, { ipamType, cniVersion }: DelegatedCall): CniResult {
  try {
    return parseResult(parseObject(stdout, 'result'), cniVersion);
  } catch (thrown) {
    throw new CniError(
      cniCodes.ipamPluginFailed,
      `IPAM plugin ${ipamType}: its result cannot be read`,
      thrown instanceof Error ? thrown.message : '',
    );
  }
}

/**
 * Converts a result.
 *
 * @throws CniError 105 for a result that cannot be used: no address, more than one of a family, no gateway, or an invalid route
 */
function answerOf(result: CniResult, ipamType: string): DelegatedAnswer {
  const refuse = (why: string) => new CniError(cniCodes.ipamPluginFailed, `IPAM plugin ${ipamType}: ${why}`);
  const addresses = result.ips.map((entry) => addressOf(entry, result, refuse));
  if (addresses.length === 0) throw refuse('it returned no address');
  if (new Set(addresses.map(({ ip }) => ip.family)).size !== addresses.length)
    throw refuse('it returned more than one address of a family');
  const routes = result.routes.filter(({ dst }) => !defaultRoutes.includes(dst)).map((route) => routeOf(route, refuse));
  return { addresses: addresses.toSorted((a, b) => a.ip.family.localeCompare(b.ip.family)), routes, dns: result.dns };
}

const defaultRoutes = ['0.0.0.0/0', '::/0'];

function routeOf({ dst, gw }: CniRoute, refuse: (why: string) => CniError): PodRoute {
  try {
    const destination = parseCidr(dst);
    const gateway = gw === undefined || gw === '' ? undefined : parseIp(gw);
    if (gateway && gateway.family !== destination.family) throw new Error('two families');
    return { destination, ...(gateway ? { gateway } : {}) };
  } catch {
    throw refuse(`route to ${show(dst)} by ${show(gw ?? '')} is none`);
  }
}

function addressOf({ address, gateway }: CniIp, { routes }: CniResult, refuse: (why: string) => CniError): PodAddress {
  const [text = '', length = ''] = address.split('/');
  const ip = orRefuse(() => parseIp(text), refuse, address);
  const prefixLength = Number(length);
  if (!/^\d{1,3}$/.test(length) || prefixLength > (ip.family === 'ipv4' ? 32 : 128)) throw refuse(`${address} has no prefix length`);
  const defaultRoute = routes.find(({ dst }) => dst === (ip.family === 'ipv4' ? '0.0.0.0/0' : '::/0'));
  const via = gateway ?? defaultRoute?.gw;
  if (via === undefined) throw refuse(`no gateway for ${address}`);
  return { ip, prefixLength, gateway: orRefuse(() => parseIp(via), refuse, via) };
}

function orRefuse(parse: () => Ip, refuse: (why: string) => CniError, text: string): Ip {
  try {
    return parse();
  } catch {
    throw refuse(`${JSON.stringify(text)} is not an address`);
  }
}
