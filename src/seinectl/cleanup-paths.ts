import { dirname, join, resolve } from 'node:path';
import { defaultPaths } from '../api/default-paths.ts';
import { SeineError } from '../base/errors/seine-error.ts';
import type { CleanupOptions } from '../install/cleanup.ts';
import type { AgentClient } from './agent-client.ts';

/** Folders and names from the command line. */
export interface CleanupPathOptions {
  readonly bridge?: string;
  readonly gateway?: string;
  readonly cniBinDir?: string;
  readonly cniConfDir?: string;
  readonly stateDir?: string;
  readonly runDir?: string;
  readonly ovsRunDir?: string;
}

type ConfigRecord = Readonly<Record<string, unknown>>;

/** Returns the socket of the agent of the installation: in the folder that was named, or the socket that was named. */
export function socketOf({ runDir }: CleanupPathOptions, socket: string): string {
  return runDir === undefined ? socket : join(runDir, 'agent.sock');
}

/** Returns what an agent there reports about itself; undefined if there is none. @throws SeineError `REFUSED` if it does not report it */
export async function askedFor(agent: AgentClient): Promise<ConfigRecord | undefined> {
  try {
    return (await agent.json('/v1/config')) as ConfigRecord;
  } catch (thrown) {
    const error = SeineError.from(thrown, 'query the agent');
    if (error.code === 'UNAVAILABLE') return undefined;
    throw error;
  }
}

/**
 * Determines the folders of one installation: as named, else as reported by its agent, else the defaults. The defaults apply to the default
 * installation only: an installation elsewhere, as in a lab, shares this host with another one, whose folders must not be used for it.
 *
 * @param socket of its agent
 * @throws SeineError `INVALID_INPUT` naming the missing options
 */
export function cleanupPathsOf(named: CleanupPathOptions, socket: string, reported: ConfigRecord = {}): CleanupOptions {
  const isUsual = resolve(socket) === defaultPaths.apiSocket;
  const missing: string[] = [];
  const place = (option: string, value: string | undefined, key: string | undefined, usual: string): string => {
    const found = value ?? textAt(reported, key) ?? (isUsual ? usual : undefined);
    if (found === undefined) missing.push(option);
    return found ?? '';
  };
  const folders = {
    bin: place('--cni-bin-dir', named.cniBinDir, undefined, defaultPaths.cniBinDir),
    conf: place('--cni-conf-dir', named.cniConfDir, undefined, defaultPaths.cniConfDir),
    state: place('--state-dir', named.stateDir, 'stateDir', defaultPaths.stateDir),
  };
  const ovsRunFolder = place('--ovs-run-dir', named.ovsRunDir, 'ovsRunDir', defaultPaths.ovsRunDir);
  if (missing.length > 0)
    throw new SeineError('INVALID_INPUT', `the agent of ${socket} is not the default one of the host: specify its ${missing.join(', ')}`);
  return {
    folders,
    ovsRunFolder,
    sockets: [textAt(reported, 'cniSocket') ?? join(dirname(socket), 'cni.sock'), textAt(reported, 'apiSocket') ?? socket],
    bridge: named.bridge ?? textAt(reported, 'ovsBridge') ?? defaultPaths.ovsBridge,
    gateway: named.gateway ?? textAt(reported, 'hostGateway') ?? defaultPaths.hostGateway,
  };
}

function textAt(reported: ConfigRecord, key: string | undefined): string | undefined {
  const value = key === undefined ? undefined : reported[key];
  return typeof value === 'string' && value !== '' ? value : undefined;
}
