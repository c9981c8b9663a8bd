import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { vi } from 'vitest';
import { ProcessWireGuard } from '../../src/netlink/wireguard/process-wireguard.ts';
import { type WireGuardPair, wireGuardContract } from './wireguard.ts';
import { joinedNamespaces, removeNamespaces } from './wireguard-namespaces.ts';

const folder = '/var/run/wireguard';

/** Devices of `wireguard-go`, a process in each namespace. */
async function openProcesses(): Promise<WireGuardPair> {
  const pair = joinedNamespaces();
  const wireGuard = new ProcessWireGuard(folder);
  const processes = pair.map(({ namespace, device }) =>
    spawn('ip', ['netns', 'exec', namespace, 'wireguard-go', '-f', device], { stdio: 'ignore' }),
  );
  const [first, second] = pair;
  await vi.waitUntil(() => pair.every(({ device }) => existsSync(`${folder}/${device}.sock`)), { timeout: 20_000 });
  return {
    ends: [
      { ...first, wireGuard },
      { ...second, wireGuard },
    ],
    close: async () => {
      for (const process of processes) {
        const ended = once(process, 'exit');
        if (process.kill()) await ended;
      }
      removeNamespaces(pair);
    },
  };
}

wireGuardContract('a process', openProcesses);
