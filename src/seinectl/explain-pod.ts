import type { PodExplanation } from '../api/object.ts';
import type { AgentClient } from './agent-client.ts';
import { safeText } from './escape.ts';
import { exitCodes } from './exit-codes.ts';
import type { Terminal } from './terminal.ts';

/** `seinectl explain pod`. @returns 1 if the pod has a problem */
export async function explainPod(agent: AgentClient, name: string, json: boolean, terminal: Terminal): Promise<number> {
  const full = name.includes('/') || /^[0-9a-f]{64}$/.test(name) ? name : `default/${name}`;
  const answer = (await agent.json(`/v1/explain/pod?${new URLSearchParams({ name: full })}`)) as PodExplanation;
  if (json) terminal.line(safeText(JSON.stringify(answer, undefined, 2)));
  else for (const line of answer.lines) terminal.line(safeText(line));
  return answer.state === 'ok' ? exitCodes.ok : exitCodes.different;
}
