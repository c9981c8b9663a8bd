import { expect } from 'vitest';
import { nodePaths } from '../../lab/plan/names.ts';
import type { FlowLogState, FlowView } from '../../src/api/flow-log.ts';
import { AgentClient } from '../../src/seinectl/agent-client.ts';
import { readFlowLine } from '../../src/seinectl/flows/read-flows.ts';
import type { ServiceLab } from './service-lab.ts';

/** Agent of a node of a lab. */
export function agentOfNode({ lab }: ServiceLab, number: number): AgentClient {
  return new AgentClient(nodePaths(lab.plan.dir, lab.node(number).name).apiSocket);
}

/** Records of a node, and the last state of the answer. */
export async function readFlowLog(
  lab: ServiceLab,
  number: number,
  query: string,
): Promise<{ readonly flows: readonly FlowView[]; readonly state?: FlowLogState }> {
  const { status, body } = await agentOfNode(lab, number).get(`/v1/flow-log?${query}`);
  expect(status, body).toBe(200);
  const lines = body.split('\n').flatMap((text) => (text === '' ? [] : [readFlowLine(text)]));
  const state = lines.flatMap((line) => ('state' in line ? [line.state] : [])).at(-1);
  return { flows: lines.flatMap((line) => ('flow' in line ? [line.flow] : [])), ...(state && { state }) };
}
