import type { Ip } from '../../base/net/ip.ts';
import { ownerOf } from '../../dataplane/pipeline/cookie.ts';
import type { KernelTranslation } from '../../operations/trace/kernel-paths.ts';
import { compileEndpoint, compileService } from '../../services/compile/compile-service.ts';
import { endpointOwner } from '../../services/compile/endpoint-owner.ts';
import { askedRanges, type ServiceIntent, translatedEndpoints } from '../../services/compile/service-intent.ts';
import { compileSourceRanges, rangeSetOf } from '../../services/compile/source-ranges.ts';
import { translatedPorts } from '../../services/compile/translated-ports.ts';
import { VirtualPorts } from '../../services/compile/virtual-ports.ts';
import type { SimulatedObjects } from '../objects/cluster-objects.ts';
import { type ClientPlace, dependsOnNode, intentsAt, type ServedSide, ServiceIndex } from '../services/service-answers.ts';
import { FlowLayer } from './flow-layer.ts';
import type { SimulatedParts } from './node-compiler.ts';

type OwnNode = Parameters<typeof compileSourceRanges>[1];

/** Number of groups that a port of a Service may have: one for each kind of client and address. */
const GROUPS_OF_PORT = 64;

/**
 * Flows and groups of Services: one layer for those that every node serves alike, and one for each node for the others. Groups are numbered in the
 * order of the Services' names.
 */
export class ServiceLayers {
  /** Services by `namespace/name`, in the order of names. */
  readonly #byNode: readonly NumberedService[];
  /** Ports with a node port, of the Services that every node serves alike. */
  readonly #commonIntents: ServiceIntent[] = [];
  readonly common = new FlowLayer();

  constructor(objects: SimulatedObjects) {
    const index = new ServiceIndex(objects);
    const byNode: NumberedService[] = [];
    const addresses = new Set(objects.nodes.flatMap(({ status }) => status.addresses.map(({ address }) => address)));
    for (const [number, key] of [...index.keys].sort().entries()) {
      const side = index.of(key);
      if (!side) continue;
      const numbered = { key, side, number };
      if (dependsOnNode(side) || hasSourceRanges(side) || hasAddressOf(side, addresses)) byNode.push(numbered);
      else this.#commonIntents.push(...addService(this.common, numbered, anywhere).filter(hasNodePort));
    }
    this.#byNode = byNode;
  }

  /** Layer of the Services that a node serves in its own way, and how its kernel translates packets for its addresses. */
  at(place: ClientPlace, { environment }: SimulatedParts): { readonly layer: FlowLayer; readonly translated: KernelTranslation } {
    const layer = new FlowLayer();
    const node = { addresses: environment.transport, gateway: environment.gateway.addresses };
    const isOwn = ({ text }: Ip): boolean => environment.transport.some((own) => own.text === text);
    const own = this.#byNode.flatMap((service) => addService(layer, service, { place, node, isOwn }));
    return { layer, translated: translatedPorts([...this.#commonIntents, ...own], isOwn) };
  }
}

function hasNodePort({ addresses }: ServiceIntent): boolean {
  return addresses.some(({ kind }) => kind === 'nodePort');
}

/** A Service with an address of a node is served with another one there (`VirtualPorts`). */
function hasAddressOf({ served: { spec, status } }: ServedSide, addresses: ReadonlySet<string>): boolean {
  const own = [...(spec.externalIPs ?? []), ...(status?.loadBalancer?.ingress ?? []).map(({ ip }) => ip ?? '')];
  return own.some((address) => addresses.has(address));
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

const anywhere: ServingPlace = { place: { name: '' }, node: { addresses: [], gateway: [] } };

interface ServingPlace {
  readonly place: ClientPlace;
  readonly node: OwnNode;
  readonly isOwn?: (ip: Ip) => boolean;
}

/** @returns the ports that are served */
function addService(layer: FlowLayer, { key, side, number }: NumberedService, { place, node, isOwn }: ServingPlace): ServiceIntent[] {
  const virtual = isOwn && new VirtualPorts({ isOwn, isNodePort: () => false });
  const served: ServiceIntent[] = [];
  for (const [at, asked] of intentsAt(side, place).entries()) {
    if (asked.addresses.length === 0) continue;
    const intent = virtual?.add(ownerOf('service', `${key}:${asked.name}`), asked) ?? asked;
    addIntent(layer, key, intent, { first: 1 + (number * 256 + at) * GROUPS_OF_PORT, node });
    served.push(intent);
  }
  return served;
}

interface ServiceNumbers {
  /** Number of the first group. */
  readonly first: number;
  readonly node: OwnNode;
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
