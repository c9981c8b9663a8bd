import { setTimeout as sleep } from 'node:timers/promises';
import { SeineError } from '../../base/errors/seine-error.ts';
import type { AgentClient } from '../agent-client.ts';
import { isWithoutRelay } from '../fleet/agent-relay.ts';
import { type AgentPod, followable } from '../fleet/agents.ts';
import { parsedEvent, type TimelineEvent } from './timeline-lines.ts';
import { type TimelineQuery, timelinePath } from './timeline-query.ts';

/** Interval between attempts to reach an agent (ms), and the time that each goes back (ms): clocks of nodes differ. */
const AGAIN_MS = 3_000;
const OVERLAP_MS = 20_000;

interface FollowedNodes {
  readonly relays: { readonly of: (pod: AgentPod) => { readonly client: Pick<AgentClient, 'lines'> } };
  readonly query: TimelineQuery;
  /** Time from which events are wanted of a node that has not been followed yet (ms since the epoch). */
  readonly startMs: number;
  /** Receives events; some more than once. */
  readonly arrived: (event: TimelineEvent) => void;
  /** Called when an agent does not answer, once until it answers again. */
  readonly silent: (agent: AgentPod, cause: string) => void;
  /** Milliseconds since the epoch. */
  readonly wallMs: () => number;
  /** Waits between attempts (ms); absent: a timer. */
  readonly pause?: (ms: number) => Promise<void>;
}

/**
 * Follows the events of an agent as they happen. A stream that ends, e.g. because a proxy ends idle ones, begins again where it ended.
 *
 * @param heardMs time of the last event, by node, on its own clock: the agent that replaces another one continues where that ended, with what is on disk
 * @returns once it is known that the agent has no relay: it has to be asked again and again
 * @throws SeineError `CANCELLED` if the signal is aborted
 */
export async function followNode(
  agent: AgentPod,
  nodes: FollowedNodes,
  heardMs: Map<string, number>,
  signal: AbortSignal,
): Promise<'no relay'> {
  const { relays, query, startMs, arrived, silent, wallMs, pause = (ms) => sleep(ms, undefined, { signal, ref: false }) } = nodes;
  const { untilMs: _, ...asked } = query;
  let isSilent = false;
  for (;;) {
    signal.throwIfAborted();
    const fromMs = heardMs.get(agent.node) ?? startMs;
    const path = timelinePath({ ...asked, fromMs: Math.max(query.fromMs, fromMs - OVERLAP_MS), follow: true });
    try {
      for await (const line of relays.of(agent).client.lines(path, 'GET', signal)) {
        isSilent = false;
        const event = parsedEvent(line, [agent.node]);
        if (!event) continue;
        arrived(event);
        heardMs.set(agent.node, Math.max(fromMs, heardMs.get(agent.node) ?? 0, Math.min(Date.parse(event.time), wallMs())));
      }
      isSilent = false;
    } catch (thrown) {
      if (signal.aborted) throw new SeineError('CANCELLED', 'interrupted', { cause: thrown });
      const error = SeineError.from(thrown, `follow ${agent.node}`);
      if (error.code === 'INVARIANT') throw error;
      if (isWithoutRelay(error)) return 'no relay';
      if (!isSilent) silent(agent, error.rawMessage);
      isSilent = true;
    }
    await pause(AGAIN_MS);
  }
}

/** Agents that are followed: those of new pods from when their nodes were last heard of, those of pods that are gone no longer. */
export class FollowedAgents {
  readonly #nodes: FollowedNodes;
  readonly #signal: AbortSignal;
  readonly #heardMs = new Map<string, number>();
  readonly #streams = new Map<string, AbortController>();
  #present: readonly AgentPod[] = [];
  /** Names of nodes that have been followed. */
  readonly #known = new Set<string>();
  readonly #withoutRelay = new Map<string, AgentPod>();
  #failure: { readonly thrown: unknown } | undefined;

  /** @param signal ends all of them */
  constructor(nodes: FollowedNodes, signal: AbortSignal) {
    this.#nodes = nodes;
    this.#signal = signal;
  }

  /** Agents that are followed. */
  get present(): readonly AgentPod[] {
    return this.#present;
  }

  /** Agents without a relay, which have to be asked again and again. */
  get asked(): readonly AgentPod[] {
    return [...this.#withoutRelay.values()];
  }

  /** @throws what a stream ended with, other than that its pod is gone */
  throwIfFailed(): void {
    if (this.#failure) throw this.#failure.thrown;
  }

  /** Returns the agents that can be followed: all, or if these are too many, those of the nodes that have been followed. */
  among(agents: readonly AgentPod[], most: number): readonly AgentPod[] {
    return followable(agents, this.#known, most);
  }

  /** Follows exactly these agents from now on. @returns those that are new */
  follow(agents: readonly AgentPod[]): readonly AgentPod[] {
    const present = new Set(agents.map(({ pod }) => pod));
    this.#present = agents;
    for (const [pod, stream] of this.#streams) {
      if (present.has(pod)) continue;
      stream.abort();
      this.#streams.delete(pod);
      this.#withoutRelay.delete(pod);
    }
    const added = agents.filter(({ pod }) => !this.#streams.has(pod));
    for (const agent of added) this.#begin(agent);
    return added;
  }

  #begin(agent: AgentPod): void {
    const ended = new AbortController();
    this.#streams.set(agent.pod, ended);
    this.#known.add(agent.node);
    followNode(agent, this.#nodes, this.#heardMs, AbortSignal.any([this.#signal, ended.signal])).then(
      () => void (ended.signal.aborted || this.#withoutRelay.set(agent.pod, agent)),
      (thrown: unknown) => {
        if (!ended.signal.aborted || SeineError.from(thrown, 'follow').code === 'INVARIANT') this.#failure ??= { thrown };
      },
    );
  }
}
