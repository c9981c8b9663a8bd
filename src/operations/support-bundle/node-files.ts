import { constants } from 'node:fs';
import { open, readdir, readFile, stat } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { seineVersion } from '../../api/version.ts';
import { SeineError } from '../../base/errors/seine-error.ts';
import type { BundlePart } from './collect.ts';
import { plainJson } from './plain-json.ts';
import { redact } from './redact.ts';

/** Paths on this node. */
interface BundlePaths {
  /** Configuration file of the agent. */
  readonly configFile: string;
  readonly stateDir: string;
  /** OVS_RUNDIR, and the folder of its logs. */
  readonly ovsRunDir: string;
  readonly ovsLogDir: string;
  readonly cniConfDir: string;
  /** Logs whose end is collected, e.g. the kubelet's. */
  readonly logs: readonly string[];
}

/** Size of the end of a log. */
const TAIL_BYTES = 512 * 1024;
const FILES_MAX = 200;

export function fileParts(places: BundlePaths): readonly BundlePart[] {
  const { configFile, stateDir, ovsRunDir, ovsLogDir, cniConfDir, logs } = places;
  return [
    { name: 'files/versions.json', gather: versions },
    { name: 'files/agent-config.yaml', gather: () => readFile(configFile, 'utf8') },
    { name: 'files/ipam.journal', gather: () => readFile(join(stateDir, 'ipam.journal'), 'utf8') },
    { name: 'files/state-dir.json', gather: () => listing(stateDir) },
    { name: 'files/cni-net.d.json', gather: () => contents(cniConfDir) },
    { name: 'files/ovs-run-dir.json', gather: () => listing(ovsRunDir) },
    { name: 'files/ovs-vswitchd.log', gather: () => tail(join(ovsLogDir, 'ovs-vswitchd.log')) },
    { name: 'files/ovsdb-server.log', gather: () => tail(join(ovsLogDir, 'ovsdb-server.log')) },
    ...logs.map((path, at): BundlePart => ({ name: `files/log-${at + 1}-${safeName(path)}`, gather: () => tail(path) })),
  ];
}

async function versions(): Promise<string> {
  const [release, kernel, uptime, memory] = await Promise.all(
    ['/etc/os-release', '/proc/version', '/proc/uptime', '/proc/meminfo'].map((path) => readFile(path, 'utf8').catch(() => null)),
  );
  return plainJson({
    seinectl: seineVersion,
    node: process.version,
    machine: process.arch,
    now: new Date(),
    release,
    kernel,
    uptime,
    memory,
  });
}

async function listing(folder: string): Promise<string> {
  const names = (await readdir(folder, { recursive: true })).toSorted();
  const files = names.slice(0, FILES_MAX).map(async (name) => {
    const found = await stat(join(folder, name)).catch(() => undefined); // removed meanwhile
    return found && { name, mode: found.mode.toString(8), uid: found.uid, bytes: found.size, changed: found.mtime };
  });
  return plainJson({ folder, files: await Promise.all(files), more: Math.max(0, names.length - FILES_MAX) });
}

/** Network configurations of a folder. Other plugins keep their credentials there: only their names are listed. */
async function contents(folder: string): Promise<string> {
  const all = (await readdir(folder)).toSorted().slice(0, FILES_MAX);
  const names = all.filter((name) => /\.(?:conf|conflist|json)$/.test(name));
  const texts = names.map(async (name) => {
    const text = await tail(join(folder, name)).catch((thrown: unknown) => String(thrown));
    return [name, redact(text)] as const;
  });
  const others = all.filter((name) => !names.includes(name));
  return plainJson({ folder, files: Object.fromEntries(await Promise.all(texts)), others });
}

async function tail(path: string): Promise<string> {
  const file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK); // a pipe without a writer would block this process
  try {
    const found = await file.stat();
    if (!found.isFile()) throw new SeineError('REFUSED', `${path} is not a file`);
    const from = Math.max(0, found.size - TAIL_BYTES);
    const { bytesRead, buffer } = await file.read(Buffer.alloc(Math.min(TAIL_BYTES, found.size)), 0, undefined, from);
    return buffer.toString('utf8', 0, bytesRead);
  } finally {
    await file.close();
  }
}

function safeName(path: string): string {
  return basename(path)
    .replace(/[^\w.-]/g, '_')
    .slice(0, 80);
}
