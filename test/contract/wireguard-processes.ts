import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { vi } from 'vitest';

/** Folder in which `wireguard-go` creates its sockets. */
export const socketFolder = '/var/run/wireguard';

/** Starts `wireguard-go` with a device in a namespace, and waits until it answers. */
export async function startWireGuardProcess(namespace: string, device: string): Promise<{ end(): Promise<void> }> {
  const process = spawn('ip', ['netns', 'exec', namespace, 'wireguard-go', '-f', device], { stdio: 'ignore' });
  await vi.waitUntil(() => existsSync(`${socketFolder}/${device}.sock`), { timeout: 20_000 });
  return {
    end: async () => {
      const ended = once(process, 'exit');
      if (process.exitCode === null && process.kill()) await ended;
    },
  };
}
