import { createConnection, type Socket } from 'node:net';
import { join } from 'node:path';
import { SeineError } from '../../base/errors/seine-error.ts';
import { errnoOf } from '../errno.ts';
import { interfaceName } from '../interface-name.ts';
import type { WireGuard, WireGuardChange, WireGuardDevice } from './wireguard.ts';
import { checkAnswer, decodeDeviceText, deviceRequest, encodeChangeText } from './wireguard-text.ts';

/**
 * WireGuard devices of processes such as `wireguard-go`, each with a unix socket `DEVICE.sock`. For kernels without WireGuard: the project
 * does not ship such a process.
 */
export class ProcessWireGuard implements WireGuard {
  readonly #folder: string;

  /** @param folder of the sockets: `/var/run/wireguard` unless the process was built otherwise */
  constructor(folder: string) {
    this.#folder = folder;
  }

  async read(device: string, signal: AbortSignal): Promise<WireGuardDevice | undefined> {
    try {
      return decodeDeviceText(await this.#exchange(device, deviceRequest, signal));
    } catch (thrown) {
      if (isAbsent(thrown)) return undefined;
      throw thrown;
    }
  }

  async apply(device: string, change: WireGuardChange, signal: AbortSignal): Promise<void> {
    try {
      checkAnswer(await this.#exchange(device, encodeChangeText(change), signal));
    } catch (thrown) {
      if (isAbsent(thrown)) throw new SeineError('REFUSED', `WireGuard device ${device}: no process serves it`, { cause: thrown });
      throw thrown;
    }
  }

  /** Sends a request and reads its answer, on a connection of its own. @throws SeineError `UNAVAILABLE`, `PROTOCOL`, `CANCELLED` */
  async #exchange(device: string, request: string, signal: AbortSignal): Promise<string> {
    const socket = createConnection(join(this.#folder, `${interfaceName(device)}.sock`));
    const cancel = () => socket.destroy(new SeineError('CANCELLED', `WireGuard device ${device}: the caller stopped waiting`));
    if (signal.aborted) cancel();
    signal.addEventListener('abort', cancel, { once: true });
    try {
      socket.write(request);
      return await readAnswer(socket);
    } catch (thrown) {
      if (thrown instanceof SeineError) throw thrown;
      throw new SeineError('UNAVAILABLE', `WireGuard device ${device}: its process does not answer`, {
        context: { errno: errnoOf(thrown) },
        cause: thrown,
      });
    } finally {
      signal.removeEventListener('abort', cancel);
      socket.destroy();
    }
  }
}

/** Reads up to the empty line at the end of an answer; the process keeps the connection open. */
async function readAnswer(socket: Socket): Promise<string> {
  const parts: Buffer[] = [];
  let length = 0;
  let tail = '';
  for await (const part of socket as AsyncIterable<Buffer>) {
    parts.push(part);
    length += part.length;
    if (length > answerBytesMax) throw new SeineError('PROTOCOL', `WireGuard process: an answer of more than ${answerBytesMax} bytes`);
    tail = (tail + part.toString('latin1')).slice(-2);
    if (tail === '\n\n') return Buffer.concat(parts).toString('utf8');
  }
  throw new SeineError('UNAVAILABLE', 'WireGuard process: the answer has no end');
}

/** Reports whether there is no socket, or no process behind it. */
function isAbsent(thrown: unknown): boolean {
  return thrown instanceof SeineError && ['ENOENT', 'ECONNREFUSED'].includes(errnoOf(thrown) ?? '');
}

/** 5,000 peers with 16 networks each take 5 MB. */
const answerBytesMax = 16 * 1024 * 1024;
