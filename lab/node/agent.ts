import { mkdirSync } from 'node:fs';
import { request } from 'node:http';
import { join } from 'node:path';
import { stringify } from 'yaml';
import { SeineError } from '../../src/base/errors/seine-error.ts';
import { parseCidr } from '../../src/base/net/ip.ts';
import { startInBackground } from '../machine/background.ts';
import { livingProcess, writeFileWhole } from '../machine/files.ts';
import { agentEnvironment, agentFlags } from '../machine/installation.ts';
import { inNetns } from '../machine/netns.ts';
import { endProcesses, type ProcessId, signalProcess } from '../machine/process.ts';
import { nodePaths } from '../plan/names.ts';
import { addressing, type LabPlan, type NodePlan } from '../plan/plan.ts';
import { transportInterface } from './topology.ts';
import { wireGuardFolder } from './wireguard.ts';

const stopGraceMs = 10_000;
const readyzTimeoutMs = 1_000;
const readyzBytesMax = 64 * 1024;

/** The agent's configuration for this node: the differences from a host with one node only. */
export function agentConfig(plan: LabPlan, node: NodePlan): Record<string, unknown> {
  const paths = nodePaths(plan.dir, node.name);
  const serviceCidr = (family: string) => plan.serviceCidrs.find((cidr) => parseCidr(cidr).family === family);
  const [v4, v6] = [serviceCidr('ipv4'), serviceCidr('ipv6')];
  return {
    nodeName: node.name,
    kubeconfig: paths.kubeconfig,
    ovsBridge: 'br-int',
    hostGateway: 'antrea-gw0',
    trafficEncapMode: plan.mode ?? 'encap',
    tunnelType: plan.tunnel,
    ...(plan.encryption && { trafficEncryptionMode: 'wireGuard', wireGuard: { socketFolder: wireGuardFolder(plan, node) } }),
    ...(v4 !== undefined && { serviceCIDR: v4 }),
    ...(v6 !== undefined && { serviceCIDRv6: v6 }),
    transportInterface: transportInterface(plan),
    cniSocket: paths.cniSocket,
    apiSocket: paths.apiSocket,
    cniBinDir: paths.cniBinFolder,
    cniConfDir: paths.cniConfFolder,
    stateDir: paths.stateDir,
    ovsRunDir: paths.dir,
    ovsDatapathType: plan.datapath,
    ...(plan.podInterface && { podInterface: plan.podInterface }),
    metricsAddress: '127.0.0.1:10349',
    // Set, not detected: a kube-proxy of the host does not belong to the node.
    proxy: { proxyAll: true, externalIPRanges: externalIpRanges(plan) },
    logLevel: 'info',
  };
}

function externalIpRanges({ families, kubernetes }: LabPlan): string[] {
  const { externalIps, upstreamExternalIp } = addressing;
  return families.flatMap((family) => [externalIps[family], ...(kubernetes === undefined ? [] : [upstreamExternalIp[family]])]);
}

export function writeAgentConfig(plan: LabPlan, node: NodePlan): void {
  const paths = nodePaths(plan.dir, node.name);
  for (const folder of [paths.run, paths.stateDir]) mkdirSync(folder, { recursive: true, mode: 0o700 });
  const left = new Set(plan.withoutAgentKeys);
  const keys = Object.entries(agentConfig(plan, node)).filter(([key]) => !left.has(key));
  writeFileWhole(paths.agentConfig, stringify(Object.fromEntries(keys)));
}

/**
 * Starts the agent of a node, unless it runs. It outlives this process.
 *
 * @param program script for node, e.g. the agent's bundle
 */
export function startAgent(plan: LabPlan, node: NodePlan, program: string): ProcessId {
  const paths = nodePaths(plan.dir, node.name);
  // As in the image. Node creates the folders before the agent can set their owner.
  const line = [process.execPath, ...agentFlags, program, '--config', paths.agentConfig];
  // A test that limits the memory of agents, as a manifest does, names the cgroup.
  const cgroup = process.env['SEINE_LAB_AGENT_CGROUP'] ?? '';
  const start = 'umask 077; cgroup=$1; shift; [ -z "$cgroup" ] || echo $$ > "$cgroup/cgroup.procs"; exec "$@"';
  const { command, args } = inNetns(node.netns, 'sh', ['-c', start, 'sh', cgroup, ...line]);
  const env = { ...agentEnvironment, NODE_COMPILE_CACHE: join(paths.stateDir, 'compile-cache') };
  return startInBackground({ command, args, env, logFile: paths.agentLog, pidFile: paths.agentPid });
}

export function agentProcess(plan: LabPlan, node: NodePlan): ProcessId | undefined {
  return livingProcess(nodePaths(plan.dir, node.name).agentPid);
}

/** Sends SIGTERM to the agent and waits for its end. @throws SeineError `INVALID_INPUT` if none runs */
export async function stopAgent(plan: LabPlan, node: NodePlan): Promise<void> {
  await endProcesses([runningAgent(plan, node)], stopGraceMs);
}

/** Ends the agent as a crash would. @throws SeineError `INVALID_INPUT` if none runs */
export async function killAgent(plan: LabPlan, node: NodePlan): Promise<void> {
  const agent = runningAgent(plan, node);
  signalProcess(agent, 'SIGKILL');
  await endProcesses([agent], 0);
}

function runningAgent(plan: LabPlan, node: NodePlan): ProcessId {
  const agent = agentProcess(plan, node);
  if (agent === undefined) throw new SeineError('INVALID_INPUT', `no agent runs on ${node.name}`);
  return agent;
}

/** Answer of an agent to `GET /readyz` on its socket, or to the probe of a roll-out: ready, or why not. */
export async function agentReadiness(
  apiSocket: string,
  path: '/readyz' | '/readyz/rollout' = '/readyz',
): Promise<{ readonly ready: boolean; readonly says: string }> {
  try {
    const { status, body } = await getFromSocket(apiSocket, path);
    return { ready: status === 200, says: body.trim() };
  } catch (error) {
    return { ready: false, says: error instanceof Error ? error.message : String(error) };
  }
}

function getFromSocket(socketPath: string, path: string): Promise<{ status: number; body: string }> {
  return new Promise((resolve, reject) => {
    const sent = request({ socketPath, path, signal: AbortSignal.timeout(readyzTimeoutMs), agent: false }, (response) => {
      let body = '';
      response.setEncoding('utf8');
      response.on('data', (text: string) => {
        body += text;
        if (body.length > readyzBytesMax) response.destroy(new SeineError('PROTOCOL', 'the response is too long'));
      });
      response.once('error', reject);
      response.once('end', () => resolve({ status: response.statusCode ?? 0, body }));
    });
    sent.once('error', reject);
    sent.end();
  });
}
