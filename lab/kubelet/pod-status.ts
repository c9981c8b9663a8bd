import type { ContainerSpec, RestartPolicy } from './pod-spec.ts';

/** A container in its pod's status. Times are RFC 3339. */
export interface ContainerState {
  readonly name: string;
  readonly image: string;
  readonly restarts: number;
  readonly ready: boolean;
  readonly run:
    | { readonly is: 'waiting'; readonly reason: string; readonly message?: string }
    | { readonly is: 'running'; readonly startedAt: string }
    | { readonly is: 'terminated'; readonly exitCode: number; readonly startedAt: string; readonly finishedAt: string };
}

export interface PodRuntimeState {
  readonly containers: readonly ContainerState[];
  readonly restartPolicy: RestartPolicy;
  readonly containerId?: string;
  readonly ips: readonly string[];
  readonly hostIps: readonly string[];
  readonly startTime: string;
  /** Reason why the pod has no network yet. */
  readonly problem?: string;
}

interface PodCondition {
  readonly type: string;
  readonly status: 'True' | 'False';
  readonly lastTransitionTime: string;
  readonly reason?: string;
  readonly message?: string;
}

export interface PodStatus {
  readonly phase: 'Pending' | 'Running' | 'Succeeded' | 'Failed';
  readonly conditions: readonly PodCondition[];
  readonly [field: string]: unknown;
}

/**
 * The status of a pod. Source: Kubernetes API, PodStatus.
 *
 * @param before conditions keep the time of their last change from it
 * @param now RFC 3339, for the conditions that change
 */
export function podStatus(facts: PodRuntimeState, before: PodStatus | undefined, now: string): PodStatus {
  const phase = phaseOf(facts);
  const ready = phase === 'Running' && facts.containers.every((container) => container.ready);
  const condition = (type: string, holds: boolean, reason: string, message?: string): PodCondition => {
    const old = before?.conditions.find((known) => known.type === type);
    const status = holds ? 'True' : 'False';
    const since = old?.status === status ? old.lastTransitionTime : now;
    return { type, status, lastTransitionTime: since, ...(!holds && { reason, ...(message !== undefined && { message }) }) };
  };
  const reason = phase === 'Succeeded' ? 'PodCompleted' : phase === 'Failed' ? 'PodFailed' : 'ContainersNotReady';
  const ips = phase === 'Succeeded' || phase === 'Failed' ? [] : facts.ips;
  return {
    phase,
    conditions: [
      condition('PodScheduled', true, ''),
      condition('PodReadyToStartContainers', facts.ips.length > 0, 'NoSandbox', facts.problem),
      condition('Initialized', true, ''),
      condition('ContainersReady', ready, reason),
      condition('Ready', ready, reason),
    ],
    hostIP: facts.hostIps[0],
    hostIPs: facts.hostIps.map((ip) => ({ ip })),
    podIP: ips[0] ?? null,
    podIPs: ips.length === 0 ? null : ips.map((ip) => ({ ip })),
    startTime: facts.startTime,
    qosClass: 'BestEffort',
    containerStatuses: facts.containers.map((container) => containerStatus(container, facts.containerId)),
  };
}

function phaseOf({ containers, restartPolicy, ips }: PodRuntimeState): PodStatus['phase'] {
  const ended = containers.flatMap(({ run }) => (run.is === 'terminated' ? [run.exitCode] : []));
  if (restartPolicy !== 'Always' && containers.length > 0 && ended.length === containers.length) {
    if (ended.every((code) => code === 0)) return 'Succeeded';
    if (restartPolicy === 'Never') return 'Failed';
  }
  const started = containers.some(({ run, restarts }) => run.is !== 'waiting' || restarts > 0);
  return started && ips.length > 0 ? 'Running' : 'Pending';
}

function containerStatus({ name, image, restarts, ready, run }: ContainerState, containerId: string | undefined): Record<string, unknown> {
  const containerID = containerId === undefined ? '' : `seine-lab://${containerId}`;
  const { is, ...details } = run;
  return { name, image, imageID: '', restartCount: restarts, ready, started: is === 'running', containerID, state: { [is]: details } };
}

/** Status of containers before any of the pod runs. */
export function waitingContainers(specs: readonly ContainerSpec[], message: string | undefined): ContainerState[] {
  return specs.map(({ name, image }) => ({
    name,
    image,
    restarts: 0,
    ready: false,
    run: { is: 'waiting', reason: 'ContainerCreating', ...(message !== undefined && { message }) },
  }));
}
