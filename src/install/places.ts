import { join } from 'node:path';
import { ownPlugin } from './conflist.ts';

/** Folders of a node, as this process sees them. */
export interface Folders {
  readonly bin: string;
  readonly conf: string;
  /** Seine's own. */
  readonly state: string;
}

/** Runtimes take the first configuration by name: ours is early, so that it wins over leftovers. */
export const confName = '10-seine.conflist';

export interface Places {
  readonly plugin: string;
  readonly conf: string;
  /** What was there before the last installation, and worked. */
  readonly goodFolder: string;
  readonly goodPlugin: string;
  readonly goodConf: string;
  /** There while plugin and configuration may be of two installations: one was begun and has not ended. */
  readonly unfinished: string;
  /** What else was put into the folder of plugins, with the hash of each. */
  readonly record: string;
}

export function placesIn({ bin, conf, state }: Folders): Places {
  const goodFolder = join(state, 'cni-last-good');
  return {
    plugin: join(bin, ownPlugin),
    conf: join(conf, confName),
    goodFolder,
    goodPlugin: join(goodFolder, ownPlugin),
    goodConf: join(goodFolder, confName),
    unfinished: join(state, 'cni-unfinished'),
    record: join(state, 'cni-installed.json'),
  };
}
