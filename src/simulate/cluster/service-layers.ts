import { ownerOf } from '../../dataplane/pipeline/cookie.ts';
import { compileEndpoint, compileService } from '../../services/compile/compile-service.ts';
import { endpointOwner } from '../../services/compile/endpoint-owner.ts';
import { askedRanges, type ServiceIntent, translatedEndpoints } from '../../services/compile/service-intent.ts';
import { compileSourceRanges, rangeSetOf } from '../../services/compile/source-ranges.ts';
import type { SimulatedObjects } from '../objects/cluster-objects.ts';
import { type ClientPlace, dependsOnNode, intentsAt, type ServedSide, ServiceIndex } from '../services/service-answers.ts';
import { FlowLayer } from './flow-layer.ts';
import type { SimulatedParts } from './node-compiler.ts';

/** Number of groups that a port of a Service may have: one for each kind of client and address. */
const GROUPS_OF_PORT = 64;

/**
 * Flows and groups of Services: one layer for those that every node serves alike, and one for each node for the others. Groups are numbered in the
 * order of the Services' names.
 */
export class ServiceLayers {
  /** Services by `namespace/name`, in the order of names. */
  readonly #byNode: readonly NumberedService[];
  readonly common = new FlowLayer();

  constructor(objects: SimulatedObjects) {
    const index = new ServiceIndex(objects);
    const byNode: NumberedService[] = [];
    for (const [number, key] of [...index.keys].sort().entries()) {
      const side = index.of(key);
      if (!side) continue;
      const numbered = { key, side, number };
      if (dependsOnNode(side) || hasSourceRanges(side)) byNode.push(numbered);
      else addService(this.common, numbered, { name: '' }, { addresses: [], gateway: [] });
    }
    this.#byNode = byNode;
  }

  /** Layer of the Services that a node serves in its own way. */
  at(place: ClientPlace, { environment }: SimulatedParts): FlowLayer {
    const layer = new FlowLayer();
    const node = { addresses: environment.transport, gateway: environment.gateway.addresses };
    for (const service of this.#byNode) addService(layer, service, place, node);
    return layer;
  }
}

interface NumberedService {
  readonly key: string;
  readonly side: ServedSide;
  readonly number: number;
}

/** The node itself may ask where one of its addresses may. */
function hasSourceRanges({ served }: ServedSide): boolean {
  const { loadBalancerSourceRanges } = served.spec as { readonly loadBalancerSourceRanges?: readonly unknown[] | null };
  return (loadBalancerSourceRanges ?? []).length > 0;
}

function addService(
  layer: FlowLayer,
  { key, side, number }: NumberedService,
  place: ClientPlace,
  node: Parameters<typeof compileSourceRanges>[1],
): void {
  for (const [at, intent] of intentsAt(side, place).entries()) {
    if (intent.addresses.length === 0) continue;
    addIntent(layer, key, intent, { first: 1 + (number * 256 + at) * GROUPS_OF_PORT, node });
  }
}

interface ServiceNumbers {
  /** Number of the first group. */
  readonly first: number;
  readonly node: Parameters<typeof compileSourceRanges>[1];
}

function addIntent(layer: FlowLayer, key: string, intent: ServiceIntent, { first, node }: ServiceNumbers): void {
  const owner = ownerOf('service', `${key}:${intent.name}`);
  const numbers = new Map<string, number>();
  const groupId = (name: string): number => {
    const known = numbers.get(name) ?? first + numbers.size;
    numbers.set(name, known);
    return known;
  };
  for (const endpoint of translatedEndpoints(intent)) {
    const shared = endpointOwner(intent.transport, endpoint);
    layer.want(shared, compileEndpoint(intent.transport, endpoint));
  }
  const ranges = askedRanges(intent);
  if (ranges) layer.want(rangeSetOf(ranges).owner, compileSourceRanges(ranges, node));
  layer.want(owner, compileService(intent, { owner, groupId }));
}
