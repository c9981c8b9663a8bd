import { join } from 'node:path';
import type { AgentFacts } from '../../api/check.ts';
import { type ConfigurationFile, type ConfiguredPlugin, missingFileReason, notExecutableReason, readConfigurations } from './cni-files.ts';
import { messageOf } from './failures.ts';
import { buildVersion, type PluginAnswer, pluginError, runPlugin, STATUS_DEADLINE, supportedVersions } from './plugin-program.ts';

/** Name of our plugin. */
export const ownPlugin = 'seine';

export interface CniFolders {
  readonly confDir: string;
  /** One or several folders, separated by colons, as in `CNI_PATH`. */
  readonly binDir: string;
}

export interface PluginFacts {
  readonly type: string;
  readonly path: string;
  /** Reason why a runtime cannot execute it. */
  readonly problem: string | undefined;
  /** CNI versions that it reports; empty if it does not report any. */
  readonly versions: readonly string[];
}

/** CNI files of a node, as a runtime sees them. */
export interface CniFacts extends CniFolders {
  /** Files in the order in which a runtime reads them; undefined without such a folder. */
  readonly files: readonly ConfigurationFile[] | undefined;
  /** Plugins of the chain with our plugin, each once. */
  readonly plugins: readonly PluginFacts[];
  /** Version that our plugin reports. */
  readonly build: string | undefined;
  /** Answer to STATUS with its own configuration: undefined is success. */
  readonly status: { readonly code: number; readonly message: string } | undefined;
  /** Undefined if no agent answers. */
  readonly agent: AgentFacts | undefined;
}

/** Returns the first chain with our plugin in it. */
export function ownChain(files: readonly ConfigurationFile[]) {
  for (const { name, mode, content } of files) {
    const ours = 'plugins' in content ? content.plugins.find(({ type }) => type === ownPlugin) : undefined;
    if (ours && 'plugins' in content) return { file: name, mode, ours, ...content };
  }
  return undefined;
}

export async function gatherCni({ confDir, binDir }: CniFolders, agent: AgentFacts | undefined, signal: AbortSignal): Promise<CniFacts> {
  const files = await readConfigurations(confDir);
  const chain = ownChain(files ?? []);
  const types = [...new Set([ownPlugin, ...(chain?.plugins ?? []).map(({ type }) => type)])];
  const plugins = await Promise.all(types.map((type) => lookAt(type, binDir, signal)));
  const ours = plugins.find(({ type }) => type === ownPlugin);
  const path = ours?.problem === undefined ? ours?.path : undefined;
  const said = path === undefined ? undefined : await answerOf(path, { command: '--version', binDir, stdin: '' }, signal);
  const build = said && 'code' in said ? buildVersion(said) : undefined;
  const status = path === undefined || !chain ? undefined : await statusOf(path, binDir, chain, signal);
  return { confDir, binDir, files, plugins, build, status, agent };
}

async function lookAt(type: string, binDir: string, signal: AbortSignal): Promise<PluginFacts> {
  const { path, problem } = await find(type, binDir);
  if (problem !== undefined) return { type, path, problem, versions: [] };
  const answer = await answerOf(path, { command: 'VERSION', binDir, stdin: '{"cniVersion":"1.0.0"}' }, signal);
  return {
    type,
    path,
    ...('problem' in answer ? { ...answer, versions: [] } : { problem: undefined, versions: supportedVersions(answer) }),
  };
}

/** Finds a plugin in the first folder that has it. */
async function find(type: string, binDir: string): Promise<{ readonly path: string; readonly problem: string | undefined }> {
  const paths = binDir.split(':').map((folder) => join(folder, type));
  for (const path of paths) {
    const problem = await notExecutableReason(path);
    if (problem !== missingFileReason) return { path, problem };
  }
  return { path: paths[0] ?? type, problem: missingFileReason };
}

async function statusOf(
  path: string,
  binDir: string,
  { network, ours }: { readonly network: string; readonly ours: ConfiguredPlugin },
  signal: AbortSignal,
): Promise<CniFacts['status']> {
  const stdin = JSON.stringify({ ...ours.keys, name: network, cniVersion: '1.1.0', deadline: STATUS_DEADLINE });
  const answer = await answerOf(path, { command: 'STATUS', binDir, stdin }, signal);
  return 'problem' in answer ? { code: -1, message: answer.problem } : pluginError(answer);
}

async function answerOf(
  path: string,
  call: Parameters<typeof runPlugin>[1],
  signal: AbortSignal,
): Promise<PluginAnswer | { readonly problem: string }> {
  try {
    return await runPlugin(path, call, signal);
  } catch (thrown) {
    signal.throwIfAborted();
    return { problem: messageOf(thrown) };
  }
}
