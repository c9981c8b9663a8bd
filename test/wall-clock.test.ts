import { expect, it } from 'vitest';
import { sourceFiles } from './support/source-tree.ts';

/** Uses of the time of day. No decision depends on it: it may jump, by hours and backwards. */
const readers: Readonly<Record<string, string>> = {
  'agent/admin-ports.ts': 'says since when the agent runs',
  'agent/agent.ts': 'says which occasion an Event is of',
  'agent/history/agent-recording.ts': 'stamps events of the history for people',
  'agent/main.ts': 'stamps a line of the log',
  'agent/peers/peer-paths.ts': 'says since when packets to a node take their way',
  'agent/policy.ts': 'says when a suspension of policies ends, which outlives the agent; the clock since the machine’s start ends it, too',
  'cni-shim/node-host.ts': 'makes the name of a draft, beside the number of the process',
  'kubernetes/client/events.ts': 'stamps Events',
  'kubernetes/resources/node-condition.ts': 'stamps a condition',
  'nodes/wireguard/node-encryption.ts':
    'says when nodes and their peers change an announced key; while their clocks differ, packets between them are dropped, never sent in clear',
  'operations/admin/lists.ts': 'shows the age of handshakes',
  'operations/admin/metrics-by-tls.ts': 'sets the validity of a certificate that only the agent creates',
  'operations/admin/metrics/scrape.ts': 'says since when the agent runs',
  'operations/admin/repair-history.ts': 'stamps repairs for people',
  'operations/diagnose/checks/check.ts': 'compares clocks, which is what it is for',
  'operations/flow-log/flow-log-answers.ts': 'reads records since a time that the caller names',
  'operations/flow-log/open-flow-log.ts': 'stamps records for people; their order is that of their numbers',
  'operations/support-bundle/collect.ts': 'stamps the begin and the end of a bundle',
  'operations/support-bundle/node-files.ts': 'stamps the versions of a bundle',
  'pods/cni-server/deletions.ts':
    'tells a draft that a plugin left long ago by the time of its file; whose draft goes too early is called again',
  'seinectl/bundle/collect.ts': 'names a bundle',
  'seinectl/flows/flows-cluster.ts': 'prints records since its start, by the stamps that they have',
  'seinectl/time-option.ts': 'a duration before now is a time of day',
  'seinectl/timeline/cluster-timeline.ts': 'asks for events since a time of day',
  'seinectl/timeline/timeline-command.ts': 'shows events since a time of day, by the stamps that they have',
  'seinectl/ui/timeline-answer.ts': 'asks for events since a time of day',
  'seinectl/ui/trace-answer.ts': 'traces at a time of day, which has to be past',
  'seinectl/ui/traffic-answer.ts': 'compares the beginning of a period with a time of day that an agent reports',
  'seinectl/ui/ui-routes.ts': 'stamps an answer, so that the page shows its age',
  'services/controller/effects/programming-times.ts': 'takes the age of a change for a metric; one that is impossible is not counted',
  'services/controller/effects/proxy-healthz.ts': 'says to load balancers when the node was last seen to forward',
  'ui/page/parts.tsx': 'shows the age of an answer',
  'ui/page/timeline-lanes.tsx': 'ends a period that reaches into the future now',
};

it('times nothing durable by the wall clock', () => {
  const found = sourceFiles().filter(({ path, text }) => !path.startsWith('lab/') && /\bDate\.now\b|\bnew Date\(\)/.test(text));
  expect(found.map(({ path }) => path)).toEqual(Object.keys(readers));
});
