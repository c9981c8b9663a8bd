import type { AgentStatus } from '../../api/status.ts';
import { seineVersion } from '../../api/version.ts';
import type { NodeEnvironment } from '../../dataplane/compile/environment.ts';
import type { DatapathCapabilities } from '../../dataplane/targets/switch/datapath-features.ts';
import { ovsVersion } from '../diagnose/versions.ts';
import type { LoopLag } from './metrics/loop-lag.ts';
import type { AgentRecord } from './metrics/record.ts';
import type { HealthPort, NodeHealth } from './problems/node-health.ts';
import { statusFacts } from './problems/status-facts.ts';
import { warningsOf } from './problems/warnings.ts';

interface NodeStatusPort {
  readonly config: {
    readonly nodeName: string;
    readonly ovsBridge: string;
    readonly ovsDatapathType: 'system' | 'netdev';
    readonly trafficEncapMode: 'encap' | 'noEncap' | 'hybrid';
    readonly noSNAT: boolean;
  };
  readonly startedAt: Date;
  /** Keys that are not the default, as text. */
  readonly changedSwitches: readonly string[];
  readonly cni: { readonly chain: AgentStatus['cni'] | undefined };
  readonly dataPath: { readonly capabilities: DatapathCapabilities | undefined };
  readonly node: () => (StatusNode & NonNullable<ReturnType<HealthPort['node']>>) | undefined;
}

/** Node, once it is known. */
interface StatusNode {
  readonly environment: NodeEnvironment;
  readonly services: { readonly count: number };
  readonly proxy: { readonly mode: { readonly sentence: string }; readonly healthz: { readonly sentence: string } };
}

interface SourceStatusPort {
  readonly peers: { peers(): Iterable<unknown> };
}

export type StatusPort = NodeStatusPort & SourceStatusPort & HealthPort;

export interface StatusSources {
  readonly agent: StatusPort;
  readonly record: AgentRecord;
  readonly lag: Pick<LoopLag, 'maxMs'>;
  readonly health: Pick<NodeHealth, 'report'>;
}

/** Data of `seinectl status`. Cheap: no target is read for it. */
export async function agentStatus({ agent, record, lag, health }: StatusSources, signal: AbortSignal): Promise<AgentStatus> {
  const { config, openflow } = agent;
  const ovs = (await ovsVersion(openflow, signal)) ?? null;
  const node = agent.node();
  return {
    node: config.nodeName,
    versions: { seine: seineVersion, node: process.version, ovs },
    pid: process.pid,
    startedAt: agent.startedAt.toISOString(),
    // A monotonic clock: the wall clock may jump.
    uptimeSeconds: Math.round(performance.now() / 1_000),
    ...health.report(),
    bridge: { name: config.ovsBridge, dataPath: config.ovsDatapathType },
    ...(agent.dataPath.capabilities ? { dataPath: agent.dataPath.capabilities } : {}),
    network: node ? networkOf(config, node.environment) : null,
    peers: [...agent.peers.peers()].length,
    services: node?.services.count ?? 0,
    proxy: { proxyAll: node?.proxy.mode.sentence ?? 'not known yet', healthz: node?.proxy.healthz.sentence ?? 'not known yet' },
    ...(agent.cni.chain ? { cni: agent.cni.chain } : {}),
    switches: agent.changedSwitches,
    ...statusFacts(agent, record),
    eventLoop: { lagMsMax: Math.round(lag.maxMs * 10) / 10 },
    warnings: warningsOf(agent),
  };
}

function networkOf(config: NodeStatusPort['config'], environment: NodeEnvironment): AgentStatus['network'] {
  const texts = (values: readonly { readonly text: string }[]): string[] => values.map(({ text }) => text);
  const { gateway, tunnel } = environment;
  return {
    mode: config.trafficEncapMode,
    tunnel: tunnel.type,
    transport: texts(environment.transport),
    podCidrs: texts(environment.podCidrs),
    serviceCidrs: texts(environment.serviceCidrs),
    gateway: gateway.name,
    mtu: gateway.mtu,
    snat: !config.noSNAT,
  };
}
