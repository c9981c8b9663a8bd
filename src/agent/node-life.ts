import { familiesOf, type NodeEnvironment, ownCidrs } from '../connectivity/environment.ts';
import { SeineError } from '../errors/seine-error.ts';
import type { Log } from '../log/log.ts';
import { type Cidr, cidrOf } from '../net/ip.ts';
import type { Agent, RunningNode } from './agent.ts';
import { isAttached } from './attached-lease.ts';
import { applyHostSettings } from './host-settings.ts';
import type { Ipam } from './ipam/ipam.ts';
import type { LiveEnvironment } from './live-environment.ts';
import { carrierOf, readHostInterfaces } from './node-environment.ts';
import { poolsOf, wishForNode } from './node-wishes.ts';

import { resizePod } from './pod-resize.ts';
import { Quiet } from './quiet.ts';

/** An interface that is set up anew loses its address for a moment: how long to wait for more news of the node (ms). */
const SETTLE_MS = 100;

export interface NodeLife {
  readonly live: LiveEnvironment;
  readonly node: RunningNode;
  readonly log: Log;
  readonly signal: AbortSignal;
}

/**
 * Lets everything follow what the node is: its pod networks, its transport address, its MTU. Pods keep their addresses whatever
 * becomes of the node's networks; the gateway keeps the addresses of the former ones until the last of their pods is gone.
 */
export async function followNode(agent: Agent, life: NodeLife): Promise<void> {
  const { live, node, signal } = life;
  const { nodes } = agent.sources;
  const look = new Quiet({ waitMs: SETTLE_MS, restMs: () => SETTLE_MS }, () => live.look(), signal);
  const endChanges = live.subscribe((now, before) => follow(agent, life, now, before));
  const endNode = nodes.replica.subscribe((names) => {
    if (names.has(agent.config.nodeName)) look.ring();
  });
  live.countPods(() => usedCidrs(node.ipam));
  resizePods(agent, life, live.current);
  signal.addEventListener('abort', () => agent.plane.nodeChanged.ring(), { once: true });
  while (!signal.aborted) {
    await agent.plane.nodeChanged.wait();
    look.ring();
  }
  endChanges();
  endNode();
}

function follow(agent: Agent, life: NodeLife, now: NodeEnvironment, before: NodeEnvironment): void {
  const { node, log } = life;
  const { config, plane } = agent;
  wishForNode(config, plane.datapath, now);
  if (textOf(now.podCidrs) !== textOf(before.podCidrs)) node.ipam.setPools(poolsOf(now));
  if (identityOf(now) !== identityOf(before)) node.peers.lookAgain();
  if (familiesOf(now).join() !== familiesOf(before).join()) {
    setUpHost(agent, now, log);
    node.services.lookAgain();
  }
  if (now.gateway.mtu !== before.gateway.mtu) resizePods(agent, life, now);
}

/** Kernel settings without which packets are lost. */
export function setUpHost({ config, plane }: Agent, environment: NodeEnvironment, log: Log): void {
  const transport = carrierOf(environment.transport, readHostInterfaces(plane.host.socket));
  applyHostSettings(familiesOf(environment), { gateway: config.hostGateway, transport }, log);
  plane.datapath.reconcilers.host.distrust();
}

/** What of a node makes a difference to how its peers are reached. */
function identityOf(environment: NodeEnvironment): string {
  return `${textOf(ownCidrs(environment))} ${textOf(environment.transport)}`;
}

function textOf(values: readonly { readonly text: string }[]): string {
  return values.map(({ text }) => text).join();
}

/** Networks of every pod that the node has, or whose addresses may still be somewhere. Another plugin's are not ours to route. */
function usedCidrs(ipam: Ipam): readonly Cidr[] {
  const cidrs = new Map<string, Cidr>();
  for (const { addresses, ipamType } of ipam.leases()) {
    if (ipamType !== undefined) continue;
    for (const { ip, prefixLength } of addresses) {
      const cidr = cidrOf(ip, prefixLength);
      cidrs.set(cidr.text, cidr);
    }
  }
  return [...cidrs.values()];
}

/** Running pods follow the MTU of the transport: packets too large for the tunnel would be lost without a word. */
function resizePods({ plane }: Agent, { node: { ipam }, log }: NodeLife, { gateway: { mtu } }: NodeEnvironment): void {
  for (const lease of ipam.leases()) {
    if (lease.state !== 'allocated' || !isAttached(lease) || lease.attached.mtu === mtu) continue;
    try {
      resizePod(plane.host.socket, lease, mtu);
      ipam.confirm(lease, { ...lease.attached, mtu });
      log.info('the MTU of a pod follows the node’s', { pod: lease.pod?.name, container: lease.containerId, mtu });
    } catch (thrown) {
      log.failing(`MTU ${lease.containerId}`, 'a pod keeps an MTU that is not the node’s', {
        pod: lease.pod?.name,
        container: lease.containerId,
        mtu: lease.attached.mtu,
        cause: SeineError.from(thrown, 'resize').message,
      });
    }
  }
}
