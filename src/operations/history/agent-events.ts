import type { Problem } from '../../api/problem.ts';
import type { SeineError } from '../../base/errors/seine-error.ts';
import type { NodeStateEvents, TargetName } from '../../dataplane/targets/target-options.ts';
import type { ReflectorReport } from '../../kubernetes/client/reflector/reflector-report.ts';
import type { EventRecorder } from './event-stream.ts';

/** Answered call of the CNI plugin, with the pod if the runtime names one. */
interface RecordedCall {
  readonly command: string;
  readonly code: number;
  readonly tookMs: number;
  readonly stages: Iterable<readonly [stage: string, ms: number]>;
  /** `namespace/name`. */
  readonly pod?: string;
}

const calls: Readonly<Record<string, 'cni.add' | 'cni.del' | 'cni.check' | 'cni.gc'>> = {
  ADD: 'cni.add',
  DEL: 'cni.del',
  CHECK: 'cni.check',
  GC: 'cni.gc',
};

/** Records a call. STATUS and VERSION are recorded only if they fail: kubelet repeats them every few seconds. */
export function noteCall(events: EventRecorder, { command, code, tookMs, stages, pod }: RecordedCall): void {
  const subjects = pod === undefined ? [] : [`pod/${pod}`];
  const kind = calls[command];
  if (code !== 0) events.note('cni.failed', subjects, { command, code, tookMs });
  else if (kind !== undefined) events.note(kind, subjects, { tookMs, stages: Object.fromEntries(stages) });
}

const stageKinds = { flows: 'pod.flows', interface: 'pod.interface', port: 'pod.port', announce: 'pod.announced' } as const;

/** Records a stage of an ADD. @param owner owner of the pod's flows, `pod/NAMESPACE/NAME/INTERFACE@CONTAINER` */
export function noteStage(events: EventRecorder, stage: keyof typeof stageKinds, tookMs: number, owner: string): void {
  const kind = stageKinds[stage];
  const subjects = podSubject(owner);
  if (kind === 'pod.announced') events.note(kind, subjects, {});
  else events.note(kind, subjects, { tookMs });
}

/** Subject of an owner of flows that belong to a pod. */
function podSubject(owner: string): readonly string[] {
  const [kind, namespace, name] = owner.split('/');
  return (kind === 'pod' || kind === 'subject') && name !== undefined ? [`pod/${namespace}/${name}`] : [];
}

/** Subject of any owner of flows. */
function ownerSubjects(owner: string): readonly string[] {
  const [, service] = /^service\/([^/]+\/[^/:]+):/.exec(owner) ?? [];
  if (service !== undefined) return [`service/${service}`];
  const [, peer] = /^peer\/([^/]+)$/.exec(owner) ?? [];
  return peer === undefined ? podSubject(owner) : [`node/${peer}`];
}

/** Maximum number of keys of a foreign change whose owners become subjects. */
const KEYS_MAX = 50;
/** Maximum number of owners whose refusals are remembered. */
const FAILING_MAX = 1_000;

/** Returns the same events, and records them. @param ownersOf current owners of an entry */
export function recordedNodeState(
  then: NodeStateEvents,
  events: EventRecorder,
  ownersOf: (part: TargetName, key: string) => readonly string[],
): NodeStateEvents {
  const subjectsOf = (part: TargetName, keys: readonly string[]): readonly string[] => [
    ...new Set(keys.slice(0, KEYS_MAX).flatMap((key) => ownersOf(part, key).flatMap(ownerSubjects))),
  ];
  const failures = recordedFailures(then, events);
  // Every round of the bridge ends complete: only the first one, and one after a loss or a failure, is an event.
  let isBridgeIncomplete = true;
  return {
    ...failures,
    failure: (part, error) => {
      isBridgeIncomplete ||= part === 'bridge';
      failures.failure(part, error);
    },
    drift: (part, keys) => {
      events.note('drift.found', subjectsOf(part, keys), { part, entries: keys.length });
      then.drift(part, keys);
    },
    lost: (part, keys) => {
      isBridgeIncomplete ||= part === 'bridge';
      events.note('drift.lost', subjectsOf(part, keys), { part, entries: keys.length });
      then.lost?.(part, keys);
    },
    complete: (part) => {
      if (part === 'bridge' && isBridgeIncomplete) events.note('bridge.complete', [], {});
      isBridgeIncomplete &&= part !== 'bridge';
      then.complete?.(part);
    },
    repaired: (part, tookMs) => {
      events.note('drift.repaired', [], { part, tookMs });
      then.repaired(part, tookMs);
    },
  };
}

/** Records the first of repeated failures of a target or an owner, and the end of them. */
function recordedFailures(then: NodeStateEvents, events: EventRecorder): NodeStateEvents {
  const failing = new Set<string>();
  return {
    ...then,
    failure: (part, error) => {
      if (!failing.has(part)) events.note('target.failing', [], { part, cause: error.rawMessage });
      failing.add(part);
      then.failure(part, error);
    },
    recovered: (part) => {
      if (failing.delete(part)) events.note('target.recovered', [], { part });
      then.recovered?.(part);
    },
    refused: (part, owner, error) => {
      const name = `${part} ${owner}`;
      if (!failing.has(name)) events.note('entries.refused', ownerSubjects(owner), { part, owner, cause: error.rawMessage });
      if (failing.size < FAILING_MAX) failing.add(name);
      then.refused(part, owner, error);
    },
    accepted: (part, owner) => {
      if (failing.delete(`${part} ${owner}`)) events.note('entries.accepted', ownerSubjects(owner), { part, owner });
      then.accepted?.(part, owner);
    },
  };
}

/** Records reports about a copy of an API resource; of repeated failures, the first. */
export class SourceEvents {
  readonly #events: EventRecorder;
  readonly #failing = new Set<string>();

  constructor(events: EventRecorder) {
    this.#events = events;
  }

  note(resource: string, report: ReflectorReport): void {
    const events = this.#events;
    switch (report.what) {
      case 'restored':
        events.note('source.restored', [], { resource, objects: report.objects });
        break;
      case 'synced':
        this.#failing.delete(resource);
        events.note('source.synced', [], { resource, objects: report.objects, tookMs: report.tookMs });
        break;
      case 'recovered':
        if (this.#failing.delete(resource)) events.note('source.recovered', [], { resource });
        break;
      case 'failed':
        this.#noteFailure('source.failed', resource, report.error.rawMessage);
        break;
      case 'unreadable':
        this.#noteFailure('source.unreadable', resource, report.why);
        break;
      case 'storage':
        this.#noteFailure('source.storage', resource, report.error.rawMessage);
        break;
      case 'behind':
        events.note('source.behind', [], { resource });
        break;
      case 'held':
        events.note('source.held', [], { resource, known: report.known, missing: report.missing });
        break;
      case 'refuted':
        events.note('source.refuted', [], { resource });
        break;
      case 'released':
        events.note('source.released', [], { resource, missing: report.missing });
        break;
      case 'invalid':
        events.note('source.invalid', [], { resource, name: report.key, cause: report.error.rawMessage });
        break;
    }
  }

  #noteFailure(kind: 'source.failed' | 'source.unreadable' | 'source.storage', resource: string, cause: string): void {
    const key = kind === 'source.failed' ? resource : `${kind} ${resource}`;
    if (this.#failing.has(key)) return;
    this.#failing.add(key);
    this.#events.note(kind, [], { resource, cause });
  }
}

/** Records the loss of a connection, and that it is back; of repeated failures, the first. */
export class ConnectionEvents {
  readonly #events: EventRecorder;
  readonly #failing = new Set<string>();

  constructor(events: EventRecorder) {
    this.#events = events;
  }

  failed(what: 'ovsdb' | 'bridge', { rawMessage: cause, code }: SeineError): void {
    if (code === 'CANCELLED' || this.#failing.has(what)) return; // an agent that stops ends its connections
    this.#failing.add(what);
    this.#events.note(`${what}.failed`, [], { cause });
  }

  /** Returns the callback of a connection that is complete again, and records that. */
  noting(what: 'ovsdb' | 'bridge', then: () => void): () => void {
    return () => {
      this.#up(what);
      then();
    };
  }

  #up(what: 'ovsdb' | 'bridge'): void {
    this.#failing.delete(what);
    this.#events.note(what === 'ovsdb' ? 'ovsdb.synced' : 'bridge.connected', [], {});
  }
}

type NodeEventKind =
  | 'policy.suspended'
  | 'policy.resumed'
  | 'policy.modeChanged'
  | 'policy.modeInvalid'
  | 'repair.paused'
  | 'repair.resumed'
  | 'firewall.dropsPods';

/** Kind of event by the reason of an Event. */
const nodeEvents: Readonly<Record<string, NodeEventKind>> = {
  PolicySuspended: 'policy.suspended',
  PolicyResumed: 'policy.resumed',
  PolicyModeChanged: 'policy.modeChanged',
  PolicyModeInvalid: 'policy.modeInvalid',
  RepairPaused: 'repair.paused',
  RepairResumed: 'repair.resumed',
  FirewallDropsPods: 'firewall.dropsPods',
};

/** Reasons of Events about problems, which are recorded as problems. */
const ofProblems = new Set(['NodeNetworkProblem', 'NodeNetworkProblemOver']);

/** Records an Event of this node's Node object. */
export function noteNodeEvent(events: EventRecorder, node: string, reason: string, message: string): void {
  if (!ofProblems.has(reason)) events.note(nodeEvents[reason] ?? 'node.event', [`node/${node}`], { message });
}

interface PresentProblem {
  readonly problem: Problem;
  readonly sinceMs: number;
}

/** Records when problems begin and end. */
export class ProblemRecord {
  readonly #events: EventRecorder;
  readonly #node: string;
  #present: ReadonlyMap<string, PresentProblem> = new Map();

  constructor(events: EventRecorder, node: string) {
    this.#events = events;
    this.#node = node;
  }

  /** Receives all current problems. */
  note(problems: readonly Problem[], nowMs = performance.now()): void {
    const present = new Map<string, PresentProblem>();
    for (const problem of problems) {
      const name = JSON.stringify([problem.kind, problem.part ?? null, problem.about]);
      const known = this.#present.get(name);
      if (!known) this.#events.note('problem.began', this.#subjects(problem), { problem: problem.kind, message: problem.message });
      present.set(name, { problem, sinceMs: known?.sinceMs ?? nowMs });
    }
    for (const [name, { problem, sinceMs }] of this.#present) {
      if (present.has(name)) continue;
      const seconds = Math.round((nowMs - sinceMs) / 1_000);
      this.#events.note('problem.ended', this.#subjects(problem), { problem: problem.kind, message: problem.message, seconds });
    }
    this.#present = present;
  }

  #subjects({ kind, about }: Problem): readonly string[] {
    const own = `node/${this.#node}`;
    const [, object, name] = /^(Service|Node|NetworkPolicy|Pod) (\S+)$/.exec(about) ?? [];
    if (object !== undefined) return [own, `${object === 'NetworkPolicy' ? 'policy' : object.toLowerCase()}/${name}`];
    if (kind === 'policy.closed' || kind === 'pod.gone') return [own, `pod/${about}`];
    if (kind === 'peer.handshake' || kind === 'route.conflict') return [own, `node/${about}`];
    if (kind === 'peer.direct') return [own, `node/${about.replace(/^ipv[46] /, '')}`];
    return [own];
  }
}
