import { expect, it } from 'vitest';
import type { AgentPod } from '../fleet/agents.ts';
import { silentGroups } from './node-groups.ts';

const pod = (node: string, version: string): AgentPod => ({
  ...{ node, namespace: 'seine-system', pod: `agent-of-${node}`, pool: 'default', image: `registry.example/agent:${version}` },
  relay: { program: '/seine', socket: '/run/seine/agent.sock' },
});
const older = (version: string): string =>
  `The agent is of an older release, which does not answer this question (image registry.example/agent:${version}).`;

it('names agents of the last two releases that lack a path, or whose seinectl lacks a command, by their release', () => {
  const failures = [
    // Texts of 0.27.0 over the exec relay, and of 0.26.0, which has none.
    { pod: pod('n1', '0.27.0'), failure: 'nothing at "/v1/open-connections"; there is /v1/status /v1/pods' },
    { pod: pod('n2', '0.26.0'), failure: "seinectl ended with 2: error: unknown command 'flows'" },
    { pod: pod('n3', '0.26.0'), failure: "seinectl ended with 2: error: unknown option '--raw'" },
  ];
  expect(silentGroups(failures).map(({ text, nodes }) => [text, nodes])).toEqual([
    [older('0.26.0'), ['n2', 'n3']],
    [older('0.27.0'), ['n1']],
  ]);
});

it('keeps other reasons, without the names of pod and node', () => {
  const failures = ['n1', 'n2'].map((node) => ({ pod: pod(node, '0.29.0'), failure: `agent-of-${node} on ${node}: no answer in time` }));
  expect(silentGroups(failures)).toEqual([{ text: 'POD on NODE: no answer in time', count: 2, nodes: ['n1', 'n2'] }]);
});
