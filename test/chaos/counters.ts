import { join } from 'node:path';
import { askSocket, type Place } from './host.ts';
import type { Part } from './step.ts';

const counted = /^seine_agent_drift_entries_total\{part="(?<part>\w+)"\} (?<value>\d+)/gm;

/** What an agent counts and measures, as Prometheus reads it. Empty where none answers. */
export async function metrics({ rundir }: Place, timeoutMs = 10_000): Promise<string> {
  const answer = await askSocket(join(rundir, 'run', 'agent.sock'), 'GET', '/metrics', timeoutMs).catch(() => undefined);
  return answer?.body ?? '';
}

/** How much an agent says that it has repaired, by part. Empty where none answers. */
export async function repairs(place: Place): Promise<ReadonlyMap<Part, number>> {
  const found = [...(await metrics(place)).matchAll(counted)];
  return new Map(found.map(({ groups }) => [groups?.['part'] as Part, Number(groups?.['value'])]));
}
