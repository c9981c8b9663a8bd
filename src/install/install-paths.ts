import { join } from 'node:path';
import { ownPlugin } from './conflist.ts';

export const pluginMode = 0o755;
export const confMode = 0o600;

/** Folders of a node, with the paths of this process. */
export interface Folders {
  readonly bin: string;
  readonly conf: string;
  /** Seine's own folder. */
  readonly state: string;
}

/** Runtimes use the first configuration by name: Seine's is early, so that it takes precedence over leftovers. */
export const confName = '10-seine.conflist';

export interface InstallPaths {
  readonly plugin: string;
  readonly conf: string;
  /** Last working configuration before this installation. */
  readonly goodFolder: string;
  readonly goodPlugin: string;
  readonly goodConf: string;
  /** Copies of the installed files, for the check that they still exist. */
  readonly currentPlugin: string;
  readonly currentConf: string;
  /** Exists while plugin and configuration may be of two installations: one has begun and not ended. */
  readonly unfinished: string;
  /** Other files installed into the plugin folder, with the hash of each. */
  readonly record: string;
}

export function installPathsIn({ bin, conf, state }: Folders): InstallPaths {
  const goodFolder = join(state, 'cni-last-good');
  return {
    plugin: join(bin, ownPlugin),
    conf: join(conf, confName),
    goodFolder,
    goodPlugin: join(goodFolder, ownPlugin),
    goodConf: join(goodFolder, confName),
    currentPlugin: join(state, 'cni-current'),
    currentConf: join(state, 'cni-current.conflist'),
    unfinished: join(state, 'cni-unfinished'),
    record: join(state, 'cni-installed.json'),
  };
}
