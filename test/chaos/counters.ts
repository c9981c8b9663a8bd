import { join } from 'node:path';
import { askSocket, type Place } from './host.ts';
import type { Part } from './step.ts';

const counted = /^seine_agent_drift_entries_total\{part="(?<part>\w+)"\} (?<value>\d+)/gm;

/** Metrics of an agent, as Prometheus reads them. Empty if it does not answer. */
export async function metrics({ rundir }: Place, timeoutMs = 10_000): Promise<string> {
  const answer = await askSocket(join(rundir, 'run', 'agent.sock'), 'GET', '/metrics', timeoutMs).catch(() => undefined);
  return answer?.body ?? '';
}

/** Numbers of repairs by target, from an agent's metrics. Empty if it does not answer. */
export async function repairs(place: Place): Promise<ReadonlyMap<Part, number>> {
  const found = [...(await metrics(place)).matchAll(counted)];
  return new Map(found.map(({ groups }) => [groups?.['part'] as Part, Number(groups?.['value'])]));
}
