import { constants } from 'node:fs';
import { access, open, readdir } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { isNoSuchFile, messageOf } from './failures.ts';

/** File names that libcni reads as a configuration (`ConfFiles` of `containernetworking/cni`), in the order of names. */
const configurationName = /\.(conf|conflist|json)$/;
const FILES_MAX = 64;
const FILE_BYTES_MAX = 1024 * 1024;
/** Names of programs become parts of paths: a plugin's name must be a plain file name (CNI specification, section 1). */
const pluginName = /^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$/;

/** Plugin of a chain, as configured. */
export interface ConfiguredPlugin {
  readonly type: string;
  /** Set for our plugin: socket of the agent. Undefined for the default. */
  readonly agentSocket: string | undefined;
  /** Whole configuration, as JSON. */
  readonly keys: Readonly<Record<string, unknown>>;
}

/** File in the folder of CNI configurations. */
export interface ConfigurationFile {
  readonly name: string;
  /** Permission bits. */
  readonly mode: number;
  readonly content:
    | { readonly problem: string }
    | { readonly network: string; readonly version: string; readonly plugins: readonly ConfiguredPlugin[] };
}

/** @returns undefined if there is no such folder. @throws SeineError `UNAVAILABLE` if it cannot be read */
export async function readConfigurations(folder: string): Promise<readonly ConfigurationFile[] | undefined> {
  let names: readonly string[];
  try {
    names = await readdir(folder);
  } catch (thrown) {
    if (isNoSuchFile(thrown)) return undefined;
    throw thrown;
  }
  const wanted = names
    .filter((name) => configurationName.test(name))
    .toSorted(byBytes)
    .slice(0, FILES_MAX);
  return await Promise.all(wanted.map((name) => readOne(folder, name)));
}

/** Compares like Go's `sort.Strings`. */
function byBytes(a: string, b: string): number {
  return Buffer.compare(Buffer.from(a), Buffer.from(b));
}

async function readOne(folder: string, name: string): Promise<ConfigurationFile> {
  try {
    const file = await open(join(folder, name), constants.O_RDONLY | constants.O_NONBLOCK);
    try {
      const { mode, size } = await file.stat();
      if (size > FILE_BYTES_MAX) return { name, mode: mode & 0o777, content: { problem: `has ${size} bytes` } };
      return { name, mode: mode & 0o777, content: parseConfiguration(await file.readFile('utf8')) };
    } finally {
      await file.close();
    }
  } catch (thrown) {
    return { name, mode: 0, content: { problem: messageOf(thrown) } };
  }
}

/** Parses a list of plugins, or a single one of an older file. */
export function parseConfiguration(text: string): ConfigurationFile['content'] {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (thrown) {
    return { problem: `is not JSON: ${messageOf(thrown)}` };
  }
  if (!isObject(value)) return { problem: 'is not a JSON object' };
  const list = 'plugins' in value ? value['plugins'] : [value];
  if (!Array.isArray(list) || list.length === 0) return { problem: '"plugins" is not a list of plugins' };
  const plugins = list.map(pluginOf);
  const bad = plugins.indexOf(undefined);
  if (bad >= 0) return { problem: `plugins[${bad}] has no usable "type"` };
  const known = plugins.flatMap((plugin) => plugin ?? []);
  return { network: textOf(value['name']) ?? '', version: textOf(value['cniVersion']) ?? '', plugins: known };
}

function pluginOf(value: unknown): ConfiguredPlugin | undefined {
  if (!isObject(value)) return undefined;
  const type = textOf(value['type']);
  if (type === undefined || !pluginName.test(type) || basename(type) !== type) return undefined;
  return { type, agentSocket: textOf(value['agentSocket']), keys: value };
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function textOf(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined;
}

export const missingFileReason = 'is not there';

/** @returns undefined if it can be executed, otherwise the reason */
export async function notExecutableReason(path: string): Promise<string | undefined> {
  try {
    await access(path, constants.X_OK);
    return undefined;
  } catch (thrown) {
    return isNoSuchFile(thrown) ? missingFileReason : messageOf(thrown);
  }
}
