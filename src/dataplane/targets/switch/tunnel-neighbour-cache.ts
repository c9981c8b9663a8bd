import { withDaemonControl } from './daemon-control.ts';

/** Ethernet address of a neighbour on a bridge of the userspace data path. */
interface TunnelNeighbour {
  readonly bridge: string;
  /** IP address in canonical text. */
  readonly address: string;
  readonly mac: string;
}

/**
 * Sets the Ethernet addresses to which ovs-vswitchd sends tunnel packets for these neighbours, like `ovs-appctl tnl/neigh/set`. Entries
 * that are already right are not changed.
 *
 * @param runDir OVS_RUNDIR
 * @throws SeineError `UNAVAILABLE` if the daemon does not answer; `REFUSED` if it has no such command; `CANCELLED`
 */
export async function setTunnelNeighbours(runDir: string, neighbours: readonly TunnelNeighbour[], signal: AbortSignal): Promise<void> {
  await withDaemonControl(
    runDir,
    async (session) => {
      for (const { bridge, address, mac } of neighbours)
        await session.call({ method: 'tnl/neigh/set', params: [bridge, address, mac] }, () => undefined, signal);
    },
    signal,
  );
}
