import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { createConnection } from 'node:net';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import type { Place } from './host.ts';

/** Device of the agent. */
export const wireGuardDevice = 'antrea-wg0';

/** Fields of a device that its traffic changes. */
const passing = /^(?:last_handshake_time_n?sec|[rt]x_bytes|errno|protocol_version)=/;

/** Socket of the process that serves a node's device (https://www.wireguard.com/xplatform/). */
function socketOf({ rundir }: Place): string {
  return join(rundir, 'wireguard', `${wireGuardDevice}.sock`);
}

/** Exchanges a request with the process that serves the device. @throws Error if it does not answer, or refuses */
async function exchange(place: Place, request: string): Promise<string> {
  const socket = createConnection(socketOf(place));
  socket.setTimeout(10_000, () => socket.destroy(new Error('the process of the device does not answer')));
  socket.end(`${request}\n\n`);
  const answer = await text(socket);
  if (!/^errno=0$/m.test(answer)) throw new Error(`wireguard: ${answer.trim()}`);
  return answer;
}

/** Changes the device; lines of the configuration protocol. */
export async function setWireGuard(place: Place, ...lines: readonly string[]): Promise<void> {
  await exchange(place, ['set=1', ...lines].join('\n'));
}

/** Public keys of the peers of a device, in hexadecimal digits. */
export async function peersOf(place: Place): Promise<readonly string[]> {
  return [...(await exchange(place, 'get=1')).matchAll(/^public_key=(\w+)$/gm)].map(([, key = '']) => key).toSorted();
}

/** Configuration of a node's device, a line for each property of it and of each peer; none without a device. Private keys are hashed. */
export async function wireGuardLines(place: Place): Promise<readonly string[]> {
  if (!existsSync(socketOf(place))) return [];
  let of = 'device';
  return (await exchange(place, 'get=1')).split('\n').flatMap((line) => {
    if (line === '' || passing.test(line)) return [];
    const [name = '', value = ''] = line.split('=');
    if (name === 'public_key') of = `peer ${value}`;
    const shown =
      name === 'private_key' || name === 'preshared_key' ? createHash('sha256').update(value).digest('hex').slice(0, 16) : value;
    return [`wireguard ${of} ${name}=${shown}`];
  });
}
