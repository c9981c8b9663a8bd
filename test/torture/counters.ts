import { join } from 'node:path';
import { askSocket, type Place } from './machine.ts';
import type { Part } from './step.ts';

const counted = /^seine_agent_drift_entries_total\{part="(?<part>\w+)"\} (?<value>\d+)/gm;

/** How much an agent says that it has repaired, by part. Empty where none answers. */
export async function repairs({ rundir }: Place): Promise<ReadonlyMap<Part, number>> {
  const answer = await askSocket(join(rundir, 'run', 'agent.sock'), 'GET', '/metrics', 10_000).catch(() => undefined);
  const found = [...(answer?.body ?? '').matchAll(counted)];
  return new Map(found.map(({ groups }) => [groups?.['part'] as Part, Number(groups?.['value'])]));
}
