import { SeineError } from '../../errors/seine-error.ts';
import type { Agent, RunningNode } from '../agent.ts';
import { type ApiAnswer, json } from './answer.ts';
import { running } from './lists.ts';
import { podName } from './pod-view.ts';
import { type Asker, explainService } from './service-explanation.ts';

/** `?name=NAMESPACE/NAME`, and `&from=` a pod of this node, `node` or `world`. @throws SeineError `INVALID_INPUT` */
export function serviceExplanation(agent: Agent, query: URLSearchParams): ApiAnswer {
  const node = running(agent);
  const name = query.get('name') ?? '';
  const service = agent.sources.services.replica.get(name);
  if (!service) throw new SeineError('INVALID_INPUT', `there is no Service ${JSON.stringify(name)}`);
  const askers = askersOf(agent, node, query.get('from') ?? undefined);
  const { services, proxy } = node;
  return json(explainService({ service, services, node: agent.config.nodeName, askers, proxyAll: proxy.mode.sentence }));
}

function askersOf({ config }: Agent, node: RunningNode, from: string | undefined): readonly Asker[] {
  const itself: Asker = { client: 'node', name: `Node ${config.nodeName} itself`, addresses: node.services.proxying.node.addresses };
  const world: Asker = { client: 'world', name: 'The world outside', addresses: [] };
  if (from === 'node') return [itself];
  if (from === 'world') return [world];
  if (from === undefined) return [{ client: 'pod', name: 'A pod of this node', addresses: [] }, itself, world];
  const name = from.includes('/') ? from : `default/${from}`;
  const lease = node.ipam.leases().find((each) => each.state === 'allocated' && podName(each) === name);
  if (!lease)
    throw new SeineError('INVALID_INPUT', `this node has no pod ${JSON.stringify(name)}; ask the node that has it, or from node or world`);
  return [{ client: 'pod', name: `Pod ${name}`, addresses: lease.addresses.map(({ ip }) => ip) }];
}
