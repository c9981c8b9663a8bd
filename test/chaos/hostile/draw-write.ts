import type { ApiObject } from '../api.ts';
import { hostileNamespace } from './actors.ts';
import type { Drawing, HostileWrite } from './drawing.ts';
import { changedEndpointSlice, drawEndpointSlice } from './endpoint-slices.ts';
import { drawNodeWrite } from './nodes.ts';
import { changedPod, drawPod } from './pods.ts';
import { changedPolicy, drawPolicy } from './policies.ts';
import { changedService, drawService } from './services.ts';
import { awkwardNames, objectBytesMost } from './sizes.ts';

type Plural = 'services' | 'endpointslices' | 'networkpolicies' | 'pods';

export type WriteKind = Plural | 'nodes' | 'exchange' | 'change';

/** Kinds of writes; the frequency of a kind is its number of occurrences. */
export const writeKinds: readonly WriteKind[] = [
  ...['services', 'services', 'services', 'endpointslices', 'endpointslices', 'networkpolicies', 'networkpolicies', 'networkpolicies'],
  ...['pods', 'pods', 'pods', 'pods', 'nodes', 'nodes', 'nodes', 'exchange', 'change', 'change'],
] as readonly WriteKind[];
/** Maximum number of objects; above it the oldest is deleted. */
const kept: Readonly<Record<Plural, number>> = { services: 5, endpointslices: 5, networkpolicies: 5, pods: 3 };
const drawnBy: Readonly<Record<Plural, (name: string, drawing: Drawing) => ApiObject>> = {
  services: drawService,
  endpointslices: drawEndpointSlice,
  networkpolicies: drawPolicy,
  pods: drawPod,
};

/**
 * Writes of the attackers in one step: one object, after others made room or took its place.
 *
 * @param kinds some of `writeKinds`; draws do not depend on it
 */
export function drawWrites(step: number, drawing: Drawing, kinds: readonly WriteKind[] = writeKinds): readonly HostileWrite[] {
  const kind = drawing.random.pick(kinds);
  if (kind === 'nodes') return [drawNodeWrite(drawing)];
  if (kind === 'exchange') return drawExchange(step, drawing);
  if (kind === 'change') return drawChange(step, drawing);
  return drawCreation(kind, step, drawing);
}

function drawCreation(plural: Plural, step: number, drawing: Drawing): readonly HostileWrite[] {
  const name = `${drawing.random.pick(awkwardNames)}-${step}`;
  const there = drawing.theirs[plural] ?? [];
  const surplus = there.slice(0, Math.max(0, there.length + 1 - kept[plural]));
  return [
    ...surplus.map((object) => write('delete', plural, object)),
    write('create', plural, drawFitting(plural, name, drawing), drawing.random.chance(0.5)),
  ];
}

/** Draws again, until the object is no larger than an API server stores. */
function drawFitting(plural: Plural, name: string, drawing: Drawing): ApiObject {
  for (;;) {
    const object = drawnBy[plural](name, drawing);
    if (JSON.stringify(object).length <= objectBytesMost) return object;
  }
}

function drawChange(step: number, drawing: Drawing): readonly HostileWrite[] {
  const plural = drawing.random.pick(['services', 'services', 'pods', 'endpointslices', 'networkpolicies'] as const);
  const object = drawing.random.maybe(drawing.theirs[plural] ?? []);
  if (object === undefined) return drawCreation(plural, step, drawing);
  return [{ ...write('patch', plural, object), change: changedBy[plural](drawing, object) }];
}

/** Merge patches. */
const changedBy: Readonly<Record<Plural, (drawing: Drawing, object: ApiObject) => object>> = {
  services: (drawing, object) => changedService(object, drawing),
  pods: changedPod,
  endpointslices: changedEndpointSlice,
  networkpolicies: changedPolicy,
};

/** Two objects are deleted and recreated with each other's values: the addresses and node ports of a Service, the host ports of a pod. */
function drawExchange(step: number, drawing: Drawing): readonly HostileWrite[] {
  const plural = drawing.random.pick(['services', 'pods', 'endpointslices'] as const);
  const [one, other] = drawing.theirs[plural] ?? [];
  if (one === undefined || other === undefined) return drawCreation(plural, step, drawing);
  return [
    ...[one, other].map((object) => write('delete', plural, object)),
    ...exchanged(one, other).map((object) => write('create', plural, object)),
  ];
}

function exchanged(one: ApiObject, other: ApiObject): readonly ApiObject[] {
  const named = ({ metadata: { name, labels, annotations } }: ApiObject, of: ApiObject): ApiObject => {
    const { metadata: _, status: __, ...content } = of;
    const metadata = { name, namespace: hostileNamespace, ...(labels && { labels }), ...(annotations && { annotations }) };
    return { ...content, metadata };
  };
  return [named(one, other), named(other, one)];
}

function write(verb: 'create' | 'delete' | 'patch', plural: Plural, object: ApiObject, byAuthor = false): HostileWrite {
  return { actor: plural === 'pods' && byAuthor ? 'pod author' : 'tenant', verb, plural, object };
}
