import { SeineError } from '../../src/base/errors/seine-error.ts';
import type { Log } from '../../src/base/log/log.ts';
import { serveClusterPolicies } from '../kube/cluster-policies.ts';
import { KubeApi } from '../kube/kube-api.ts';
import { kubeconfigText } from '../kube/kubeconfig.ts';
import { writeFileWhole } from '../machine/files.ts';
import { installPrograms } from '../machine/installation.ts';
import { containerProcesses, endProcesses } from '../machine/process.ts';
import { agentProcess, agentReadiness, killAgent, startAgent, stopAgent } from '../node/agent.ts';
import { introduceNodes } from '../node/neighbours.ts';
import { killOvs, type OvsDaemon, startOvs } from '../node/ovs.ts';
import { createSwitches } from '../node/topology.ts';
import { labPaths, nodePaths } from '../plan/names.ts';
import type { LabPlan, NodePlan } from '../plan/plan.ts';
import { Responder } from '../probe/responder.ts';
import { ControlPlane } from '../real-kubernetes/control-plane.ts';
import type { NodeProgram } from '../real-kubernetes/node-runtime.ts';
import { createAgentPods } from './agent-pods.ts';
import { type ApiAccess, openApi, openRealApi } from './api-access.ts';
import { LabKubelets } from './lab-kubelets.ts';
import { configureNode, raiseNode } from './node-runner.ts';
import type { PodRunners } from './pod-runners.ts';
import { RealKubelets } from './real-kubelets.ts';
import { StartProgress } from './start-progress.ts';
import { type LabStatus, LabVersions, nodeStatus } from './status.ts';

/** The end of an agent is noticed immediately; this limit is for emulated hosts that share their CPUs. */
const readyDeadlineMs = 480_000;
const pollMs = 50;

/** Kinds that a server with an empty cache does not show: those that agents follow, and none that kubelets require. */
const forgettable = ['nodes', 'services', 'endpointslices'];

interface LabSettings {
  readonly plan: LabPlan;
  /** Script that node runs as the agent. */
  readonly agentProgram: string;
  readonly log: Log;
}

/** A running lab: the state of its daemon. Open vSwitch and the agents are separate processes that outlive it. */
export class Lab {
  readonly progress = new StartProgress();
  readonly #settings: LabSettings;
  readonly #controlPlane: ControlPlane | undefined;
  readonly #runners: PodRunners;
  readonly #versions = new LabVersions();
  #access: ApiAccess | undefined;
  #api: KubeApi | undefined;
  #external: Responder | undefined;

  constructor(settings: LabSettings) {
    this.#settings = settings;
    const { plan, log } = settings;
    const { kubernetes: programs, controlPlane = programs } = plan;
    this.#controlPlane = controlPlane && new ControlPlane(plan, controlPlane);
    this.#runners =
      programs && this.#controlPlane
        ? new RealKubelets({ plan, programs, controlPlane: this.#controlPlane, log })
        : new LabKubelets(plan, log);
  }

  /** Starts what does not run yet, and resolves when every node takes pods. @throws SeineError naming what did not start */
  async start(signal: AbortSignal): Promise<void> {
    const { plan, agentProgram, log } = this.#settings;
    const { progress } = this;
    await endProcesses(containerProcesses(plan.id), 0);
    progress.step('switches between the nodes');
    await createSwitches(plan, signal);
    const pluginFolders = installPrograms(labPaths(plan.dir).bin);
    progress.step(`${plan.bare ? 'wires of' : 'Open vSwitch on'} ${plan.nodes.length} nodes, API server`);
    const raising = plan.nodes.map((node) => raiseNode(plan, node, signal));
    const [access] = await Promise.all([this.#openApi([], signal), ...raising]);
    this.#access = access;
    this.#api = new KubeApi(access.fromMachine);
    writeFileWhole(labPaths(plan.dir).kubeconfig, kubeconfigText(access.fromMachine, `seine-lab-${plan.id}`));
    if (plan.agentPods === true) await createAgentPods(plan, this.#api, signal);
    if (plan.clusterPolicies === true) await serveClusterPolicies(this.#api, signal);
    progress.step(plan.bare ? 'kubelets' : 'agents and kubelets');
    if (!plan.bare) {
      await Promise.all(plan.nodes.map((node) => configureNode(plan, node, access.fromNodes, pluginFolders, signal)));
      for (const node of plan.nodes) startAgent(plan, node, agentProgram);
    }
    await this.#runners.start(this.#api, pluginFolders, signal);
    this.#external = await this.#startOutside(signal);
    await this.#allReady(signal);
    if (plan.datapath === 'netdev' && !plan.bare) await introduceNodes(plan, signal);
    log.info('the lab is ready', { nodes: plan.nodes.length });
  }

  /** Ends everything in this process. */
  async close(): Promise<void> {
    this.#external?.close();
    this.#api?.close();
    await this.#access?.close();
    await this.#runners.ended();
  }

  async status(signal: AbortSignal): Promise<LabStatus> {
    const { plan } = this.#settings;
    return {
      lab: plan.id,
      dir: plan.dir,
      kubeconfig: labPaths(plan.dir).kubeconfig,
      nodes: plan.nodes.map((node) => nodeStatus(plan, node)),
      pods: this.#runners.running,
      versions: await this.#versions.read(signal),
    };
  }

  /** Runs CHECK of the plugin chain for a pod. @throws SeineError `REFUSED` naming the difference */
  async check(namespace: string, name: string, signal: AbortSignal): Promise<void> {
    await this.#runners.check(namespace, name, signal);
  }

  async agent(nodeName: string, verb: 'start' | 'stop' | 'kill'): Promise<void> {
    const { plan, agentProgram } = this.#settings;
    const node = this.#equipped(nodeName);
    if (verb === 'start') startAgent(plan, node, agentProgram);
    else if (verb === 'stop') await stopAgent(plan, node);
    else await killAgent(plan, node);
  }

  /**
   * Starts or stops the lab's own API server. Its objects outlive it, and its address and credentials stay. After `start-empty` it shows
   * nodes and Services only to quorum reads, until it is restarted.
   */
  async apiServer(verb: 'start' | 'start-empty' | 'stop', signal: AbortSignal): Promise<void> {
    const { plan } = this.#settings;
    if (plan.kubeconfig !== undefined) throw new SeineError('INVALID_INPUT', "the API server is not the lab's own");
    if (this.#controlPlane !== undefined) return this.#turnRealApiServer(this.#controlPlane, verb, signal);
    const running = this.#access;
    if (verb === 'stop') {
      this.#access = undefined;
      await running?.close();
    } else this.#access = running ?? (await openApi(plan, verb === 'start-empty' ? forgettable : []));
  }

  /** @throws SeineError `INVALID_INPUT` if the lab has no real runtime */
  async turn(nodeName: string, program: NodeProgram, verb: 'start' | 'stop' | 'kill', signal: AbortSignal): Promise<void> {
    const { name } = this.#node(nodeName);
    if (!(this.#runners instanceof RealKubelets))
      throw new SeineError('INVALID_INPUT', `this lab has no ${program} of its own: it was made without --kubernetes`);
    await this.#runners.turn(name, program, verb, signal);
  }

  async killOvs(nodeName: string, daemons: readonly OvsDaemon[]): Promise<void> {
    await killOvs(nodePaths(this.#settings.plan.dir, this.#equipped(nodeName).name).dir, daemons);
  }

  async startOvs(nodeName: string, signal: AbortSignal): Promise<void> {
    await startOvs(this.#settings.plan, this.#equipped(nodeName), signal);
  }

  async #turnRealApiServer(controlPlane: ControlPlane, verb: 'start' | 'start-empty' | 'stop', signal: AbortSignal): Promise<void> {
    if (verb === 'start-empty') throw new SeineError('INVALID_INPUT', 'a real API server does not start empty');
    if (verb === 'stop') await controlPlane.stopApiServer();
    else if (this.#access) await controlPlane.startApiServer(this.#access.fromMachine, signal);
  }

  #node(name: string): NodePlan {
    const node = this.#settings.plan.nodes.find((known) => known.name === name);
    if (node === undefined)
      throw new SeineError(
        'INVALID_INPUT',
        `no node ${name}; there are ${this.#settings.plan.nodes.map((known) => known.name).join(', ')}`,
      );
    return node;
  }

  /** A node with Open vSwitch and agent from the lab. @throws SeineError `INVALID_INPUT` */
  #equipped(name: string): NodePlan {
    if (this.#settings.plan.bare)
      throw new SeineError('INVALID_INPUT', 'a bare lab has no agents and no Open vSwitch of its own: what was installed runs in pods');
    return this.#node(name);
  }

  #openApi(forgotten: readonly string[], signal: AbortSignal): Promise<ApiAccess> {
    const { plan } = this.#settings;
    return this.#controlPlane === undefined ? openApi(plan, forgotten) : openRealApi(plan, this.#controlPlane, signal);
  }

  /** Answers on port 80 outside the cluster, so that pods have an external destination. */
  async #startOutside(signal: AbortSignal): Promise<Responder> {
    const { netns, ips, outside } = this.#settings.plan.external;
    const ports = [
      { protocol: 'tcp', port: 80 },
      { protocol: 'udp', port: 80 },
    ] as const;
    const addresses = [...ips, ...outside];
    return Responder.start({ pod: 'external', node: 'external' }, netns, { tcp: addresses, udp: addresses }, ports, signal);
  }

  async #allReady(signal: AbortSignal): Promise<void> {
    const { plan } = this.#settings;
    const deadline = performance.now() + readyDeadlineMs;
    const reported = new Set<string>();
    while (reported.size < plan.nodes.length) {
      signal.throwIfAborted();
      for (const node of plan.nodes) {
        if (reported.has(node.name) || !this.#runners.isReady(node.name)) continue;
        reported.add(node.name);
        this.progress.step(`${node.name} ${plan.bare ? 'waits for a network' : 'is ready'}`);
      }
      const missing = plan.nodes.filter(({ name }) => !reported.has(name));
      const dead = missing.find((node) => agentProcess(plan, node) === undefined);
      if (dead && !plan.bare)
        throw new SeineError('REFUSED', `the agent of ${dead.name} ended; see ${nodePaths(plan.dir, dead.name).agentLog}`);
      if (missing[0] && performance.now() > deadline) throw await this.#notReady(missing[0]);
      await new Promise((resolve) => setTimeout(resolve, pollMs));
    }
  }

  async #notReady(node: NodePlan): Promise<SeineError> {
    const paths = nodePaths(this.#settings.plan.dir, node.name);
    const { says } = await agentReadiness(paths.apiSocket);
    return new SeineError('UNAVAILABLE', `${node.name} is not ready after ${readyDeadlineMs / 1000} s: ${says}; see ${paths.agentLog}`);
  }
}
