import type { Finding } from '../../../api/check.ts';
import { sourceName } from '../../../api/source-name.ts';
import { SeineError } from '../../../base/errors/seine-error.ts';
import type { KubeHttp } from '../../../kubernetes/client/http-client.ts';
import type { ReflectorStatus, SourceState } from '../../../kubernetes/client/reflector/reflector-report.ts';
import { type Check, type Clocks, fine, reportAll, trouble } from './check.ts';
import { assessClock, offsetOf } from './clock.ts';

/** Maximum time for a cheap answer of the API server (ms). */
const PATIENCE_MS = 5_000;
const effect =
  'known pods, nodes and Services are still served, from disk after a restart of the agent; changes in the cluster have no effect';

export interface ApiServerPort {
  readonly http: Pick<KubeHttp, 'date' | 'host'>;
  readonly sourceStatuses: () => readonly ReflectorStatus[];
}

/** Checks that the API server answers, is followed, and has the same time as this node. */
export function apiServer({ http, sourceStatuses }: ApiServerPort): Check {
  return {
    name: 'api',
    run: async ({ clocks }, reporter, signal) => {
      const answer = await askForTime(http, clocks, signal);
      reporter.finding('error' in answer ? assessSilence(answer.error, http.host) : answered(answer.tookMs, http.host));
      reportAll(reporter, assessClock({ ...('error' in answer ? noAnswer : answer.offset), jumpedMs: jumpOf(clocks) }));
      reportAll(reporter, assessSources(sourceStatuses()));
    },
  };
}

const noAnswer = { aheadMs: undefined, uncertainMs: 0 } as const;

type TimeAnswer = { readonly tookMs: number; readonly offset: ReturnType<typeof offsetOf> } | { readonly error: SeineError };

async function askForTime(http: ApiServerPort['http'], clocks: Clocks, signal: AbortSignal): Promise<TimeAnswer> {
  const [sentMs, startedMs] = [clocks.wallMs(), clocks.monotonicMs()];
  try {
    const date = await http.date({ path: '/version', timeoutMs: PATIENCE_MS }, signal);
    const tookMs = clocks.monotonicMs() - startedMs;
    return { tookMs, offset: offsetOf(date, sentMs, sentMs + tookMs) };
  } catch (thrown) {
    signal.throwIfAborted();
    return { error: SeineError.from(thrown, 'query the API server') };
  }
}

/** Difference between the advances of the wall clock and the monotonic clock since the agent began. */
function jumpOf(clocks: Clocks): number {
  return clocks.wallMs() - clocks.originMs - clocks.monotonicMs();
}

function answered(tookMs: number, host: string): Finding {
  return fine('api.server', `${host} answers in ${Math.round(tookMs)} ms`);
}

export function assessSilence(error: SeineError, host: string): Finding {
  const status = error.context['status'];
  const what = `${host}: ${error.rawMessage}`;
  if (status === 401 || status === 403)
    return trouble('api.server', 'problem', {
      what,
      effect,
      remedy: 'kubectl auth can-i list nodes --as=system:serviceaccount:seine-system:seine-agent',
    });
  return trouble('api.server', 'problem', { what, effect, remedy: 'kubectl get --raw /readyz' });
}

export function assessSources(
  statuses: readonly Pick<ReflectorStatus, 'kind' | 'state' | 'failures' | 'held' | 'objects'>[],
): readonly Finding[] {
  const findings = statuses.flatMap((source) => assessSource(source) ?? []);
  return findings.length > 0
    ? findings
    : [fine('api.sources', `${statuses.map(({ kind, objects }) => `${objects} ${sourceName(kind)}`).join(', ')}: followed`)];
}

function assessSource({
  kind,
  state,
  failures,
  held,
  objects,
}: Pick<ReflectorStatus, 'kind' | 'state' | 'failures' | 'held' | 'objects'>): Finding | undefined {
  if (state === 'in step') return undefined;
  if (state === 'held')
    return trouble('api.sources', 'warning', {
      what: `${sourceName(kind)}: a list lacks ${held?.missing} of ${held?.known} objects; nothing is removed until a second list agrees`,
      effect: 'none yet; if the API server lost data, the lost objects are still served',
      remedy: 'kubectl get nodes,services -A',
    });
  return trouble('api.sources', 'problem', {
    what: `${sourceName(kind)}: ${lostWords(state, failures, objects)}`,
    effect,
    remedy: 'seinectl status',
  });
}

function lostWords(state: Exclude<SourceState, 'in step' | 'held'>, failures: number, objects: number): string {
  switch (state) {
    case 'not confirmed':
      return `not confirmed by the API server, ${objects} objects from before`;
    case 'refused':
      return `the API server denies access, ${objects} objects from before`;
    case 'gone':
      return `the API server does not have this resource, ${objects} objects from before`;
    case 'behind':
      return `the API server has an older state than before, ${objects} objects from before`;
    case 'failing':
      return `cannot be followed, ${failures} failures in a row`;
  }
}
