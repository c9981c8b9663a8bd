import { parseIp } from '../../src/base/net/ip.ts';
import { packEndpoints, type SliceEndpoint } from '../../src/base/net/packed-endpoints.ts';
import type { EndpointSlice } from '../../src/kubernetes/resources/endpoint-slice.ts';
import type { Service } from '../../src/kubernetes/resources/service.ts';

/** A Service in the API server's form, with its EndpointSlices. */
export interface SceneService {
  readonly service: Service;
  readonly slices: readonly EndpointSlice[];
}

type Protocol = Service['ports'][number]['protocol'];

export interface PlainService {
  readonly name: string;
  readonly protocol: Protocol;
  /** Canonical text, of one family. */
  readonly clusterIp: string;
  readonly port: number;
  readonly nodePort?: number;
  /** `ADDRESS PORT`, or `ADDRESS PORT NODE`, or `ADDRESS PORT NODE STATE`. */
  readonly endpoints: readonly string[];
  readonly more?: Partial<Service>;
}

const states: Readonly<Record<string, Pick<SliceEndpoint, 'ready' | 'serving' | 'terminating'>>> = {
  ready: { ready: true, serving: true, terminating: false },
  leaving: { ready: false, serving: true, terminating: true },
  gone: { ready: false, serving: false, terminating: true },
  starting: { ready: false, serving: false, terminating: false },
};

/** A Service with these fields, and all others as the API server fills them in. */
export function filledService(said: Pick<Service, 'name' | 'clusterIps' | 'ports'> & Partial<Service>): Service {
  return {
    namespace: 'default',
    uid: said.name,
    type: 'ClusterIP',
    ipFamilies: ['ipv4'],
    externalTrafficPolicy: 'Cluster',
    internalTrafficPolicy: 'Cluster',
    externalIps: [],
    loadBalancerIngress: [],
    loadBalancerSourceRanges: [],
    publishNotReadyAddresses: false,
    headlessLabel: false,
    ...said,
  };
}

/** A Service of one port in one family; all endpoints with one target port are in one slice. */
export function sceneService({ name, protocol, clusterIp, port, nodePort, endpoints, more }: PlainService): SceneService {
  const { family } = parseIp(clusterIp);
  const byPort = Map.groupBy(endpoints, (text) => text.split(' ')[1] ?? '');
  return {
    service: filledService({
      name,
      type: nodePort === undefined ? 'ClusterIP' : 'NodePort',
      clusterIps: [clusterIp],
      ipFamilies: [family],
      ports: [{ name: '', protocol, port, targetPort: port, ...(nodePort === undefined ? {} : { nodePort }) }],
      ...more,
    }),
    slices: [...byPort].map(([number, texts]) => ({
      namespace: 'default',
      name: `${name}-${number}`,
      service: name,
      family,
      ports: [{ name: '', protocol, port: Number(number) }],
      endpoints: packEndpoints(texts.map(endpointOf)),
    })),
  };
}

function endpointOf(text: string): SliceEndpoint {
  const [address = '', , nodeName, state = 'ready'] = text.split(' ');
  const found = states[state];
  if (!found) throw new Error(`no state ${state}`);
  return { addresses: [address], ...found, ...(nodeName === undefined ? {} : { nodeName }) };
}
