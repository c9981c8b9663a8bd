import { join } from 'node:path';
import { ownPlugin } from './conflist.ts';

export const pluginMode = 0o755;
export const confMode = 0o600;

/** Folders of a node, as this process sees them. */
export interface Folders {
  readonly bin: string;
  readonly conf: string;
  /** Seine's own. */
  readonly state: string;
}

/** Runtimes take the first configuration by name: Seine's is early, so that it wins over leftovers. */
export const confName = '10-seine.conflist';

export interface InstallPaths {
  readonly plugin: string;
  readonly conf: string;
  /** The last working configuration before this installation. */
  readonly goodFolder: string;
  readonly goodPlugin: string;
  readonly goodConf: string;
  /** What is installed now, for who looks whether it is still there. */
  readonly currentPlugin: string;
  readonly currentConf: string;
  /** Exists while plugin and configuration may be of two installations: one was begun and has not ended. */
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
