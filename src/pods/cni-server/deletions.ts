import { hash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { readdir, readFile, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { Log } from '../../base/log/log.ts';
import { deletionFileName, deletionFilesMax, deletionsFolder } from '../../cni/deletions.ts';
import { type DelRequest, parseCniRequest } from '../../cni/request.ts';
import { decodeRequest, requestBytesMax, type WireRequest } from '../../cni/wire.ts';
import type { AttachmentKey } from '../ipam/attachment.ts';

/** Age from which a draft file is stale (ms): runtimes give a plugin at most two minutes. */
const draftAgeMs = 10 * 60_000;

export interface RecordedDeletion {
  readonly request: DelRequest;
  readonly wire: WireRequest;
}

/** DELs that plugins recorded while no agent answered; see `cni/deletions.ts`. */
export class RecordedDeletions {
  readonly #folder: string;
  readonly #log: Log;

  constructor(stateDir: string, log: Log) {
    this.#folder = join(stateDir, deletionsFolder);
    this.#log = log;
  }

  /** Reports whether a DEL is recorded for this attachment. Synchronous, because every ADD calls it. */
  has(key: AttachmentKey): boolean {
    return existsSync(join(this.#folder, fileNameOf(key)));
  }

  /** Reads the recorded DELs, in no particular order; empty if the folder is missing. Invalid files are logged and removed. */
  async list(): Promise<readonly RecordedDeletion[]> {
    const found: RecordedDeletion[] = [];
    for (const name of (await this.#names()).slice(0, deletionFilesMax)) {
      const deletion = await this.#read(name);
      if (deletion) found.push(deletion);
    }
    return found;
  }

  async remove(key: AttachmentKey): Promise<void> {
    await rm(join(this.#folder, fileNameOf(key)), { force: true });
  }

  async #names(): Promise<readonly string[]> {
    try {
      const names = await readdir(this.#folder);
      for (const name of names) if (name.startsWith('.new-')) await this.#clearDraft(name);
      return names.filter((name) => /^[0-9a-f]{64}\.json$/.test(name)).toSorted();
    } catch (thrown) {
      if (isAbsent(thrown)) return [];
      throw thrown;
    }
  }

  /** Removes a half-written file of a plugin that was killed; it counts against the limit of the folder. */
  async #clearDraft(name: string): Promise<void> {
    const path = join(this.#folder, name);
    try {
      const { mtimeMs } = await stat(path);
      if (Date.now() - mtimeMs > draftAgeMs) await rm(path, { force: true, recursive: true });
    } catch (thrown) {
      if (!isAbsent(thrown)) throw thrown; // absent: its plugin has finished it
    }
  }

  async #read(name: string): Promise<RecordedDeletion | undefined> {
    const path = join(this.#folder, name);
    let text: string;
    try {
      text = (await stat(path)).size > requestBytesMax ? '' : await readFile(path, 'utf8');
    } catch (thrown) {
      // Absent: a DEL or ADD has processed it meanwhile.
      if (!isAbsent(thrown))
        this.#log.failing(`recorded DEL ${name}`, 'a recorded DEL cannot be read; it stays for the next time', { cause: String(thrown) });
      return undefined;
    }
    try {
      const wire = decodeRequest(text);
      const request = parseCniRequest(wire.env, wire.conf);
      if (request.command === 'DEL' && fileNameOf(request.attachment) === name) return { request, wire };
      throw new Error('its name is not that of its DEL');
    } catch (thrown) {
      this.#log.error('discarded an invalid recorded DEL', { file: name, cause: String(thrown) });
      await rm(path, { force: true });
      return undefined;
    }
  }
}

function fileNameOf(key: AttachmentKey): string {
  return deletionFileName(key, (text) => hash('sha256', text));
}

function isAbsent(thrown: unknown): boolean {
  return thrown instanceof Error && 'code' in thrown && thrown.code === 'ENOENT';
}
