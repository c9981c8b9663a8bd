import { join } from 'node:path';
import { pause } from '../../base/async/pause.ts';
import type { Log } from '../../base/log/log.ts';
import type { Ip } from '../../base/net/ip.ts';
import type { Owner } from '../../dataplane/pipeline/cookie.ts';
import type { NodeState } from '../../dataplane/targets/node-state.ts';
import type { Replica } from '../../kubernetes/client/replica/replica.ts';
import { type LiveSettings, liveSettingsKey } from '../../kubernetes/resources/live-settings.ts';
import type { Node } from '../../kubernetes/resources/node.ts';
import type { Service } from '../../kubernetes/resources/service.ts';
import { ConntrackEvents } from '../../netlink/conntrack.ts';
import type { LiveEnvironment } from '../../nodes/local/live-environment.ts';
import type { PacketIn } from '../../openflow/packet.ts';
import type { PolicyController } from '../../policy/controller/policy-controller.ts';
import type { DeniedLog } from '../../policy/denied-log/denied-log.ts';
import type { OpenedDeniedLog } from '../../policy/denied-log/open-denied-log.ts';
import { type ClosesSettings, recordsEnds } from './closes-choices.ts';
import type { ExportSettings } from './export/flow-exports.ts';
import { flowLogSettings } from './flow-log-switch.ts';
import { type FlowSources, RunningFlowLog } from './running-flow-log.ts';
import { FlowLogPorts } from './sources/flow-log-ports.ts';
import type { Sampling } from './sources/sampled-connections.ts';
import { ServiceAddresses } from './sources/service-addresses.ts';
import { TrackerAccounting, trackerParametersFile } from './sources/tracker-accounting.ts';

/** Maximum time for the end of the log when the agent stops (ms): more than an export takes to give up. */
const END_WITHIN_MS = 3_000;
/** Name of the warning. */
const WARNING = 'flow log';

/** Reasons for which OVS copies packets to the log. */
type CopyReason = 'opened' | 'answered' | 'seen' | 'ended';
const copyReasons: readonly CopyReason[] = ['opened', 'answered', 'seen', 'ended'];

interface FlowLogParts {
  readonly config: {
    readonly nodeName: string;
    readonly ovsDatapathType: 'system' | 'netdev';
    readonly hostSettings: 'manage' | 'check';
    readonly stateDir: string;
    readonly flowLog: {
      readonly enabled: boolean;
      readonly openings: number;
      readonly sampling: Sampling;
      readonly records: number;
      readonly denied: boolean;
      readonly closes: ClosesSettings['flowLog']['closes'];
      readonly namespaceMetrics: boolean;
      readonly keep: number;
    } & ExportSettings;
  };
  readonly ovs: {
    /** Connects for copies of packets, with a receiver for each reason, until the signal aborts. */
    readonly openCopies: (takers: readonly (readonly [reason: CopyReason, take: (packet: PacketIn) => void])[], until: AbortSignal) => void;
    readonly openflow: FlowSources['bridge'];
  };
  readonly sources: {
    readonly nodes: { readonly replica: Replica<Node> };
    readonly services: { readonly replica: Replica<Service> };
    readonly liveSettings: { readonly replica: Replica<LiveSettings> };
  };
  readonly nodeState: Pick<NodeState, 'want' | 'forget'>;
  readonly noEndpoint: FlowSources['noEndpoint'];
  readonly probes: FlowSources['probes'];
  /** Warnings about the node, as sentences, by the part of the agent that found them. */
  readonly warnings: Map<string, readonly string[]>;
  readonly log: Log;
}

interface FlowLogNode {
  readonly live: Pick<LiveEnvironment, 'current' | 'subscribe'>;
  readonly policy: Pick<PolicyController, 'matrix' | 'matrixRevision' | 'holderOf' | 'isInPodNetwork' | 'notEnforcedFor'>;
  readonly denied: { readonly log: DeniedLog; readonly policy: OpenedDeniedLog['policy'] };
  readonly refusals: FlowSources['refusals'];
}

/** Flow log of this node, which may be turned on and off while the agent runs. */
export interface OpenedFlowLog {
  /** Undefined while it is off. */
  readonly running: () => RunningFlowLog | undefined;
  /** Policy controller wrapped so that the log learns of new and removed attachments. */
  readonly policy: OpenedDeniedLog['policy'];
  /** Resolves when logs that were turned off have sent or given up what waited, after a few seconds in any case. */
  readonly ended: () => Promise<void>;
}

/** Opens the log in the state that the settings require, and follows them until the signal aborts. */
export function openFlowLog(parts: FlowLogParts, node: FlowLogNode, signal: AbortSignal): OpenedFlowLog {
  const { config, ovs, sources, nodeState, log } = parts;
  const isUserspace = config.ovsDatapathType === 'netdev';
  const copies = { seen: isUserspace, ends: isUserspace && recordsEnds(config) };
  const ports = new FlowLogPorts({ environment: () => node.live.current, nodeState, copies });
  const accounting = accountingOf(parts);
  const flowSources = sourcesOf(parts, node, accounting, signal);
  let running: RunningFlowLog | undefined;
  let closing: Promise<unknown> = Promise.resolve();
  const close = (): void => {
    if (running) closing = Promise.allSettled([closing, running.close()]);
    running = undefined;
  };
  const settings = () => flowLogSettings(sources.liveSettings.replica.get(liveSettingsKey), config.flowLog);
  const apply = (): void => {
    const { isOn, sampling, faults } = settings();
    warn(parts.warnings, faults);
    const current = running;
    if (isOn && current && current.sampling !== sampling)
      void resample(current, ports, () => (running === current ? settings().sampling : undefined));
    if (isOn === (running !== undefined)) return;
    log.info(isOn ? 'the flow log is on' : 'the flow log is off');
    close();
    if (isOn) running = openRunning({ ...flowSources, sampling }, ovs.openCopies);
    if (isOn) ports.sample(sampling);
    ports.turn(isOn ? 'on' : 'off');
  };
  const ends = [sources.liveSettings.replica.subscribe(apply), node.live.subscribe(() => ports.update())];
  signal.addEventListener('abort', () => [...ends, close].forEach((end) => void end()), { once: true });
  apply();
  if (!running || !flowSources.tracker) accounting?.restore(); // what a killed agent has left, also one that recorded ends
  const ended = async (): Promise<void> => {
    const over = new AbortController();
    await Promise.race([closing, pause(END_WITHIN_MS, over.signal)]);
    over.abort();
  };
  return { running: () => running, policy: followed(node.denied.policy, ports), ended };
}

function warn(warnings: FlowLogParts['warnings'], faults: readonly string[]): void {
  if (faults.length === 0) warnings.delete(WARNING);
  else warnings.set(WARNING, faults);
}

/** Replaces the flows once their counters are read. @param wanted returns undefined if the log is off by then */
async function resample(log: RunningFlowLog, ports: FlowLogPorts, wanted: () => Sampling | undefined): Promise<void> {
  await log.count();
  const sampling = wanted();
  if (sampling === undefined) return;
  ports.sample(sampling);
  log.sample(sampling);
}

/** Opens a log with its connection for copies of first packets, which ends with it. */
function openRunning(sources: FlowSources, openCopies: FlowLogParts['ovs']['openCopies']): RunningFlowLog {
  const running = new RunningFlowLog(sources);
  openCopies(
    copyReasons.map((reason) => [reason, (packet) => running[reason](packet)] as const),
    running.closed,
  );
  return running;
}

/** Undefined if the agent does not change kernel parameters. */
function accountingOf({ config, log }: FlowLogParts): TrackerAccounting | undefined {
  return config.hostSettings === 'manage' ? new TrackerAccounting({ file: trackerParametersFile(config.stateDir), log }) : undefined;
}

function sourcesOf(
  { config, ovs, sources, noEndpoint, probes, log }: FlowLogParts,
  node: FlowLogNode,
  accounting: TrackerAccounting | undefined,
  signal: AbortSignal,
): Omit<FlowSources, 'sampling'> {
  const { policy, denied, refusals } = node;
  const services = new ServiceAddresses(sources.services.replica);
  const nodes = new NodesByAddress(sources.nodes.replica);
  const ends = [sources.services.replica.subscribe(() => services.changed()), sources.nodes.replica.subscribe(() => nodes.changed())];
  signal.addEventListener('abort', () => ends.forEach((end) => void end()), { once: true });
  return {
    openings: config.flowLog.openings,
    records: config.flowLog.records,
    recordsDenied: config.flowLog.denied,
    countsNamespaces: config.flowLog.namespaceMetrics,
    files: { folder: join(config.stateDir, 'flows'), bytesMax: config.flowLog.keep, node: config.nodeName },
    exports: config.flowLog,
    names: {
      ownerOf: (address) => policy.holderOf(address) ?? nodes.at(address),
      isInPodNetwork: (address) => policy.isInPodNetwork(address),
      serviceAt: (...at) => services.at(...at),
    },
    matrix: () => policy.matrix,
    matrixRevision: () => policy.matrixRevision,
    clock: { wallMs: () => Date.now(), steadyMs: () => performance.now() },
    denied: denied.log,
    refusals,
    noEndpoint,
    probes,
    bridge: ovs.openflow,
    ...(config.ovsDatapathType === 'system' &&
      recordsEnds(config) && { tracker: { open: openTracker, ...(accounting && { accounting }) } }),
    notEnforcedFor: (pod) => policy.notEnforcedFor(pod),
    log,
  };
}

const openTracker: NonNullable<FlowSources['tracker']>['open'] = (handler) => ConntrackEvents.open({}, handler);

/** Names of nodes by address. Built when it is first needed after a change. */
class NodesByAddress {
  readonly #nodes: Pick<Replica<Node>, 'entries'>;
  #byAddress: ReadonlyMap<string, string> | undefined;

  constructor(nodes: Pick<Replica<Node>, 'entries'>) {
    this.#nodes = nodes;
  }

  changed(): void {
    this.#byAddress = undefined;
  }

  at({ text }: Ip): string | undefined {
    this.#byAddress ??= new Map(
      [...this.#nodes.entries()].flatMap(([name, { internalIps }]) => internalIps.map((ip) => [ip, `node ${name}`] as const)),
    );
    return this.#byAddress.get(text);
  }
}

/** Removes the flows of a port first: another pod may get the port afterwards. */
function followed(policy: OpenedDeniedLog['policy'], ports: FlowLogPorts): OpenedDeniedLog['policy'] {
  return {
    attach: (subject, until) => {
      ports.add(subject.owner, subject.ofPort);
      return policy.attach(subject, until);
    },
    adopt: (subject) => {
      ports.add(subject.owner, subject.ofPort);
      policy.adopt(subject);
    },
    detach: (owner: Owner) => {
      ports.remove(owner);
      return policy.detach(owner);
    },
    owners: () => policy.owners(),
  };
}
