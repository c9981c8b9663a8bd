import { setTimeout as sleep } from 'node:timers/promises';
import { SeineError } from '../../base/errors/seine-error.ts';
import type { AgentClient } from '../agent-client.ts';
import { isWithoutRelay } from '../fleet/agent-relay.ts';
import type { AgentPod } from '../fleet/agents.ts';
import { parsedEvent, type TimelineEvent } from './timeline-lines.ts';
import { type TimelineQuery, timelinePath } from './timeline-query.ts';

/** Interval between attempts to reach an agent (ms), and the time that each goes back (ms): clocks of nodes differ. */
const AGAIN_MS = 3_000;
const OVERLAP_MS = 20_000;

interface FollowedNodes {
  readonly relays: { readonly of: (pod: AgentPod) => { readonly client: Pick<AgentClient, 'lines'> } };
  readonly query: TimelineQuery;
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
 * @returns once it is known that the agent has no relay: it has to be asked again and again
 * @throws SeineError `CANCELLED` if the signal is aborted
 */
export async function followNode(agent: AgentPod, nodes: FollowedNodes, signal: AbortSignal): Promise<'no relay'> {
  const { relays, query, arrived, silent, wallMs, pause = (ms) => sleep(ms, undefined, { signal, ref: false }) } = nodes;
  const { untilMs: _, ...asked } = query;
  let fromMs = wallMs();
  let isSilent = false;
  for (;;) {
    signal.throwIfAborted();
    const path = timelinePath({ ...asked, fromMs: Math.max(query.fromMs, fromMs - OVERLAP_MS), follow: true });
    try {
      for await (const line of relays.of(agent).client.lines(path, 'GET', signal)) {
        isSilent = false;
        const event = parsedEvent(line, [agent.node]);
        if (event) arrived(event);
        fromMs = wallMs();
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
