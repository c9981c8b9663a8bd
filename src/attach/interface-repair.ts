import { setTimeout as sleep } from 'node:timers/promises';
import { pause } from '../async/pause.ts';
import { within } from '../async/within.ts';
import { SeineError } from '../errors/seine-error.ts';
import { type AttachedLease, isAttached } from '../ipam/attached-lease.ts';
import type { Ipam } from '../ipam/ipam.ts';
import type { Log } from '../log/log.ts';
import type { Owner } from '../pipeline/cookie.ts';
import { podOwner } from './attachment-names.ts';
import type { GoneInterfaces } from './gone-interfaces.ts';
import type { NodePodNetwork } from './pod-network.ts';

/**
 * How long a program that deletes an interface may take to do what goes with it: delete its namespace, its port or its lease, or
 * end ovs-vswitchd (ms).
 */
const PATIENCE_MS = 150;

/** How long one pod's interface may take, others wait for their turn, and when it is tried again (ms). */
const RECREATE_TIMEOUT_MS = 5_000;
const RECREATE_RETRY_MS = 3_000;

export interface InterfaceRepairPorts {
  readonly gone: GoneInterfaces;
  readonly gateway: {
    readonly name: string;
    readonly recreate: (signal: AbortSignal) => Promise<'done' | 'failed'>;
  };
  readonly ipam: Pick<Ipam, 'leases' | 'leaseOf' | 'confirm'>;
  readonly network: Pick<NodePodNetwork, 'recreate'>;
  /** Resolves once ovs-vswitchd has seen that the bridge has no such port. */
  readonly unplug: (port: string, signal: AbortSignal) => Promise<void>;
  /** For the history of repairs. */
  readonly repaired: (lease: AttachedLease, owner: Owner) => void;
  readonly log: Log;
}

/** Makes interfaces anew that were deleted while they were in use: the gateway, and those of running pods. */
export async function repairInterfaces(ports: InterfaceRepairPorts, signal: AbortSignal): Promise<void> {
  const { gone, gateway, ipam } = ports;
  while (!signal.aborted) {
    await gone.wait(signal);
    await pause(PATIENCE_MS, signal);
    const names = gone.take();
    if (signal.aborted) return;
    if (names.has(gateway.name) && (await gateway.recreate(signal)) === 'failed') gone.note(gateway.name);
    for (const lease of ipam.leases().filter(isAttached))
      if (lease.state === 'allocated' && names.has(lease.attached.hostIfName)) await recreatePodInterface(ports, lease, signal);
  }
}

/** What fails is tried again a little later: meanwhile it is others' turn. */
async function recreatePodInterface(ports: InterfaceRepairPorts, lease: AttachedLease, signal: AbortSignal): Promise<void> {
  const { gone, ipam, network, unplug, log } = ports;
  const { hostIfName } = lease.attached;
  const pod = { pod: lease.pod?.name, container: lease.containerId, interface: hostIfName };
  const series = `interface ${hostIfName}`;
  const enough = within(signal, RECREATE_TIMEOUT_MS);
  try {
    const recreated = await network.recreate(lease, (port) => unplug(port, enough), enough);
    if (!recreated) return;
    if (ipam.leaseOf(lease)?.serial === lease.serial) ipam.confirm(lease, recreated);
    ports.repaired(lease, podOwner(lease, lease.pod));
    log.working(series);
    log.warn('the interface of a running pod was gone; it is made anew', pod);
  } catch (thrown) {
    if (signal.aborted) return;
    const { code, message: cause } = SeineError.from(thrown, 'make the interface anew');
    // Its namespace has gone as well: the runtime takes the pod down, and a DEL will come.
    if (code === 'INVALID_INPUT') log.info('the interface of a pod is gone and is not made anew', { ...pod, cause });
    else {
      log.failing(series, 'the interface of a pod is gone and is not made anew yet', { ...pod, cause }, 'error');
      noteLater(gone, hostIfName, signal);
    }
  }
}

function noteLater(gone: GoneInterfaces, name: string, signal: AbortSignal): void {
  sleep(RECREATE_RETRY_MS, undefined, { signal, ref: false }).then(
    () => gone.note(name),
    () => undefined, // the agent stops
  );
}
