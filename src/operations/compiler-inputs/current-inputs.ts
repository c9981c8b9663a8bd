import type { LoopTurns } from '../../base/async/loop-turns.ts';
import type { NodeEnvironment } from '../../dataplane/compile/environment.ts';
import type { Owner } from '../../dataplane/pipeline/cookie.ts';
import type { NodeState } from '../../dataplane/targets/node-state.ts';
import type { Peers } from '../../nodes/peers/peers.ts';
import type { Ipam } from '../../pods/ipam/ipam.ts';
import type { NodePodNetwork } from '../../pods/network/pod-network.ts';
import type { PolicyController } from '../../policy/controller/policy-controller.ts';
import type { Services } from '../../services/controller/services.ts';
import { writeEnd, writeInput, writeServices, writeStart } from './inputs-document.ts';
import type { ServiceInput } from './node-inputs.ts';

/** Parts of a node with inputs of compilers. */
interface InputSources {
  readonly environment: NodeEnvironment;
  readonly services: Pick<Services, 'proxying' | 'served' | 'portsOf'>;
  readonly peers: Pick<Peers, 'intents'>;
  readonly ipam: Pick<Ipam, 'leases'>;
  readonly network: Pick<NodePodNetwork, 'inputOf'>;
  readonly policy: Pick<PolicyController, 'inputs'>;
}

export interface InputsPort {
  readonly config: { readonly nodeName: string };
  readonly nodeState: { readonly bridge: Pick<NodeState['bridge'], 'revision' | 'disputed'> };
  readonly turns: LoopTurns;
  /** @throws SeineError `UNAVAILABLE` until the node is known */
  readonly running: () => InputSources;
}

/** Document of all inputs, line by line. */
export function* allInputs(port: InputsPort, sources: InputSources): Generator<string> {
  const { nodeState } = port;
  yield commonInputs(port, sources);
  let lines = 0;
  for (const line of inputsOf(sources, nodeState)) {
    lines++;
    yield line;
  }
  yield writeEnd(nodeState.bridge.revision, lines);
}

/** First line of the document: inputs that all compilers share. */
export function commonInputs({ config, nodeState }: InputsPort, { environment, services }: InputSources): string {
  const { addresses, gateway } = services.proxying.node;
  return writeStart({ node: config.nodeName, revision: nodeState.bridge.revision }, { environment, proxy: { addresses, gateway } });
}

function* inputsOf(sources: InputSources, { bridge }: InputsPort['nodeState']): Generator<string> {
  for (const peer of sources.peers.intents()) yield writeInput('peer', peer);
  for (const input of podInputs(sources)) yield writeInput('pod', input);
  for (const subject of sources.policy.inputs()) yield writeInput('subject', subject);
  yield* writeServices(servedPorts(sources));
  for (const [key, owner] of bridge.disputed()) yield writeInput('dispute', { key, owner: owner as Owner });
}

function* podInputs({ ipam, network }: InputSources) {
  for (const lease of ipam.leases()) {
    const input = lease.state === 'allocated' ? network.inputOf(lease) : undefined;
    if (input) yield input;
  }
}

function* servedPorts({ services }: InputSources): Generator<ServiceInput> {
  for (const [owner, { intent, groups }] of services.served()) yield { owner, intent, groups };
}

/** Lines of the document about some owners, in the same form. Owners without inputs of their own have none. */
export function* inputsOfOwners(owners: ReadonlySet<string>, sources: InputSources): Generator<string> {
  const features = new Set([...owners].map((owner) => owner.slice(0, owner.indexOf('/'))));
  if (features.has('peer')) for (const peer of sources.peers.intents()) if (owners.has(`peer/${peer.name}`)) yield writeInput('peer', peer);
  if (features.has('pod')) for (const input of podInputs(sources)) if (owners.has(input.owner)) yield writeInput('pod', input);
  if (features.has('subject')) for (const input of sources.policy.inputs()) if (owners.has(input.owner)) yield writeInput('subject', input);
  if (features.has('service')) yield* writeServices(portsAmong(owners, sources));
}

function* portsAmong(owners: ReadonlySet<string>, { services }: InputSources): Generator<ServiceInput> {
  for (const owner of owners) {
    const [, service] = /^service\/([^/:]+\/[^/:]+):/.exec(owner) ?? [];
    const port = service === undefined ? undefined : services.portsOf(service).get(owner as Owner);
    if (port) yield { owner: owner as Owner, intent: port.intent, groups: port.groups };
  }
}
