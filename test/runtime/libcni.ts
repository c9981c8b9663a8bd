import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { run } from '../../lab/machine/process.ts';
import type { NodePlace } from './node-place.ts';

/** Debian's folder of the sources of Go libraries. */
const goPath = '/usr/share/gocode';

/** Builds the client from Debian's copy of libcni, with nothing from elsewhere. @returns the program's path */
export async function buildLibcniClient(folder: string, signal: AbortSignal): Promise<string> {
  const program = join(folder, 'libcni-client');
  const env = { GO111MODULE: 'off', GOPATH: goPath, GOFLAGS: '', GOCACHE: join(folder, 'cache'), CGO_ENABLED: '0' };
  await run('go', ['build', '-o', program, join(import.meta.dirname, 'libcni-client.go')], { env }, signal);
  return program;
}

/** Builds the client of the newest libcni, with modules as for a real Kubernetes. @returns the program's path */
export async function buildNewestLibcniClient(folder: string, signal: AbortSignal): Promise<string> {
  const program = join(folder, 'newest-libcni');
  const args = ['-C', join(import.meta.dirname, 'newest-libcni'), 'build', '-trimpath', '-o', program, '.'];
  await run('go', args, { env: { CGO_ENABLED: '0' } }, signal);
  return program;
}

export interface LibcniAttachment {
  readonly containerId: string;
  /** Path of the namespace. */
  readonly netns: string;
  readonly ifName?: string;
  /** Values by capability, as in a runtime; libcni passes them to plugins that declare them. */
  readonly capabilities?: Readonly<Record<string, unknown>>;
}

export interface CniAnswer {
  readonly cniVersion: string;
  readonly interfaces: readonly { readonly name: string; readonly mac: string; readonly sandbox?: string }[];
  readonly ips: readonly { readonly address: string; readonly gateway?: string; readonly interface?: number }[];
}

/** Plugins of one node, executed by the libcni that has STATUS and GC. Failures are `REFUSED` with CNI's code. */
export class NewestLibcni {
  readonly #place: NodePlace;
  readonly #program: string;
  readonly #pluginFolder: string;

  constructor(place: NodePlace, program: string, pluginFolder: string) {
    this.#place = place;
    this.#program = program;
    this.#pluginFolder = pluginFolder;
  }

  async add(confList: string, attachment: LibcniAttachment, signal: AbortSignal): Promise<CniAnswer> {
    return JSON.parse(await this.#call('add', confList, attachment, 'cache', signal)) as CniAnswer;
  }

  async del(confList: string, attachment: LibcniAttachment, signal: AbortSignal): Promise<void> {
    await this.#call('del', confList, attachment, 'cache', signal);
  }

  async status(confList: string, signal: AbortSignal): Promise<void> {
    await this.#call('status', confList, undefined, 'cache', signal);
  }

  /** GC of a runtime that has lost its cache: libcni itself deletes cached attachments, so that nothing would be left for the plugin. */
  async gc(confList: string, valid: LibcniAttachment | undefined, signal: AbortSignal): Promise<void> {
    await this.#call('gc', confList, valid, 'empty-cache', signal);
  }

  #call(verb: string, confList: string, attachment: LibcniAttachment | undefined, cache: string, signal: AbortSignal): Promise<string> {
    const folder = join(this.#place.folder, cache);
    mkdirSync(folder, { recursive: true });
    const of = attachment ? [attachment.containerId, attachment.netns, attachment.ifName ?? 'eth0'] : [];
    return this.#place.run(this.#program, [verb, confList, this.#pluginFolder, folder, ...of], signal);
  }
}

/** Plugins of one node, executed by libcni. Failures are `REFUSED` with CNI's code. */
export class Libcni {
  readonly #place: NodePlace;
  readonly #program: string;
  readonly #pluginFolders: readonly string[];
  readonly #cache: string;

  /** @param pluginFolders the same as the agent's: it executes plugins that allocate addresses */
  constructor(place: NodePlace, program: string, pluginFolders: readonly string[]) {
    this.#place = place;
    this.#program = program;
    this.#pluginFolders = pluginFolders;
    this.#cache = join(place.folder, 'libcni-cache');
    mkdirSync(this.#cache, { recursive: true });
  }

  /**
   * Checks that all plugins of a configuration list exist, and support its version. @returns the capabilities, in order, as Go prints a
   * list
   */
  async validate(confList: string, signal: AbortSignal): Promise<string> {
    return await this.#call('validate', confList, { containerId: '-', netns: '-' }, signal);
  }

  async add(confList: string, attachment: LibcniAttachment, signal: AbortSignal): Promise<CniAnswer> {
    return JSON.parse(await this.#call('add', confList, attachment, signal)) as CniAnswer;
  }

  async check(confList: string, attachment: LibcniAttachment, signal: AbortSignal): Promise<void> {
    await this.#call('check', confList, attachment, signal);
  }

  async del(confList: string, attachment: LibcniAttachment, signal: AbortSignal): Promise<void> {
    await this.#call('del', confList, attachment, signal);
  }

  #call(verb: string, confList: string, attachment: LibcniAttachment, signal: AbortSignal): Promise<string> {
    const { containerId, netns, ifName = 'eth0', capabilities = {} } = attachment;
    const args = [verb, confList, this.#pluginFolders.join(':'), this.#cache, containerId, netns, ifName, JSON.stringify(capabilities)];
    return this.#place.run(this.#program, args, signal);
  }
}
