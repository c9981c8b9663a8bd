import { ProcessWireGuard } from '../../src/netlink/wireguard/process-wireguard.ts';
import { type WireGuardPair, wireGuardContract } from './wireguard.ts';
import { joinedNamespaces, removeNamespaces } from './wireguard-namespaces.ts';
import { socketFolder, startWireGuardProcess } from './wireguard-processes.ts';

/** Devices of `wireguard-go`, a process in each namespace. */
async function openProcesses(): Promise<WireGuardPair> {
  const pair = joinedNamespaces();
  const [first, second] = pair;
  const wireGuard = new ProcessWireGuard(socketFolder);
  const processes = await Promise.all(pair.map(({ namespace, device }) => startWireGuardProcess(namespace, device)));
  return {
    ends: [
      { ...first, wireGuard },
      { ...second, wireGuard },
    ],
    close: async () => {
      for (const process of processes) await process.end();
      removeNamespaces(pair);
    },
  };
}

wireGuardContract('a process', openProcesses);
