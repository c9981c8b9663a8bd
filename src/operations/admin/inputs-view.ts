import type { LoopTurns } from '../../base/async/loop-turns.ts';
import type { NodeEnvironment } from '../../dataplane/compile/environment.ts';
import type { Owner } from '../../dataplane/pipeline/cookie.ts';
import type { NodeState } from '../../dataplane/targets/node-state.ts';
import type { Peers } from '../../nodes/peers/peers.ts';
import type { Ipam } from '../../pods/ipam/ipam.ts';
import type { NodePodNetwork } from '../../pods/network/pod-network.ts';
import type { PolicyController } from '../../policy/controller/policy-controller.ts';
import type { Services } from '../../services/controller/services.ts';
import { writeEnd, writeInput, writeServices, writeStart } from '../compiler-inputs/inputs-document.ts';
import type { ServiceInput } from '../compiler-inputs/node-inputs.ts';
import { type ApiAnswer, linesAnswer } from './answer.ts';

export interface InputsPort {
  readonly config: { readonly nodeName: string };
  readonly nodeState: { readonly bridge: Pick<NodeState['bridge'], 'revision' | 'disputed'> };
  readonly turns: LoopTurns;
  /** @throws SeineError `UNAVAILABLE` until the node is known */
  readonly running: () => {
    readonly environment: NodeEnvironment;
    readonly services: Pick<Services, 'proxying' | 'served'>;
    readonly peers: Pick<Peers, 'intents'>;
    readonly ipam: Pick<Ipam, 'leases'>;
    readonly network: Pick<NodePodNetwork, 'inputOf'>;
    readonly policy: Pick<PolicyController, 'inputs'>;
  };
}

/** Inputs of all compilers for this node's bridge, one JSON object per line: `seinectl compile` computes its flows again from them. */
export function inputs(port: InputsPort): ApiAnswer {
  return linesAnswer(inputLines(port, port.running()), port.turns);
}

function* inputLines(
  { config, nodeState }: InputsPort,
  { environment, services, peers, ipam, network, policy }: ReturnType<InputsPort['running']>,
): Generator<string> {
  const { addresses, gateway } = services.proxying.node;
  yield writeStart({ node: config.nodeName, revision: nodeState.bridge.revision }, { environment, proxy: { addresses, gateway } });
  let lines = 0;
  for (const line of inputsOf()) {
    lines++;
    yield line;
  }
  yield writeEnd(nodeState.bridge.revision, lines);

  function* inputsOf(): Generator<string> {
    for (const peer of peers.intents()) yield writeInput('peer', peer);
    for (const lease of ipam.leases()) {
      const input = lease.state === 'allocated' ? network.inputOf(lease) : undefined;
      if (input) yield writeInput('pod', input);
    }
    for (const subject of policy.inputs()) yield writeInput('subject', subject);
    yield* writeServices(servedPorts());
    for (const [key, owner] of nodeState.bridge.disputed()) yield writeInput('dispute', { key, owner: owner as Owner });
  }

  function* servedPorts(): Generator<ServiceInput> {
    for (const [owner, { intent, groups }] of services.served()) yield { owner, intent, groups };
  }
}
