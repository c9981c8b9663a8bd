import { createHash } from 'node:crypto';
import { accessSync, constants, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';
import { SeineError } from '../../src/base/errors/seine-error.ts';
import { readIfThere, removeFile, writeFileWhole } from '../machine/files.ts';
import { inNetns } from '../machine/netns.ts';
import { runAnyway } from '../machine/process.ts';
import type { NetnsRef } from '../plan/names.ts';
import { isAtLeast, type PluginChain, type PluginConf } from './cni-conf.ts';

/** One interface of one container on one network. */
export interface RuntimeAttachment {
  readonly containerId: string;
  /** Path of the container's namespace; empty when it is deleted. */
  readonly netns: string;
  readonly ifName: string;
  /** `CNI_ARGS`, in order. */
  readonly args: readonly (readonly [string, string])[];
  /** `runtimeConfig` by capability, e.g. `portMappings`. */
  readonly capabilities: Readonly<Record<string, unknown>>;
}

const result = z.looseObject({
  cniVersion: z.string().optional(),
  ips: z.array(z.looseObject({ address: z.string(), interface: z.number().optional() })).optional(),
});
export type PluginResult = z.infer<typeof result>;

const cniError = z.looseObject({ code: z.number(), msg: z.string(), details: z.string().optional() });

const cached = z.object({
  containerId: z.string(),
  ifName: z.string(),
  network: z.string(),
  args: z.array(z.tuple([z.string(), z.string()])),
  capabilities: z.record(z.string(), z.unknown()),
  result,
});
type Cached = z.infer<typeof cached>;

type Command = 'ADD' | 'DEL' | 'CHECK' | 'GC' | 'STATUS' | 'VERSION';

interface CniRuntimeOptions {
  /** The namespace plugins run in: the node's. */
  readonly nodeNetns: NetnsRef;
  /** Folders with plugins, in order of search. */
  readonly binFolders: readonly string[];
  /** Folder in which results of ADD are kept until DEL, as the specification requires. */
  readonly cacheFolder: string;
}

/**
 * Executes plugins as `libcni` does: each with its own configuration, the network's name and version, the previous result, and the
 * capabilities it declared; DEL in reverse order, with the result of ADD.
 *
 * Source: CNI specification 1.1.0, sections 2 and 3.
 */
export class CniRuntime {
  readonly #options: CniRuntimeOptions;

  constructor(options: CniRuntimeOptions) {
    this.#options = options;
  }

  /** @throws SeineError `REFUSED` with the plugin's own code and message; `del` undoes the finished steps */
  async add(network: PluginChain, attachment: RuntimeAttachment, signal: AbortSignal): Promise<PluginResult> {
    let answer: PluginResult = {};
    for (const [index, plugin] of network.plugins.entries()) {
      const before = index === 0 ? {} : { prevResult: answer };
      answer = parseResult(plugin, await this.#execute('ADD', network, plugin, attachment, before, signal));
    }
    writeFileWhole(this.#cacheFile(network, attachment), JSON.stringify(toCached(network, attachment, answer)));
    return answer;
  }

  /** Does nothing if the version has no CHECK or the configuration disables it. @throws SeineError `REFUSED` if something differs */
  async check(network: PluginChain, attachment: RuntimeAttachment, signal: AbortSignal): Promise<void> {
    if (!network.checks || !isAtLeast(network.version, '0.4.0')) return;
    const known = this.#cachedResult(network, attachment);
    if (known === undefined) throw new SeineError('REFUSED', `CHECK: no ADD of ${attachment.containerId} is known`);
    for (const plugin of network.plugins) await this.#execute('CHECK', network, plugin, known, { prevResult: known.result }, signal);
  }

  /** Succeeds if nothing was ever added. @throws SeineError `REFUSED`; the caller retries */
  async del(network: PluginChain, attachment: RuntimeAttachment, signal: AbortSignal): Promise<void> {
    const known = this.#cachedResult(network, attachment);
    const before = known !== undefined && isAtLeast(network.version, '0.4.0') ? { prevResult: known.result } : {};
    const asAdded = known === undefined ? attachment : { ...known, netns: attachment.netns };
    for (const plugin of network.plugins.toReversed()) await this.#execute('DEL', network, plugin, asAdded, before, signal);
    removeFile(this.#cacheFile(network, attachment));
  }

  /** Removes what belongs to none of the remaining attachments. */
  async gc(network: PluginChain, valid: readonly Pick<RuntimeAttachment, 'containerId' | 'ifName'>[], signal: AbortSignal): Promise<void> {
    if (!network.collectsGarbage) return;
    const isValid = ({ containerId, ifName }: Cached) => valid.some((kept) => kept.containerId === containerId && kept.ifName === ifName);
    for (const stale of this.#cachedOf(network.name).filter((entry) => !isValid(entry)))
      await this.del(network, { ...stale, netns: '' }, signal);
    if (!isAtLeast(network.version, '1.1.0')) return;
    const attachments = valid.map(({ containerId, ifName }) => ({ containerID: containerId, ifname: ifName }));
    for (const plugin of network.plugins)
      await this.#execute('GC', network, plugin, undefined, { 'cni.dev/valid-attachments': attachments }, signal);
  }

  /** Checks that the network can take pods. Always true before 1.1.0. @throws SeineError `REFUSED` if not */
  async status(network: PluginChain, signal: AbortSignal): Promise<void> {
    if (!isAtLeast(network.version, '1.1.0')) return;
    for (const plugin of network.plugins) await this.#execute('STATUS', network, plugin, undefined, {}, signal);
  }

  /** The versions that a plugin reports. */
  async versions(type: string, signal: AbortSignal): Promise<readonly string[]> {
    const network = { name: 'versions', version: '1.0.0', checks: false, collectsGarbage: false, plugins: [] };
    const answer = z.looseObject({ supportedVersions: z.array(z.string()) });
    return answer.parse(JSON.parse(await this.#execute('VERSION', network, { type }, undefined, {}, signal))).supportedVersions;
  }

  async #execute(
    command: Command,
    network: PluginChain,
    plugin: PluginConf,
    attachment: RuntimeAttachment | undefined,
    extra: Readonly<Record<string, unknown>>,
    signal: AbortSignal,
  ): Promise<string> {
    const { nodeNetns, binFolders } = this.#options;
    const inside = inNetns(nodeNetns, findPlugin(plugin.type, binFolders), []);
    const input = JSON.stringify(stdinOf(network, plugin, attachment, extra));
    const env = { CNI_COMMAND: command, CNI_PATH: binFolders.join(':'), ...(attachment && environmentFor(attachment)) };
    const { code, stdout, stderr } = await runAnyway(inside.command, inside.args, { input, env }, signal);
    if (code === 0) return stdout;
    throw pluginError(`${plugin.type} ${command}`, code, stdout, stderr);
  }

  #cacheFile(network: PluginChain, { containerId, ifName }: Pick<RuntimeAttachment, 'containerId' | 'ifName'>): string {
    const key = createHash('sha256').update(`${network.name}/${containerId}/${ifName}`).digest('hex').slice(0, 32);
    return join(this.#options.cacheFolder, `${key}.json`);
  }

  #cachedResult(network: PluginChain, attachment: RuntimeAttachment): (Cached & RuntimeAttachment) | undefined {
    const text = readIfThere(this.#cacheFile(network, attachment));
    return text === undefined ? undefined : { ...cached.parse(JSON.parse(text)), netns: attachment.netns };
  }

  #cachedOf(network: string): Cached[] {
    try {
      return readdirSync(this.#options.cacheFolder)
        .filter((file) => file.endsWith('.json'))
        .map((file) => cached.parse(JSON.parse(readIfThere(join(this.#options.cacheFolder, file)) ?? '')))
        .filter((entry) => entry.network === network);
    } catch {
      // No ADD yet, so no folder; or an unreadable result, which DEL does not require.
      return [];
    }
  }
}

/** Input of `plugin`: its configuration and the runtime's additions. */
function stdinOf(
  network: PluginChain,
  plugin: PluginConf,
  attachment: RuntimeAttachment | undefined,
  extra: Readonly<Record<string, unknown>>,
): Record<string, unknown> {
  const offered = Object.entries(attachment?.capabilities ?? {}).filter(([name]) => plugin.capabilities?.[name] === true);
  return {
    ...plugin,
    name: network.name,
    cniVersion: network.version,
    ...(offered.length > 0 && { runtimeConfig: Object.fromEntries(offered) }),
    ...extra,
  };
}

function environmentFor({ containerId, netns, ifName, args }: RuntimeAttachment): Record<string, string> {
  return {
    CNI_CONTAINERID: containerId,
    CNI_NETNS: netns,
    CNI_IFNAME: ifName,
    CNI_ARGS: args.map(([key, value]) => `${key}=${value}`).join(';'),
  };
}

function toCached(network: PluginChain, { containerId, ifName, args, capabilities }: RuntimeAttachment, answer: PluginResult): Cached {
  return {
    containerId,
    ifName,
    network: network.name,
    args: args.map(([key, value]) => [key, value] as [string, string]),
    capabilities: { ...capabilities },
    result: answer,
  };
}

function findPlugin(type: string, folders: readonly string[]): string {
  for (const folder of folders) {
    const path = join(folder, type);
    try {
      accessSync(path, constants.X_OK);
      return path;
    } catch {
      // Not in this folder; the next may have it.
    }
  }
  throw new SeineError('REFUSED', `CNI plugin ${type} is not found in ${folders.join(', ')}`);
}

function parseResult(plugin: PluginConf, stdout: string): PluginResult {
  try {
    return result.parse(JSON.parse(stdout));
  } catch (cause) {
    throw new SeineError('REFUSED', `${plugin.type} ADD: its result is invalid`, { cause });
  }
}

/** The error a plugin prints on its standard output. `context.cniCode` is its code, absent if it printed none. */
function pluginError(doing: string, exitCode: number, stdout: string, stderr: string): SeineError {
  try {
    const { code, msg, details } = cniError.parse(JSON.parse(stdout));
    return new SeineError('REFUSED', `${doing}: ${msg}${details ? ` (${details})` : ''}`, { context: { cniCode: code } });
  } catch {
    const said = (stdout.trim() || stderr.trim()).slice(0, 300) || 'it printed no error';
    return new SeineError('REFUSED', `${doing}: exit code ${exitCode}: ${said}`);
  }
}
