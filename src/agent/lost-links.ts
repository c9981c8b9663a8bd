import { setTimeout as sleep } from 'node:timers/promises';
import { pause } from '../async/pause.ts';
import { unplugPort } from '../datapath/replug-port.ts';
import { SeineError } from '../errors/seine-error.ts';
import type { Log } from '../log/log.ts';
import { getLink } from '../netlink/links.ts';
import { ofPorts } from '../pipeline/well-known.ts';
import type { Agent, RunningNode } from './agent.ts';
import { type AttachedLease, isAttached } from './attached-lease.ts';
import { podOwner } from './attachment-names.ts';
import { wishForSwitch } from './node-wishes.ts';

/**
 * How long whoever deletes an interface may take to do what goes with it: delete its namespace, its port or its lease, or end
 * ovs-vswitchd (ms).
 */
const PATIENCE_MS = 150;

/** How long the switch may take to put a port back (ms). */
const PLUG_PATIENCE_MS = 1_000;
/** How long one pod's interface may take, others wait for their turn, and when it is tried again (ms). */
const REMAKE_PATIENCE_MS = 5_000;
const REMAKE_AGAIN_MS = 3_000;

export interface LostLinks {
  readonly node: RunningNode;
  readonly log: Log;
  readonly signal: AbortSignal;
}

/** Makes interfaces anew that somebody deleted while they were in use: the gateway, and those of running pods. */
export async function keepLinks(agent: Agent, { node, log, signal }: LostLinks): Promise<void> {
  const { plane, config } = agent;
  const { names, bell } = plane.goneLinks;
  signal.addEventListener('abort', () => bell.ring(), { once: true });
  while (!signal.aborted) {
    await bell.wait();
    await pause(PATIENCE_MS, signal);
    const gone = new Set(names);
    names.clear();
    if (signal.aborted) return;
    if (gone.has(config.hostGateway)) await remakeGateway(agent, { node, log, signal });
    for (const lease of node.ipam.leases().filter(isAttached))
      if (lease.state === 'allocated' && gone.has(lease.attached.hostIfName)) await remakePod(agent, lease, { node, log, signal });
  }
}

/** ovs-vswitchd makes it, once it has seen that the port was gone. */
async function remakeGateway(agent: Agent, { node, log, signal }: LostLinks): Promise<void> {
  const { host, openflow, ports, datapath } = agent.plane;
  const { hostGateway: name } = agent.config;
  // If ovs-vswitchd has gone, so has its gateway, and it brings it back.
  if (getLink(host.socket, name) || !openflow.isUp || ports.ofPort(name) !== ofPorts.gateway) return;
  log.warn('the gateway was deleted; it is made anew', { interface: name });
  const wish = (without?: string): number => wishForSwitch(agent.config, datapath, node.environment, without);
  try {
    try {
      const enough = patience(signal);
      await datapath.reconcilers.switch.realized(wish(name), enough);
      await letGo(agent, name, enough);
    } finally {
      wish();
    }
    await ports.whenPlugged(name, ofPorts.gateway, patience(signal));
    log.working('gateway');
  } catch (thrown) {
    if (signal.aborted) return;
    const { message: cause } = SeineError.from(thrown, 'remake');
    log.failing('gateway', 'the gateway was deleted and is not made anew yet', { interface: name, cause }, 'error');
    ask(agent, name);
  }
}

/** Returns once ovs-vswitchd has seen that the bridge has no such port. */
async function letGo(
  { plane: { database, lock }, config }: Pick<Agent, 'plane' | 'config'>,
  name: string,
  signal: AbortSignal,
): Promise<void> {
  await unplugPort({ database, bridge: config.ovsBridge, lock: lock.name }, name, signal);
}

function patience(signal: AbortSignal): AbortSignal {
  return AbortSignal.any([signal, AbortSignal.timeout(PLUG_PATIENCE_MS)]);
}

/** What fails is tried again a little later: meanwhile it is others' turn. */
async function remakePod(agent: Agent, lease: AttachedLease, { node, log, signal }: LostLinks): Promise<void> {
  const { hostIfName } = lease.attached;
  const pod = { pod: lease.pod?.name, container: lease.containerId, interface: hostIfName };
  const series = `interface ${hostIfName}`;
  const enough = AbortSignal.any([signal, AbortSignal.timeout(REMAKE_PATIENCE_MS)]);
  try {
    const remade = await node.network.remake(lease, (port) => letGo(agent, port, enough), enough);
    if (!remade) return;
    if (node.ipam.leaseOf(lease)?.serial === lease.serial) node.ipam.confirm(lease, remade);
    agent.repairs.note('interface', [lease], () => [podOwner(lease, lease.pod)]);
    log.working(series);
    log.warn('the interface of a running pod was gone; it is made anew', pod);
  } catch (thrown) {
    if (signal.aborted) return;
    const { code, message: cause } = SeineError.from(thrown, 'remake');
    // Its namespace has gone as well: the runtime takes the pod down, and a DEL will come.
    if (code === 'INVALID_INPUT') log.info('the interface of a pod is gone and is not made anew', { ...pod, cause });
    else {
      log.failing(series, 'the interface of a pod is gone and is not made anew yet', { ...pod, cause }, 'error');
      askAgain(agent, hostIfName, signal);
    }
  }
}

function ask({ plane: { goneLinks } }: Agent, name: string): void {
  goneLinks.names.add(name);
  goneLinks.bell.ring();
}

function askAgain(agent: Agent, name: string, signal: AbortSignal): void {
  sleep(REMAKE_AGAIN_MS, undefined, { signal, ref: false }).then(
    () => ask(agent, name),
    () => undefined, // the agent stops
  );
}
