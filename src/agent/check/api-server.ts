import type { Finding } from '../../agent-api/check.ts';
import { SeineError } from '../../errors/seine-error.ts';
import type { ReflectorStatus } from '../../kube/reflector.ts';
import { type Check, type CheckContext, fine, tellAll, trouble } from './check.ts';
import { judgeClock, offsetOf } from './clock.ts';

/** How long the API server may take for an answer that costs it nothing (ms). */
const PATIENCE_MS = 5_000;
const effect =
  'pods, nodes and Services that are known go on being served, from disk after a restart of the agent; what changes in the cluster is not seen';

/** Whether the API server answers, is followed, and has the same time as we. */
export const apiServer: Check = {
  name: 'api',
  run: async (context, tell, signal) => {
    const { sources } = context.agent;
    const answer = await askForTime(context, signal);
    tell.finding('error' in answer ? judgeSilence(answer.error, sources.http.host) : answered(answer.tookMs, sources.http.host));
    tellAll(tell, judgeClock({ ...('error' in answer ? noAnswer : answer.offset), jumpedMs: jumpOf(context) }));
    const { nodes, services, endpointSlices, networkPolicies, pods } = sources;
    tellAll(tell, judgeSources([nodes, services, endpointSlices, networkPolicies, pods].map(({ status }) => status)));
  },
};

const noAnswer = { aheadMs: undefined, uncertainMs: 0 } as const;

type TimeAnswer = { readonly tookMs: number; readonly offset: ReturnType<typeof offsetOf> } | { readonly error: SeineError };

async function askForTime({ agent, clocks }: CheckContext, signal: AbortSignal): Promise<TimeAnswer> {
  const [sentMs, startedMs] = [clocks.wallMs(), clocks.monotonicMs()];
  try {
    const date = await agent.sources.http.date({ path: '/version', timeoutMs: PATIENCE_MS }, signal);
    const tookMs = clocks.monotonicMs() - startedMs;
    return { tookMs, offset: offsetOf(date, sentMs, sentMs + tookMs) };
  } catch (thrown) {
    signal.throwIfAborted();
    return { error: SeineError.from(thrown, 'ask the API server') };
  }
}

/** How far the wall clock has gone further than the other since the agent began. */
function jumpOf({ clocks }: CheckContext): number {
  return clocks.wallMs() - clocks.originMs - clocks.monotonicMs();
}

function answered(tookMs: number, host: string): Finding {
  return fine('api.server', `${host} answers in ${Math.round(tookMs)} ms`);
}

export function judgeSilence(error: SeineError, host: string): Finding {
  const status = error.context['status'];
  const what = `${host}: ${error.message.replace(/^\[[A-Z_]+\] /, '')}`;
  if (status === 401 || status === 403)
    return trouble('api.server', 'problem', {
      what,
      effect,
      mend: 'kubectl auth can-i list nodes --as=system:serviceaccount:seine-system:seine-agent',
    });
  return trouble('api.server', 'problem', { what, effect, mend: 'kubectl get --raw /readyz' });
}

export function judgeSources(
  statuses: readonly Pick<ReflectorStatus, 'kind' | 'synced' | 'failures' | 'held' | 'objects'>[],
): readonly Finding[] {
  const lost = statuses.filter(({ synced, failures }) => !synced || failures > 0);
  const held = statuses.flatMap(({ kind, held }) => (held ? [{ kind, ...held }] : []));
  const findings = [
    ...lost.map(({ kind, synced, failures, objects }) =>
      trouble('api.sources', 'problem', {
        what: `${kind}: ${synced ? `cannot be followed, ${failures} failures in a row` : `not confirmed by the API server, ${objects} objects from before`}`,
        effect,
        mend: 'seinectl status',
      }),
    ),
    ...held.map(({ kind, missing, known }) =>
      trouble('api.sources', 'warning', {
        what: `${kind}: a list lacks ${missing} of ${known} objects; nothing is removed until a second list agrees`,
        effect: 'nothing yet; if the API server lost data, what it lost goes on being served',
        mend: 'kubectl get nodes,services -A',
      }),
    ),
  ];
  return findings.length > 0
    ? findings
    : [fine('api.sources', `${statuses.map(({ kind, objects }) => `${objects} ${kind}`).join(', ')}: followed`)];
}
