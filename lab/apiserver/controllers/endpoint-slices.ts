import type { ServiceSpec } from 'kubernetes-types/core/v1.d.ts';
import type { Endpoint } from 'kubernetes-types/discovery/v1.d.ts';
import type { Log } from '../../../src/base/log/log.ts';
import { type ApiObject, keyOf } from '../object/api-object.ts';
import { arrayAt, equalJson } from '../object/json.ts';
import type { Labels } from '../object/selectors.ts';
import type { ApiResource } from '../resource/resource.ts';
import type { Store } from '../store/store.ts';
import type { ObjectWriter } from '../write/object-writer.ts';
import { changeObject } from './access.ts';
import { type AddressType, addressTypesOf, type EndpointGroup, groupEndpoints } from './endpoints-of-service.ts';
import { ControllerLoop } from './loop.ts';
import { type Slice, spread } from './spread-endpoints.ts';
import { TriggerTimes, triggerTimeAnnotation } from './trigger-times.ts';

const serviceLabel = 'kubernetes.io/service-name';
const managedBy = 'endpointslice.kubernetes.io/managed-by';
const headlessLabel = 'service.kubernetes.io/headless';
const controller = 'endpointslice-controller.k8s.io';
const manager = 'kube-controller-manager';

interface EndpointSlicePorts {
  readonly store: Pick<Store, 'get' | 'list' | 'subscribe'>;
  readonly writer: Pick<ObjectWriter, 'create' | 'update' | 'delete'>;
  readonly slices: ApiResource;
}

/** Keeps the EndpointSlices of every Service that has a selector: one slice or more for each family and set of target ports. */
export function startEndpointSlices(ports: EndpointSlicePorts, log: Log): ControllerLoop {
  const { store, slices } = ports;
  const selectors = new Map<string, Labels>();
  const slicesOf = new Map<string, Set<string>>();
  const times = new TriggerTimes();
  const loop = new ControllerLoop('endpoint slices', (key) => reconcile(ports, key, slicesOf.get(key) ?? new Set(), times), log);
  const noteService = (service: ApiObject) => {
    const { selector } = service.spec as ServiceSpec;
    if (selector !== undefined && Object.keys(selector).length > 0) selectors.set(keyOf(service.metadata), selector);
    loop.mark(keyOf(service.metadata));
  };
  const noteSlice = (slice: ApiObject, change: 'add' | 'delete') => {
    const service = noteOwner(slicesOf, slice, change);
    if (service !== undefined) loop.mark(service);
  };
  const markPod = ({ metadata: { namespace = '', labels = {} } }: ApiObject) => {
    for (const [key, selector] of selectors) if (key.startsWith(`${namespace}/`) && selects(selector, labels)) loop.mark(key);
  };
  for (const { object } of store.list(slices.storage)) noteSlice(object, 'add');
  for (const { object } of store.list('services')) noteService(object);
  store.subscribe('services', ({ type, entry }) => {
    selectors.delete(keyOf(entry.object.metadata));
    if (type !== 'DELETED') noteService(entry.object);
  });
  store.subscribe(slices.storage, ({ type, entry, previous }) => {
    if (previous !== undefined) noteSlice(previous.object, 'delete');
    if (type !== 'DELETED') noteSlice(entry.object, 'add');
  });
  store.subscribe('pods', ({ entry, previous }) => {
    if (previous !== undefined) markPod(previous.object);
    markPod(entry.object);
  });
  store.subscribe('nodes', ({ entry, previous }) => {
    if (zoneOf(entry.object) !== zoneOf(previous?.object)) for (const key of selectors.keys()) loop.mark(key);
  });
  return loop;
}

/** @returns the key of the Service whose slice it is, if it is one of ours */
function noteOwner(slicesOf: Map<string, Set<string>>, slice: ApiObject, change: 'add' | 'delete'): string | undefined {
  const service = ownedService(slice);
  if (service === undefined) return undefined;
  const keys = slicesOf.get(service) ?? new Set();
  keys[change](keyOf(slice.metadata));
  if (keys.size === 0) slicesOf.delete(service);
  else slicesOf.set(service, keys);
  return service;
}

function ownedService({ metadata }: ApiObject): string | undefined {
  const name = metadata.labels?.[serviceLabel];
  return name === undefined || metadata.labels?.[managedBy] !== controller ? undefined : `${metadata.namespace ?? ''}/${name}`;
}

function zoneOf(node: ApiObject | undefined): string | undefined {
  return node?.metadata.labels?.['topology.kubernetes.io/zone'];
}

function selects(selector: Labels, labels: Labels): boolean {
  return Object.entries(selector).every(([key, value]) => labels[key] === value);
}

function reconcile(ports: EndpointSlicePorts, key: string, sliceKeys: ReadonlySet<string>, times: TriggerTimes): void {
  const { slices: resource } = ports;
  const service = ports.store.get('services', key)?.object;
  const existing = Array.from(sliceKeys)
    .toSorted()
    .flatMap((slice) => ports.store.get(resource.storage, slice)?.object ?? []);
  const spec = service?.spec as ServiceSpec | undefined;
  if (service === undefined || spec === undefined || spec.type === 'ExternalName') {
    times.forget(key);
    for (const slice of existing) ports.writer.delete(resource, slice.metadata.namespace, slice.metadata.name, {});
    return;
  }
  if (spec.selector === undefined || Object.keys(spec.selector).length === 0) return;
  const { selector } = spec;
  const { namespace } = service.metadata;
  const pods = ports.store.list('pods').map(({ object }) => object);
  const selected = pods.filter(({ metadata }) => metadata.namespace === namespace && selects(selector, metadata.labels ?? {}));
  const nodeZone = (name: string) => zoneOf(ports.store.get('nodes', name)?.object);
  const types = addressTypesOf(spec);
  const triggerTime = times.next(key, service, selected);
  for (const type of types)
    writeSlices(
      ports,
      { service, triggerTime },
      type,
      groupEndpoints(service, selected, type, nodeZone),
      existing.filter((slice) => slice['addressType'] === type),
    );
  for (const slice of existing) {
    if (!types.includes(slice['addressType'] as AddressType)) ports.writer.delete(resource, namespace, slice.metadata.name, {});
  }
}

/** Makes the slices of one family contain exactly the endpoints given, with as few writes as possible. */
function writeSlices(
  slicePorts: EndpointSlicePorts,
  { service, triggerTime }: { readonly service: ApiObject; readonly triggerTime: string | undefined },
  addressType: AddressType,
  groups: readonly EndpointGroup[],
  existing: readonly ApiObject[],
): void {
  const { writer, slices: resource } = slicePorts;
  const current: readonly Slice[] = existing.map((slice) => ({
    name: slice.metadata.name,
    ports: arrayAt(slice, 'ports') as Slice['ports'],
    endpoints: arrayAt(slice, 'endpoints') as readonly Endpoint[],
  }));
  const { updates, creations, removals } = spread(groups, current);
  const labels = sliceLabels(service);
  const byName = new Map(existing.map((slice) => [slice.metadata.name, slice]));
  for (const { name, ports, endpoints } of updates) {
    const slice = byName.get(name);
    if (slice === undefined) continue;
    changeObject(writer, resource, slice, manager, (draft) =>
      Object.assign(draft, {
        ports,
        endpoints,
        metadata: { ...slice.metadata, labels, annotations: annotationsAfter(slice.metadata.annotations, triggerTime) },
      }),
    );
    byName.delete(name);
  }
  for (const { ports, endpoints } of creations)
    writer.create(resource, service.metadata.namespace, newSlice(service, { addressType, ports, endpoints, labels, triggerTime }), {
      fieldManager: manager,
    });
  for (const name of removals) {
    writer.delete(resource, service.metadata.namespace, name, {});
    byName.delete(name);
  }
  for (const slice of byName.values()) relabel(slicePorts, slice, labels);
}

function relabel({ writer, slices }: EndpointSlicePorts, slice: ApiObject, labels: Record<string, string>): void {
  if (equalJson(slice.metadata.labels, labels)) return;
  changeObject(writer, slices, slice, manager, (draft) => Object.assign(draft, { metadata: { ...slice.metadata, labels } }));
}

/** Includes the Service's own labels, so that a proxy that ignores the Service by label ignores its slices as well. */
function sliceLabels(service: ApiObject): Record<string, string> {
  const { [headlessLabel]: _headless, ...own } = service.metadata.labels ?? {};
  const headless = (service.spec as ServiceSpec).clusterIP === 'None' ? { [headlessLabel]: '' } : {};
  return { ...own, [serviceLabel]: service.metadata.name, [managedBy]: controller, ...headless };
}

/** A change without a time removes the last one's, which would otherwise be counted twice. */
function annotationsAfter(before: Readonly<Record<string, string>> = {}, time: string | undefined): Record<string, string> {
  const { [triggerTimeAnnotation]: _before, ...others } = before;
  return time === undefined ? others : { ...others, [triggerTimeAnnotation]: time };
}

function newSlice(
  service: ApiObject,
  parts: Omit<Slice, 'name'> & {
    readonly addressType: AddressType;
    readonly labels: Record<string, string>;
    readonly triggerTime: string | undefined;
  },
) {
  const { addressType, ports, endpoints, labels, triggerTime } = parts;
  const { name, uid } = service.metadata;
  const owner = { apiVersion: 'v1', kind: 'Service', name, uid, controller: true, blockOwnerDeletion: true };
  return {
    metadata: { generateName: `${name}-`, labels, annotations: annotationsAfter({}, triggerTime), ownerReferences: [owner] },
    addressType,
    ports: [...ports],
    endpoints: [...endpoints],
  };
}
