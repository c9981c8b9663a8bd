import { parseCidr } from '../../src/base/net/ip.ts';
import type { SubjectIntent } from '../../src/dataplane/compile/compile-entry.ts';
import type { PodIntent } from '../../src/dataplane/compile/compile-pod.ts';
import { nothing, type Wanted } from '../../src/dataplane/desired/host-entries.ts';
import { ownerOf } from '../../src/dataplane/pipeline/cookie.ts';
import { encodeBridgeEntries, plainValue } from '../../src/dataplane/targets/bridge/bridge-entry.ts';
import { writeInput, writeServices, writeStart } from '../../src/operations/compiler-inputs/inputs-document.ts';
import { directionTables, otherwiseFlow, rangeFlows, relationFlow } from '../../src/policy/flows/rows.ts';
import { compileService } from '../../src/services/compile/compile-service.ts';
import { serviceIntents } from '../../src/services/compile/intent.ts';
import { exampleNode, examplePeers, examplePods, exampleProxying, exampleServices } from './example-node.ts';

/** Time of the first record (ms since the epoch), and those of the changes that follow. */
export const recordedMs = { first: 1_700_000_000_000, policed: 1_700_000_060_000, freed: 1_700_000_180_000 };

const [web, db] = examplePods as readonly [PodIntent, PodIntent];
const owners = { web: ['shop', 'web-0', 'eth0@abc'], db: ['shop', 'db-0', 'eth0@def'] } as const;
const subjectOf = ({ ofPort, addresses }: PodIntent, policed: Pick<SubjectIntent, 'ingress'> = {}): SubjectIntent => ({
  ofPort,
  addresses,
  ...policed,
});
const subjectLine = (name: keyof typeof owners, intent: SubjectIntent): unknown =>
  JSON.parse(writeInput('subject', { owner: ownerOf('subject', ...owners[name]), intent }));
const podLine = (name: keyof typeof owners, intent: PodIntent): unknown =>
  JSON.parse(writeInput('pod', { owner: ownerOf('pod', ...owners[name]), intent }));

/** Row of a policy as it is recorded. */
function rowOf(owner: ReturnType<typeof ownerOf>, flows: Wanted['flows']): readonly [string, readonly (readonly [string, string])[]] {
  const entries = [...encodeBridgeEntries(owner, { ...nothing, flows })];
  return [
    owner,
    entries.map(([key, value]) => [Buffer.from(key, 'latin1').toString('base64'), Buffer.from(plainValue(key, value)).toString('base64')]),
  ];
}

const policyOwners = [
  ownerOf('policy', 'ingress', 'passing', '7'),
  ownerOf('policy', 'ingress', 'ports', '3', 'TCP', '5432-5432', 'allow shop/db-clients spec.ingress[0]'),
  ownerOf('policy', 'ingress', 'decision', 'content'),
] as const;

/** Rows of the policy: 5432/TCP is allowed from all, the rest denied. */
function rowsOfPolicy(): readonly (readonly [string, readonly (readonly [string, string])[]])[] {
  const [subject, decision] = [7, 3];
  const deny = { verdict: 'deny', by: ['shop/db-clients'] } as const;
  const outcome = { verdict: 'allow', by: ['shop/db-clients spec.ingress[0]'] } as const;
  const postgres = { protocol: 'TCP', first: 5432, last: 5432, outcome } as const;
  const [passing, range, decisionOwner] = policyOwners;
  return [
    rowOf(passing, [relationFlow(directionTables.ingress, subject, {}, { decision })]),
    rowOf(range, rangeFlows(directionTables.ingress, decision, postgres, ['ipv4', 'ipv6'])),
    rowOf(decisionOwner, [otherwiseFlow(directionTables.ingress, decision, deny)]),
  ];
}

/** Ports of a Service with web-0 among its endpoints. */
function serviceLines(): readonly string[] {
  const [scene] = exampleServices;
  if (!scene) throw new Error('the example has a Service');
  const { service, slices } = scene;
  return serviceIntents(service, slices, exampleProxying).flatMap((intent) => {
    const owner = ownerOf('service', `${service.namespace}/${service.name}:${intent.name}`);
    const groups = new Map<string, number>();
    const groupId = (name: string): number => {
      groups.set(name, groups.get(name) ?? groups.size + 1);
      return groups.get(name) ?? 0;
    };
    compileService(intent, { owner, groupId });
    return [...writeServices([{ owner, intent, groups }])];
  });
}

/** Lines that the agent of node n1 records: pods shop/web-0 and shop/db-0; a policy isolates db-0, then ends. */
export function recordedLines(): readonly string[] {
  const { addresses, gateway } = exampleProxying.node;
  const round = (t: number, more: object): string =>
    JSON.stringify({ t, is: 'round', gone: [], rows: [], digests: [], lines: [], ...more });
  return [
    JSON.stringify({ t: recordedMs.first, is: 'whole' }),
    writeStart({ node: 'n1', revision: 1 }, { environment: exampleNode, proxy: { addresses, gateway } }),
    ...examplePeers.map((peer) => writeInput('peer', peer)),
    ...[podLine('web', web), podLine('db', db), subjectLine('web', subjectOf(web)), subjectLine('db', subjectOf(db))].map((each) =>
      JSON.stringify(each),
    ),
    ...serviceLines(),
    JSON.stringify({ t: recordedMs.first + 10, is: 'complete', steady: true }),
    round(recordedMs.policed, {
      lines: [subjectLine('db', subjectOf(db, { ingress: 7 }))],
      rows: rowsOfPolicy(),
    }),
    round(recordedMs.freed, { lines: [subjectLine('db', subjectOf(db))], gone: policyOwners }),
  ];
}

/** Lines that the agent of node n2 records: one pod, far/api-0. */
export function recordedElsewhere(): readonly string[] {
  const { addresses, gateway } = exampleProxying.node;
  const [peer] = examplePeers;
  if (!peer) throw new Error('the example has a peer');
  const home = { name: 'n1', podCidrs: exampleNode.podCidrs, transport: exampleNode.transport };
  const environment = { ...exampleNode, podCidrs: peer.podCidrs, transport: peer.transport };
  const pod = { ...web, addresses: [parseCidr('10.10.4.9/32').network] };
  const owner = (feature: 'pod' | 'subject') => ownerOf(feature, 'far', 'api-0', 'eth0@ghi');
  return [
    JSON.stringify({ t: recordedMs.first, is: 'whole' }),
    writeStart({ node: 'n2', revision: 1 }, { environment, proxy: { addresses, gateway } }),
    writeInput('peer', home),
    writeInput('pod', { owner: owner('pod'), intent: pod }),
    writeInput('subject', { owner: owner('subject'), intent: subjectOf(pod) }),
    JSON.stringify({ t: recordedMs.first + 10, is: 'complete', steady: true }),
    JSON.stringify({ t: recordedMs.freed, is: 'round', gone: [], rows: [], digests: [], lines: [] }),
  ];
}
