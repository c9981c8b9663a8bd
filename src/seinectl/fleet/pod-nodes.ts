import { isIP } from 'node:net';
import * as z from 'zod';
import { SeineError } from '../../base/errors/seine-error.ts';
import { type KubeHttp, segment } from '../../kubernetes/client/http-client.ts';
import { listOf, parseObject } from '../../kubernetes/client/resource.ts';
import type { AgentPod, Fleet } from './agents.ts';

const podSchema = z.object({ spec: z.object({ nodeName: z.string().nullish() }) });
const listSchema = z.object({ items: listOf(podSchema) });

/**
 * Returns the name of a pod's node; undefined for an address that no pod has.
 *
 * @param pod `NAMESPACE/NAME` or an address
 * @throws SeineError `INVALID_INPUT` if there is no such pod, `REFUSED` if the user may not read it
 */
export async function nodeOfPod(http: KubeHttp, pod: string, signal: AbortSignal): Promise<string | undefined> {
  if (isIP(pod) !== 0) {
    const query = { fieldSelector: `status.podIP=${pod}`, limit: '1' };
    const { items } = parseObject(listSchema, await http.json({ path: '/api/v1/pods', query }, signal));
    return items[0]?.spec.nodeName ?? undefined;
  }
  const [namespace = '', name = ''] = pod.split('/');
  const path = `/api/v1/namespaces/${segment(namespace)}/pods/${segment(name)}`;
  try {
    const { nodeName } = parseObject(podSchema, await http.json({ path }, signal)).spec;
    if (nodeName) return nodeName;
  } catch (thrown) {
    const error = SeineError.from(thrown, 'find a pod');
    if (error.context['status'] !== 404) throw error;
    throw new SeineError('INVALID_INPUT', `the cluster has no pod ${pod}`);
  }
  throw new SeineError('INVALID_INPUT', `pod ${pod} is on no node yet`);
}

/** Returns the agents of nodes. @throws SeineError `INVALID_INPUT` for a node without an agent's pod */
export function agentsOn({ pods }: Fleet, nodes: readonly string[]): AgentPod[] {
  return nodes.map((node) => {
    const found = pods.find((pod) => pod.node === node);
    if (!found) throw new SeineError('UNAVAILABLE', `node ${node} has no agent in this namespace`);
    return found;
  });
}
