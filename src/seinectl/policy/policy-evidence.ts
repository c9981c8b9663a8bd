import type { EvidenceFlow, EvidenceNode, EvidencePod, PolicyEvidence } from '../../api/policy-evidence.ts';
import { SeineError } from '../../base/errors/seine-error.ts';
import type { HeldFlow } from '../../policy/verify/flow-reader/table-index.ts';
import type { ProvenPod } from '../../policy/verify/proof/prove.ts';
import type { PolicyObjects } from '../../policy/verify/reference/objects.ts';
import type { AgentClient } from '../agent-client.ts';

/** All evidence that a proof needs. */
export interface Evidence {
  readonly node: EvidenceNode;
  readonly objects: PolicyObjects;
  readonly flows: readonly HeldFlow[];
  /** Owner of each flow. */
  readonly owners: ReadonlyMap<HeldFlow, string>;
  /** Addresses of senders whose share of SCTP associations is full. */
  readonly fullAssociationShares: readonly string[];
}

/** Pod that is not compared, and the reason. */
export interface Omitted {
  readonly pod: string;
  readonly why: string;
}

/** @throws SeineError `UNAVAILABLE` if something is missing; like `AgentClient.lines` */
export async function readEvidence(agent: AgentClient, signal: AbortSignal): Promise<Evidence> {
  const objects: { [L in keyof PolicyObjects]-?: Required<PolicyObjects>[L][number][] } = {
    namespaces: [],
    pods: [],
    nodes: [],
    networkPolicies: [],
    clusterNetworkPolicies: [],
  };
  const flows: HeldFlow[] = [];
  const owners = new Map<HeldFlow, string>();
  let node: EvidenceNode | undefined;
  for await (const text of agent.lines('/v1/policy/evidence', 'GET', signal)) {
    const line = JSON.parse(text) as PolicyEvidence;
    if (line.kind === 'node') node = line;
    else if (line.kind === 'object') (objects[line.of] as unknown[]).push(line.object);
    else if (line.kind === 'flow') {
      const flow = heldFlow(line);
      flows.push(flow);
      if (line.owner !== undefined) owners.set(flow, line.owner);
    } else if (line.kind === 'failed') throw new SeineError('UNAVAILABLE', line.message);
    else if (node) return { node, objects, flows, owners, fullAssociationShares: line.fullAssociationShares ?? [] };
  }
  throw new SeineError('UNAVAILABLE', 'the answer breaks off');
}

function heldFlow({ table, priority, cookie, match, instructions }: EvidenceFlow): HeldFlow {
  return { table, priority, cookie: BigInt(`0x${cookie}`), match: bytesOf(match), instructions: bytesOf(instructions) };
}

function bytesOf(base64: string): Uint8Array {
  return Uint8Array.from(Buffer.from(base64, 'base64'));
}

/**
 * Pods of the node that can be compared: the object in the API server must be of this pod, with this address.
 *
 * @param only `namespace/name`, or all
 */
export function comparedPods(
  { node, objects }: Pick<Evidence, 'node' | 'objects'>,
  only?: string,
): { readonly pods: readonly ProvenPod[]; readonly leftOut: readonly Omitted[] } {
  const addresses = new Map(
    objects.pods
      .filter(({ spec }) => spec.nodeName === node.name && spec.hostNetwork !== true)
      .map(({ metadata, status }) => [`${metadata.namespace}/${metadata.name}`, (status.podIPs ?? []).map(({ ip }) => ip)]),
  );
  const pods: ProvenPod[] = [];
  const leftOut: Omitted[] = [];
  for (const pod of node.pods.filter(({ name }) => only === undefined || name === only)) {
    const why = lackOf(pod, addresses.get(pod.name));
    if (why !== undefined) leftOut.push({ pod: pod.name, why });
    else pods.push({ pod: pod.name, ofPort: pod.ofPort ?? 0, addresses: pod.addresses, holds: pod.holds });
  }
  return { pods, leftOut };
}

function lackOf({ ofPort, addresses }: EvidencePod, said: readonly string[] | undefined): string | undefined {
  if (ofPort === undefined) return 'its policies are not decided since the agent started';
  if (said === undefined) return 'the API server has no such running pod here';
  if (said.length === 0) return 'the API server does not have its address yet';
  const [other] = addresses.filter((address) => !said.includes(address));
  return other === undefined ? undefined : `${other} is not the pod's by the API server`;
}
