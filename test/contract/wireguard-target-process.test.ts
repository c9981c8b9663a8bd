import { targetContract } from './target.ts';
import { startWireGuardProcess } from './wireguard-processes.ts';
import { openWireGuardTarget } from './wireguard-target.ts';

targetContract(
  'WireGuardTarget with a process',
  () => {
    const processes: Awaited<ReturnType<typeof startWireGuardProcess>>[] = [];
    const start = async (namespace: string, device: string): Promise<void> => {
      processes.push(await startWireGuardProcess(namespace, device));
    };
    return openWireGuardTarget({
      create: start,
      prepare: ({ namespace, device }) => start(namespace, device),
      close: async () => {
        for (const process of processes) await process.end();
      },
    });
  },
  { refusal: 'all' },
);
