import { pause } from '../../base/async/pause.ts';
import { within } from '../../base/async/time-limit.ts';
import type { Doorbell } from '../../base/async/wake-signal.ts';
import { SeineError } from '../../base/errors/seine-error.ts';
import type { Log } from '../../base/log/log.ts';
import { ofPorts } from '../../dataplane/pipeline/well-known.ts';
import type { PortWatch } from '../../dataplane/targets/switch/port-watch.ts';

/** Time that a program which deletes the gateway may take to stop ovs-vswitchd as well (ms). */
const PATIENCE_MS = 150;
/** Time that ovs-vswitchd may take to restore a port (ms). */
const PLUG_PATIENCE_MS = 1_000;
/** Interval between checks for the gateway (ms): it may have been deleted before the kernel's events were received, or events were lost. */
const CHECK_EVERY_MS = 4_000;

interface GatewayRepairPorts {
  /** Name of the gateway's interface. */
  readonly name: string;
  readonly exists: () => boolean;
  readonly isSwitchUp: () => boolean;
  readonly ports: Pick<PortWatch, 'ofPort' | 'whenPlugged'>;
  /** Requests the node's OVS ports, all or all but one. @returns the revision */
  readonly wantPorts: (without?: string) => number;
  /** Waits until OVSDB has a revision. */
  readonly realized: (revision: number, signal: AbortSignal) => Promise<void>;
  /** Resolves once ovs-vswitchd has noticed that the bridge does not have this port. */
  readonly unplug: (port: string, signal: AbortSignal) => Promise<void>;
  readonly log: Log;
}

/** Recreates the gateway's interface whenever it was deleted, until the signal. */
export async function repairGateway(gateway: GatewayRepairPorts, gone: Doorbell, signal: AbortSignal): Promise<void> {
  gone.ring();
  while (!signal.aborted) {
    await gone.wait(within(signal, CHECK_EVERY_MS));
    await pause(PATIENCE_MS, signal);
    if (!signal.aborted && (await recreateGateway(gateway, signal)) === 'failed') gone.ring();
  }
}

/**
 * Makes ovs-vswitchd recreate the gateway's interface after it was deleted: it does so once it has noticed that the port was removed.
 *
 * @returns `failed` if it is to be retried
 */
async function recreateGateway(node: GatewayRepairPorts, signal: AbortSignal): Promise<'done' | 'failed'> {
  const { name, ports, log } = node;
  // If ovs-vswitchd has stopped, its gateway is gone with it, and it restores it.
  if (node.exists() || !node.isSwitchUp() || ports.ofPort(name) !== ofPorts.gateway) return 'done';
  log.warn('the gateway was deleted; recreating it', { interface: name });
  try {
    try {
      const enough = patience(signal);
      await node.realized(node.wantPorts(name), enough);
      await node.unplug(name, enough);
    } finally {
      node.wantPorts();
    }
    await ports.whenPlugged(name, ofPorts.gateway, patience(signal));
    log.working('gateway');
    return 'done';
  } catch (thrown) {
    if (signal.aborted) return 'done';
    const { message: cause } = SeineError.from(thrown, 'recreate the gateway');
    log.failing('gateway', 'the gateway was deleted and is not recreated yet', { interface: name, cause }, 'error');
    return 'failed';
  }
}

function patience(signal: AbortSignal): AbortSignal {
  return within(signal, PLUG_PATIENCE_MS);
}
