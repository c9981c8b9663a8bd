import type { EvidenceFlow, EvidenceNode, EvidencePod, PolicyEvidence } from '../../api/policy-evidence.ts';
import type { LoopTurns } from '../../base/async/loop-turns.ts';
import { SeineError } from '../../base/errors/seine-error.ts';
import type { NodeEnvironment, PolicyMode } from '../../dataplane/compile/environment.ts';
import { tables } from '../../dataplane/pipeline/tables.ts';
import type { KubeHttp } from '../../kubernetes/client/http-client.ts';
import { listObjects } from '../../kubernetes/client/reflector/object-list.ts';
import { clusterPolicyListApi } from '../../kubernetes/resources/cluster-policy-api.ts';
import { clusterPolicyEvidence, policyEvidence as lists } from '../../kubernetes/resources/policy-evidence.ts';
import type { Ipam } from '../../pods/ipam/ipam.ts';
import { podName } from '../../pods/ipam/lease.ts';
import type { PodStanding } from '../../policy/controller/pod-policy-state.ts';
import type { PolicyController } from '../../policy/controller/policy-controller.ts';
import type { BridgeReader } from '../diagnose/entries/bridge-entries.ts';
import type { NodeReader } from '../diagnose/entries/node-reader.ts';
import { readFullShares } from '../diagnose/entries/sctp-associations.ts';
import { type ApiAnswer, linesAnswer } from './answer.ts';

interface ProvenNode {
  readonly environment: Pick<NodeEnvironment, 'gateway' | 'transport' | 'localAddresses' | 'policyMode' | 'denied'>;
  readonly ipam: Pick<Ipam, 'leases'>;
  readonly policy: Pick<PolicyController, 'inputs' | 'pods' | 'peerShortages' | 'unknownPeers'>;
}

export interface PolicyEvidencePort {
  readonly config: { readonly nodeName: string };
  readonly http: Pick<KubeHttp, 'stream' | 'json'>;
  readonly openflow: Pick<BridgeReader, 'dumpFlows'>;
  readonly reader: Pick<NodeReader, 'ownersByCookie'>;
  readonly turns: LoopTurns;
  /** @throws SeineError `UNAVAILABLE` until the node is known */
  readonly running: () => ProvenNode;
}

/** Tables from the entry tables to the verdicts. */
const policyTables = Object.values(tables)
  .map(({ id }) => id)
  .filter(
    (id) =>
      (id >= tables.egressEntry.id && id <= tables.egressVerdict.id) || (id >= tables.ingressEntry.id && id <= tables.ingressVerdict.id),
  );

/**
 * `GET /v1/policy/evidence`: lines of JSON ({@link PolicyEvidence}). Contains the parts of API objects that matter for policies, read from
 * the API server for this request and not interpreted here; and the policy flows, read from OVS. The agent uses neither its watches nor its
 * computed state for it.
 */
export function policyEvidence(port: PolicyEvidencePort, signal: AbortSignal): ApiAnswer {
  const node = nodeLine(port.config.nodeName, port.running());
  return linesAnswer(evidenceLines(port, node, signal), port.turns);
}

async function* evidenceLines(port: PolicyEvidencePort, node: EvidenceNode, signal: AbortSignal): AsyncGenerator<string> {
  try {
    for await (const each of evidence(port, node, signal)) yield JSON.stringify(each);
  } catch (thrown) {
    signal.throwIfAborted();
    const { rawMessage: message } = SeineError.from(thrown, 'policy evidence');
    yield JSON.stringify({ kind: 'failed', message } satisfies PolicyEvidence);
  }
}

async function* evidence(port: PolicyEvidencePort, node: EvidenceNode, signal: AbortSignal): AsyncGenerator<PolicyEvidence> {
  yield node;
  const optional = { http: clusterPolicyListApi(port.http), turns: port.turns };
  for await (const object of listObjects<unknown>(optional, clusterPolicyEvidence, signal))
    yield { kind: 'object', of: 'clusterNetworkPolicies', object };
  for (const kind of ['networkPolicies', 'namespaces', 'nodes', 'pods'] as const)
    for await (const object of listObjects<unknown>(port, lists[kind], signal)) yield { kind: 'object', of: kind, object };
  const owners = await port.reader.ownersByCookie();
  for (const table of policyTables) yield* await flowsOf(port, table, owners, signal);
  yield { kind: 'end', fullAssociationShares: await readFullShares(port.openflow, signal) };
}

/** Kept as texts until OVS has sent the whole table: the messages are in memory that is reused. */
async function flowsOf(
  { openflow }: PolicyEvidencePort,
  table: number,
  owners: ReadonlyMap<bigint, string>,
  signal: AbortSignal,
): Promise<readonly EvidenceFlow[]> {
  const flows: EvidenceFlow[] = [];
  await openflow.dumpFlows(
    { table },
    ({ priority, cookie, match, instructions }) => {
      const owner = owners.get(cookie);
      flows.push({
        kind: 'flow',
        table,
        priority,
        cookie: cookie.toString(16),
        match: base64(match),
        instructions: base64(instructions),
        ...(owner === undefined ? {} : { owner }),
      });
    },
    signal,
  );
  return flows;
}

function base64(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('base64');
}

function nodeLine(name: string, { environment, ipam, policy }: ProvenNode): EvidenceNode {
  const { gateway, transport, localAddresses = [], policyMode: mode = 'enforce', denied = 'drop' } = environment;
  const ownAddresses = [...new Set([...gateway.addresses, ...transport, ...localAddresses].map(({ text }) => text))];
  const ofPorts = new Map<string, number>();
  for (const { intent } of policy.inputs()) for (const { text } of intent.addresses) ofPorts.set(text, intent.ofPort);
  const standings = policy.pods();
  const pods = ipam
    .leases()
    .filter(({ state, pod }) => state === 'allocated' && pod !== undefined)
    .map((lease): EvidencePod => {
      const [pod, addresses] = [podName(lease), lease.addresses.map(({ ip }) => ip.text)];
      const [ofPort] = addresses.flatMap((each) => ofPorts.get(each) ?? []);
      return { name: pod, addresses, ...(ofPort === undefined ? {} : { ofPort }), ...holdsOf(mode, standings.get(pod)) };
    });
  const leftOutRules = policy.peerShortages.flatMap(({ rules }) => rules);
  return { kind: 'node', name, mode, ownAddresses, unknownPeers: policy.unknownPeers, denied, leftOutRules, pods };
}

function holdsOf(mode: PolicyMode, standing: PodStanding | undefined): Pick<EvidencePod, 'holds' | 'why'> {
  if (mode === 'off') return { holds: 'everything', why: 'the policy mode of this node is off' };
  if (standing?.is === 'suspended') return { holds: 'everything', why: `its policies are suspended ${standing.why ?? ''}` };
  return standing?.is === 'closed' ? { holds: 'own node only', why: standing.why ?? 'nothing is known of it' } : { holds: 'policies' };
}
