import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';
import { SeineError } from '../base/errors/seine-error.ts';
import { placeFile, removeFile } from '../base/files/atomic-file.ts';
import { privateFolder } from '../base/files/private-folder.ts';
import { type ConfList, isForeign, ownPlugin, parseConfList, withVersions } from './conflist.ts';
import { confMode, confName, type Folders, type InstallPaths, installPathsIn, pluginMode } from './install-paths.ts';
import { pluginVersions } from './plugin-versions.ts';

/** containerd and CRI-O call it for every pod, even if it is not in the list. */
const loopback = 'loopback';

export interface Installation extends Folders {
  /** Folder with the plugins to install: ours, and those of the chain for nodes that lack them. */
  readonly source: string;
  /** Configuration to install. */
  readonly conflist: string;
}

/** Prints a completed step or a warning, one line per call. */
export type ReportLine = (line: string) => void;

/**
 * Installs the plugin, then the configuration: a runtime that finds the configuration calls the plugin at once. Each is tested before it
 * replaces the existing file, and is replaced atomically. The previous files are kept for {@link rollBack} if they worked.
 *
 * @throws SeineError `INVALID_INPUT`, `REFUSED`: the previous files continue to work
 */
export function install({ source, conflist, ...folders }: Installation, report: ReportLine): void {
  const list = parseConfList(readText(conflist), conflist);
  const places = installPathsIn(folders);
  privateFolder(folders.state);
  mkdirSync(folders.bin, { recursive: true, mode: 0o755 });
  mkdirSync(folders.conf, { recursive: true, mode: 0o755 });
  const plugin = readFileSync(join(source, ownPlugin));
  if (holds(places.plugin, plugin)) report(`${places.plugin} is there already`);
  else {
    begin(places, report);
    placeFile(places.plugin, { bytes: plugin, mode: pluginMode }, pluginVersions);
    report(`${places.plugin} installed`);
  }
  completeChain(list, source, folders, report);
  const text = Buffer.from(withVersions(list, supportedBy(list, folders.bin, report)));
  if (holds(places.conf, text)) report(`${places.conf} is there already`);
  else {
    begin(places, report);
    placeFile(places.conf, { bytes: text, mode: confMode });
    report(`${places.conf} installed`);
  }
  noteCurrent(places, { plugin, conf: text });
  removeFile(places.unfinished);
  warnOfShadows(folders.conf, report);
}

/** Restores plugin and configuration from before the last change. @throws SeineError `REFUSED` if there are none */
export function rollBack(folders: Folders, report: ReportLine): void {
  const places = installPathsIn(folders);
  if (!existsSync(places.goodPlugin)) throw new SeineError('REFUSED', `no earlier version is stored in ${places.goodFolder}`);
  placeFile(places.plugin, { bytes: readFileSync(places.goodPlugin), mode: pluginMode }, pluginVersions);
  report(`${places.plugin} brought back`);
  if (existsSync(places.goodConf)) {
    parseConfList(readText(places.goodConf), places.goodConf);
    placeFile(places.conf, { bytes: readFileSync(places.goodConf), mode: confMode });
    report(`${places.conf} brought back`);
  }
  noteCurrent(places, { plugin: readFileSync(places.plugin), conf: readFileSync(places.conf) });
  removeFile(places.unfinished);
}

/** Lists the files that `remove` would delete; only Seine's. */
export function installedFiles(folders: Folders): readonly string[] {
  const places = installPathsIn(folders);
  const ours = readRecord(places.record).filter(([name, hash]) => {
    const path = join(folders.bin, name);
    return existsSync(path) && hashOf(readFileSync(path)) === hash;
  });
  const others = ours.map(([name]) => join(folders.bin, name));
  const conf = existsSync(places.conf) && !isForeign(readText(places.conf)) ? [places.conf] : [];
  return [
    // First the files from which a running agent would restore others.
    ...[places.currentConf, places.currentPlugin].filter((path) => existsSync(path)),
    ...conf,
    ...[places.plugin, ...others, places.goodConf, places.goodPlugin, places.unfinished, places.record].filter((path) => existsSync(path)),
  ];
}

/** Deletes the installed files; the configuration before the plugin, so that no runtime calls a missing one. */
export function remove(folders: Folders, report: ReportLine): void {
  for (const path of installedFiles(folders)) if (removeFile(path)) report(`${path} removed`);
}

/**
 * Before a change: keeps the existing files, which worked together. Files of an unfinished installation did not, and those before it are
 * already kept.
 */
function begin(places: InstallPaths, report: ReportLine): void {
  if (existsSync(places.unfinished)) return;
  keepGood(places, report);
  placeFile(places.unfinished, { bytes: Buffer.alloc(0), mode: confMode });
}

/**
 * Records the files that the agent restores; it does so only while no installation is running, so that it never restores replaced files.
 */
function noteCurrent(places: InstallPaths, { plugin, conf }: { readonly plugin: Uint8Array; readonly conf: Uint8Array }): void {
  placeFile(places.currentPlugin, { bytes: plugin, mode: pluginMode });
  placeFile(places.currentConf, { bytes: conf, mode: confMode });
}

/** Only working files are kept. */
function keepGood(places: InstallPaths, report: ReportLine): void {
  if (!existsSync(places.plugin)) return;
  try {
    pluginVersions(places.plugin);
  } catch {
    report(`${places.plugin} does not work and is not stored`);
    return;
  }
  privateFolder(places.goodFolder);
  placeFile(places.goodPlugin, { bytes: readFileSync(places.plugin), mode: pluginMode });
  if (existsSync(places.conf)) placeFile(places.goodConf, { bytes: readFileSync(places.conf), mode: confMode });
}

/** Other plugins of the chain belong to the node: an existing one stays, a missing one is copied. */
function completeChain(list: ConfList, source: string, { bin, state }: Folders, report: ReportLine): void {
  const { record } = installPathsIn({ bin, conf: '', state });
  for (const type of new Set([...list.plugins.map((plugin) => plugin.type), loopback])) {
    const path = join(bin, type);
    if (type === ownPlugin || existsSync(path)) continue;
    const brought = join(source, type);
    if (!existsSync(brought))
      throw new SeineError('REFUSED', `plugin "${type}" is neither in ${bin} nor in ${source}: install it, or remove it from the list`);
    const bytes = readFileSync(brought);
    // Recorded before it is copied: files that are not recorded are never removed.
    const known = Object.fromEntries([...readRecord(record), [type, hashOf(bytes)]]);
    placeFile(record, { bytes: Buffer.from(JSON.stringify(known)), mode: confMode });
    placeFile(path, { bytes, mode: pluginMode }, pluginVersions);
    report(`${path} installed, as the node has none`);
  }
}

function supportedBy(list: ConfList, bin: string, report: ReportLine): Map<string, readonly string[]> {
  const spoken = new Map<string, readonly string[]>();
  for (const { type } of list.plugins) {
    try {
      spoken.set(type, pluginVersions(join(bin, type)));
    } catch (failure) {
      // The node's own plugin, which may be built for its libraries and not for this container's.
      if (type === ownPlugin) throw failure;
      report(`${join(bin, type)} does not report its CNI versions: ${list.cniVersion} is assumed`);
      spoken.set(type, [list.cniVersion]);
    }
  }
  return spoken;
}

function warnOfShadows(conf: string, report: ReportLine): void {
  const earlier = readdirSync(conf).filter((name) => /\.(conf|conflist|json)$/.test(name) && name < confName);
  for (const name of earlier) report(`WARNING: ${join(conf, name)} precedes ${confName}: the runtime uses that network and not Seine`);
}

const recordSchema = z.record(z.string().regex(/^[A-Za-z0-9_.-]+$/), z.string());

function readRecord(path: string): readonly (readonly [string, string])[] {
  if (!existsSync(path)) return [];
  const parsed = recordSchema.safeParse(jsonIn(readText(path)));
  if (!parsed.success) throw new SeineError('INVALID_INPUT', `${path} is damaged: remove it, and the files that it names, manually`);
  return Object.entries(parsed.data).filter(([name]) => name !== '.' && name !== '..');
}

/** Undefined for text that is not JSON. */
function jsonIn(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined; // reported as an error of the schema
  }
}

function holds(path: string, bytes: Uint8Array): boolean {
  return existsSync(path) && readFileSync(path).equals(bytes);
}

function hashOf(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex');
}

function readText(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch (cause) {
    throw new SeineError('INVALID_INPUT', `${path} cannot be read`, { cause });
  }
}
