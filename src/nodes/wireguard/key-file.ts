import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { SeineError } from '../../base/errors/seine-error.ts';
import { StateFile } from '../../base/files/state-file.ts';
import { WireGuardPrivateKey } from '../../netlink/wireguard/wireguard-key.ts';

/** Maximum length of the file: two keys and a time. */
const BYTES_MAX = 512;

/** Private keys of this node. */
export interface NodeKeys {
  readonly current: WireGuardPrivateKey;
  /** Key that replaces it, and the time (Unix, ms): peers change at that time, and the node shortly after. */
  readonly next?: { readonly key: WireGuardPrivateKey; readonly at: number };
}

/**
 * File with the node's private keys, mode 0600. It survives restarts and reboots, so peers need not learn a new key. The first line is the
 * current key; during a rotation a second line has the next one and its time.
 */
export class WireGuardKeyFile {
  readonly #file: StateFile;
  readonly #path: string;

  /** @param stateDir folder of the agent's state */
  constructor(stateDir: string) {
    this.#path = join(stateDir, 'wireguard.key');
    this.#file = new StateFile(this.#path, BYTES_MAX);
  }

  /**
   * Returns the keys; generates and stores one if there is none.
   *
   * @throws SeineError `INVALID_INPUT`, without the text, if the file is not one of these. It is left unchanged: a new key would interrupt
   *   all traffic until the peers know it. `UNAVAILABLE` if it cannot be read or written
   */
  async open(): Promise<NodeKeys> {
    const text = this.#file.read();
    if (text !== undefined) return this.#parse(text);
    const keys = { current: WireGuardPrivateKey.generate() };
    await this.write(keys);
    return keys;
  }

  /** Reports whether there is a key of this node. */
  exists(): boolean {
    return existsSync(this.#path);
  }

  /** Replaces the file; durable once resolved. @throws SeineError `UNAVAILABLE` */
  async write({ current, next }: NodeKeys): Promise<void> {
    const lines = [current.toBase64(), ...(next ? [`${next.key.toBase64()} ${next.at}`] : [])];
    await this.#file.write(`${lines.join('\n')}\n`);
  }

  #parse(text: string): NodeKeys {
    const [first = '', second, ...others] = text.trimEnd().split('\n');
    try {
      const current = WireGuardPrivateKey.parse(first);
      if (others.length > 0) throw new SeineError('INVALID_INPUT', 'more than two lines');
      if (second === undefined) return { current };
      const [key = '', time = ''] = second.split(' ');
      if (!/^[0-9]{1,15}$/.test(time)) throw new SeineError('INVALID_INPUT', 'no time of the next key');
      return { current, next: { key: WireGuardPrivateKey.parse(key), at: Number(time) } };
    } catch (cause) {
      throw new SeineError('INVALID_INPUT', `${this.#path} has no WireGuard key; delete it to generate a new one`, { cause });
    }
  }
}
