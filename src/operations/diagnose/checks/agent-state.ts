import type { Finding } from '../../../api/check.ts';
import type { HealthReport, Problem } from '../../../api/problem.ts';
import { priority } from '../../../dataplane/pipeline/flow.ts';
import { tables } from '../../../dataplane/pipeline/tables.ts';
import { type ConnectionTable, readDatapathLoad } from '../../../dataplane/targets/switch/datapath-load.ts';
import type { Readiness } from '../../../nodes/local/readiness.ts';
import type { OpenFlowConnection } from '../../../openflow/connection/connection.ts';
import { type GuardDropsPort, readGuardDrops } from '../entries/guard-drops.ts';
import { associationsOfOneSender, readFullShares, readUnlearnedAssociations } from '../entries/sctp-associations.ts';
import { readUnknownTunnelPeers } from '../entries/unknown-peers.ts';
import { type Check, fine, reportAll, trouble } from './check.ts';

/** Maximum number of unknown addresses that are named. */
const NAMED_MAX = 5;
/** Used part of a table of connections above which it is nearly full. */
const NEARLY_FULL = 0.8;

export interface AgentStatePort {
  readonly readiness: Pick<Readiness, 'state'>;
  readonly repair: { readonly secondsLeft: number };
  readonly health: { report(): HealthReport };
}

/** Problems that other findings report; of `node`, those of the firewall. */
const foundElsewhere = new Set<Problem['kind']>(['agent.ready', 'agent.repair', 'connection', 'source', 'part.drift', 'cni']);
/** Problems that lose no packets now. */
const warned = new Set<Problem['kind']>(['object', 'source.object', 'addresses', 'held', 'check.failing']);
const PROBLEMS_NAMED_MAX = 5;

/** Reads flows with their counters from the bridge. */
export interface FlowDumpPort {
  readonly openflow: Pick<OpenFlowConnection, 'dumpFlows'>;
}

/** Checks that the agent serves pods, and repairs foreign changes. */
export function agentState({ readiness, repair, health }: AgentStatePort): Check {
  return {
    name: 'agent',
    run: (_, reporter) => {
      reportAll(reporter, assessAgent(readiness.state(), repair.secondsLeft));
      reporter.finding(assessHealth(health.report()));
    },
  };
}

export function assessHealth({ problems, healthChecks }: Pick<HealthReport, 'problems' | 'healthChecks'>): Finding {
  const own = problems.filter(({ kind, about }) => !foundElsewhere.has(kind) && !(kind === 'node' && about === 'firewall'));
  const stale = healthChecks.filter(({ state }) => state !== 'fresh').map(({ name }) => name);
  if (own.length > 0) {
    const named = own.slice(0, PROBLEMS_NAMED_MAX).map(({ message }) => message);
    const more = own.length > named.length ? [`and ${own.length - named.length} more`] : [];
    return trouble('agent.problems', own.every(({ kind }) => warned.has(kind)) ? 'warning' : 'problem', {
      what: [...named, ...more].join('; '),
      effect: 'see the message: the agent is repairing it, or cannot',
      remedy: own.find(({ remedy }) => remedy !== undefined)?.remedy ?? 'seinectl status',
    });
  }
  if (stale.length === 0) return fine('agent.problems', `none; all ${healthChecks.length} periodic checks are within their deadline`);
  return trouble('agent.problems', 'warning', {
    what: `periodic checks overdue: ${stale.join(', ')}`,
    effect: 'a foreign change that no event announced is not seen there',
    remedy: 'seinectl status',
  });
}

export function assessAgent(
  state: { readonly state: 'ready' } | { readonly state: 'starting' | 'impaired'; readonly reason: string },
  pausedSeconds: number,
): readonly Finding[] {
  const readiness =
    state.state === 'ready'
      ? fine('agent.ready', 'pods are served')
      : trouble('agent.ready', 'problem', {
          what: `the agent is not ready: ${state.reason}`,
          effect: 'no pod can start or stop here; forwarding continues unchanged',
          remedy: 'seinectl status',
        });
  if (pausedSeconds === 0) return [readiness];
  const paused = trouble('agent.repair', 'warning', {
    what: `repair is paused for another ${pausedSeconds} s`,
    effect: 'foreign changes to flows, routes and rules are not repaired until it resumes',
    remedy: 'seinectl resume',
  });
  return [readiness, paused];
}

/** Checks for unknown senders of tunnel packets: these are dropped. */
export function unknownTunnelPeers({ openflow }: FlowDumpPort): Check {
  return {
    name: 'tunnel.unknownPeers',
    run: async (_, reporter, signal) =>
      reporter.finding(assessUnknownTunnelPeers([...(await readUnknownTunnelPeers(openflow, signal)).keys()])),
  };
}

export function assessUnknownTunnelPeers(addresses: readonly string[]): Finding {
  if (addresses.length === 0) return fine('tunnel.unknownPeers', 'all tunnel packets come from nodes');
  const named = addresses.toSorted().slice(0, NAMED_MAX).join(', ');
  return trouble('tunnel.unknownPeers', 'warning', {
    what: `tunnel packets from ${named}${addresses.length > NAMED_MAX ? ` and ${addresses.length - NAMED_MAX} more addresses` : ''}, which ${addresses.length === 1 ? 'is not a node' : 'are not nodes'}`,
    effect:
      'they are dropped. If it is a node behind address translation, or with another address than in its Node object, its pods are not reachable',
    remedy: 'kubectl get nodes -o wide',
  });
}

/**
 * Checks for SCTP associations that the bridge could not learn, because the share of their senders is full: their replies may be denied.
 */
export function associations({ openflow }: FlowDumpPort): Check {
  return {
    name: 'ovs.associations',
    run: async (_, reporter, signal) =>
      reporter.finding(assessAssociations(await readFullShares(openflow, signal), await readUnlearnedAssociations(openflow, signal))),
  };
}

export function assessAssociations(full: readonly string[], unlearned: bigint): Finding {
  if (full.length === 0) return fine('ovs.associations', 'no sender has used up its share of SCTP associations');
  const named = full.slice(0, NAMED_MAX).join(', ');
  return trouble('ovs.associations', 'warning', {
    what: `${named}${full.length > NAMED_MAX ? ` and ${full.length - NAMED_MAX} more addresses` : ''} opened more than ${associationsOfOneSender} SCTP associations in 100 s; ${unlearned} packets belong to associations that the bridge did not learn`,
    effect:
      'if policies isolate an end of such an association, its replies are denied until older ones end; other senders are not affected',
    remedy: 'seinectl get flows --table associations    # then open fewer associations',
  });
}

/** Checks for packets of other nodes with source addresses that are not their pods': they are dropped, and counted by one flow. */
export function forged({ openflow }: FlowDumpPort): Check {
  return {
    name: 'tunnel.forged',
    run: async (_, reporter, signal) => {
      let packets = 0n;
      await openflow.dumpFlows(
        { table: tables.spoofGuard.id },
        (flow) => {
          if (flow.priority === priority.lowest) packets += flow.packets;
        },
        signal,
      );
      reporter.finding(assessForged(packets));
    },
  };
}

export function assessForged(packets: bigint): Finding {
  if (packets === 0n) return fine('tunnel.forged', 'other nodes send what their pods send');
  return trouble('tunnel.forged', 'warning', {
    what: `${packets} packets came from other nodes with sources that are in none of their pod networks`,
    effect:
      'they are dropped. A process of a node that binds to another address than the gateway’s does not reach pods of other nodes; packets of pods with addresses of a network that their node no longer has are dropped',
    remedy: "ovs-ofctl -O OpenFlow15 --names dump-flows br-int 'table=spoofGuard,in_port=antrea-tun0'    # then find the node that does it",
  });
}

/** Checks for packets with pods' addresses that arrived without a tunnel: they are dropped, and counted by nftables. */
export function underlayForged({ netfilter }: GuardDropsPort): Check {
  return { name: 'underlay.forged', run: (_, reporter) => reporter.finding(assessUnderlayForged(readGuardDrops({ netfilter }))) };
}

export function assessUnderlayForged(drops: ReadonlyMap<string, number>): Finding {
  const counted = [...drops].filter(([, packets]) => packets > 0).map(([family, packets]) => `${packets} (${family})`);
  if (counted.length === 0) return fine('underlay.forged', 'no packet with a pod’s address arrived without a tunnel');
  return trouble('underlay.forged', 'warning', {
    what: `packets with addresses of pods or gateways arrived without a tunnel: ${counted.join(', ')}`,
    effect:
      'they are dropped. A host on a link of this node forges them, or another network plugin or route sends pods’ traffic past the tunnel',
    remedy: 'tcpdump -ni any -e src net NETWORK    # for each pod network of `nft list set inet seine pods4`, then find the sender',
  });
}

export interface ConnectionsPort {
  readonly config: { readonly ovsDatapathType: 'system' | 'netdev'; readonly ovsRunDir: string };
}

/** Checks the fill level of the tables of tracked connections. */
export function connections({ config }: ConnectionsPort): Check {
  return {
    name: 'connections',
    run: async (_, reporter, signal) => {
      const load = await readDatapathLoad(config.ovsDatapathType, config.ovsRunDir, signal);
      reporter.finding(assessConnections(load.connections));
    },
  };
}

/** Checks for datagrams that connection tracking on the userspace data path could not reassemble. */
export function fragments({ config }: ConnectionsPort): Check {
  return {
    name: 'ovs.fragments',
    run: async (_, reporter, signal) => {
      const load = await readDatapathLoad(config.ovsDatapathType, config.ovsRunDir, signal);
      reporter.finding(assessFragments(load.lostFragments));
    },
  };
}

export function assessFragments(lost: number | undefined): Finding {
  if (lost === undefined)
    return fine('ovs.fragments', 'this data path reassembles datagrams of any number of fragments, or does not count them');
  if (lost === 0) return fine('ovs.fragments', 'no fragments were dropped');
  return trouble('ovs.fragments', 'warning', {
    what: `${lost} IP fragments were dropped since ovs-vswitchd started, because their datagrams were not complete in time`,
    effect:
      'datagrams of more than 32 fragments do not arrive on the userspace data path, nor those of which the network lost a fragment; while 1,000 fragments wait, all others are dropped',
    remedy:
      'ovs-appctl dpctl/ipf-get-status    # then make applications send datagrams of at most 32 fragments, or set ovsDatapathType: system',
  });
}

export function assessConnections(all: readonly ConnectionTable[]): Finding {
  const full = all.filter(({ entries, limit }) => limit > 0 && entries >= limit * NEARLY_FULL);
  const words = all.map(({ table, entries, limit }) => `${table}: ${entries} of ${limit} connections`).join(', ');
  if (full.length === 0) return fine('connections', words === '' ? 'this data path does not report the number of connections' : words);
  return trouble('connections', full.some(({ entries, limit }) => entries >= limit) ? 'problem' : 'warning', {
    what: words,
    effect: 'new connections are dropped once it is full; known ones continue',
    remedy: full.some(({ table }) => table === 'kernel')
      ? 'sysctl -w net.netfilter.nf_conntrack_max=1048576'
      : 'ovs-appctl dpctl/ct-set-maxconns 3000000',
  });
}
