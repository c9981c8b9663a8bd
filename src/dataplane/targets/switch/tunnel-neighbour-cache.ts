import { withDaemonControl } from './daemon-control.ts';

/** The Ethernet address of a neighbour on a bridge of the userspace data path. */
interface TunnelNeighbour {
  readonly bridge: string;
  /** Canonical text. */
  readonly address: string;
  readonly mac: string;
}

/**
 * Has ovs-vswitchd send tunnel packets for these neighbours to these Ethernet addresses, like `ovs-appctl tnl/neigh/set`. Nothing is changed where it
 * does so already.
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
