import { writeEnd, writeInput, writeStart } from '../../inputs/inputs-document.ts';
import type { Owner } from '../../pipeline/cookie.ts';
import type { Agent, RunningNode } from '../agent.ts';
import { type ApiAnswer, linesAnswer } from './answer.ts';
import { running } from './lists.ts';

/** Everything the compilers are given for this node's bridge, a JSON object a line: what `seinectl compile` makes its flows of again. */
export function inputs(agent: Agent): ApiAnswer {
  return linesAnswer(inputLines(agent, running(agent)), agent.sources.turns);
}

function* inputLines(
  { config, plane: { datapath } }: Agent,
  { environment, services, peers, ipam, network }: RunningNode,
): Generator<string> {
  const { addresses, gateway } = services.proxying.node;
  yield writeStart({ node: config.nodeName, revision: datapath.bridge.revision }, { environment, proxy: { addresses, gateway } });
  let lines = 0;
  for (const line of inputsOf()) {
    lines++;
    yield line;
  }
  yield writeEnd(datapath.bridge.revision, lines);

  function* inputsOf(): Generator<string> {
    for (const peer of peers.intents()) yield writeInput('peer', peer);
    for (const lease of ipam.leases()) {
      const input = lease.state === 'allocated' ? network.inputOf(lease) : undefined;
      if (input) yield writeInput('pod', input);
    }
    for (const [owner, { intent, groups }] of services.served()) yield writeInput('service', { owner, intent, groups });
    for (const [key, owner] of datapath.bridge.disputed()) yield writeInput('dispute', { key, owner: owner as Owner });
  }
}
