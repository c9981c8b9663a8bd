import { setTimeout as sleep } from 'node:timers/promises';
import { unplugPort } from '../datapath/replug-port.ts';
import { SeineError } from '../errors/seine-error.ts';
import type { Log } from '../log/log.ts';
import { getLink } from '../netlink/links.ts';
import { ofPorts } from '../pipeline/well-known.ts';
import type { Agent, RunningNode } from './agent.ts';
import { type AttachedLease, isAttached } from './attached-lease.ts';
import { podOwner } from './attachment-names.ts';

/**
 * How long whoever deletes an interface may take to do what goes with it: delete its namespace, its port or its lease, or end
 * ovs-vswitchd (ms).
 */
const PATIENCE_MS = 150;

/** How long the switch may take to put a port back (ms). */
const PLUG_PATIENCE_MS = 1_000;

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
    await sleep(PATIENCE_MS, undefined, { signal }).catch(() => undefined); // the loop sees an abort
    const gone = new Set(names);
    names.clear();
    if (signal.aborted) return;
    if (gone.has(config.hostGateway)) await remakeGateway(agent, log, signal);
    for (const lease of node.ipam.leases().filter(isAttached))
      if (lease.state === 'allocated' && gone.has(lease.attached.hostIfName)) await remakePod(agent, lease, { node, log, signal });
  }
}

async function remakeGateway(agent: Agent, log: Log, signal: AbortSignal): Promise<void> {
  const { host, openflow, ports, goneLinks } = agent.plane;
  const { hostGateway: name } = agent.config;
  // If ovs-vswitchd has gone, so has its gateway, and it brings it back.
  if (getLink(host.socket, name) || !openflow.isUp || ports.ofPort(name) !== ofPorts.gateway) return;
  log.warn('the gateway was deleted; it is made anew', { interface: name });
  try {
    await replug(agent, name, signal);
    await ports.whenPlugged(name, ofPorts.gateway, patience(signal));
    log.working('gateway');
  } catch (thrown) {
    if (signal.aborted) return;
    const { message: cause } = SeineError.from(thrown, 'remake');
    log.failing('gateway', 'the gateway was deleted and is not made anew yet', { interface: name, cause }, 'error');
    goneLinks.names.add(name);
    goneLinks.bell.ring();
  }
}

/** Lets ovs-vswitchd open an interface anew. */
async function replug({ plane, config }: Agent, name: string, signal: AbortSignal): Promise<void> {
  const { database, datapath, hold, lock } = plane;
  hold.why = `port ${name} is being made anew`;
  try {
    await unplugPort({ database, bridge: config.ovsBridge, lock: lock.name }, name, patience(signal));
  } finally {
    hold.why = undefined;
    datapath.reconcilers.switch.suspect();
  }
}

function patience(signal: AbortSignal): AbortSignal {
  return AbortSignal.any([signal, AbortSignal.timeout(PLUG_PATIENCE_MS)]);
}

async function remakePod(agent: Agent, lease: AttachedLease, { node, log, signal }: LostLinks): Promise<void> {
  const { hostIfName } = lease.attached;
  const pod = { pod: lease.pod?.name, container: lease.containerId, interface: hostIfName };
  if (getLink(agent.plane.host.socket, hostIfName)) return;
  try {
    await replug(agent, hostIfName, signal);
    const remade = await node.network.remake(lease, signal);
    if (!remade) return;
    if (node.ipam.leaseOf(lease)?.serial === lease.serial) node.ipam.confirm(lease, remade);
    agent.repairs.note('interface', [lease], () => [podOwner(lease, lease.pod)]);
    log.warn('the interface of a running pod was gone; it is made anew', pod);
  } catch (thrown) {
    const error = SeineError.from(thrown, 'remake');
    // Its namespace has gone as well: the runtime takes the pod down, and a DEL will come.
    const level = error.code === 'INVALID_INPUT' ? 'info' : 'error';
    log[level]('the interface of a pod is gone and is not made anew', { ...pod, cause: error.message });
  }
}
