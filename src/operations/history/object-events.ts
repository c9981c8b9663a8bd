import { unpackEndpoints } from '../../base/net/packed-endpoints.ts';
import type { ReceivedChange, ReplicaChanges } from '../../kubernetes/client/replica/replica.ts';
import type { EndpointSlice } from '../../kubernetes/resources/endpoint-slice.ts';
import type { EventRecorder } from './event-stream.ts';

/** Number of recent events by which a change that two sources receive is recorded once. */
const RECENT_MAX = 256;
/** Maximum number of changed fields of an event. */
const FIELDS_MAX = 12;

/** Kinds of API objects with a subject, and the prefix of it. */
const prefixes: Readonly<Record<string, string>> = {
  Pod: 'pod',
  PolicyPod: 'pod',
  Service: 'service',
  NetworkPolicy: 'policy',
  ClusterNetworkPolicy: 'policy',
  Node: 'node',
  Namespace: 'namespace',
};

/** Records objects that the API server sent, with the names of changed fields: values may be confidential. */
export class ObjectEvents {
  readonly #events: EventRecorder;
  readonly #recent = new Set<string>();

  constructor(events: EventRecorder) {
    this.#events = events;
  }

  /** Returns an observer of a copy of one resource. */
  of<T>(resource: string): (changes: ReplicaChanges<T>) => void {
    return ({ first, added, changed, removed }) => {
      const count = added + changed + removed;
      if (count > first.length) this.#events.note('source.changed', [], { resource, added, changed, removed });
      else for (const change of first) this.#note(resource, change);
    };
  }

  #note<T>(resource: string, change: ReceivedChange<T>): void {
    const { key, before, after, version } = change;
    const name = resource === 'PolicyPod' ? 'Pod' : resource;
    if (resource === 'EndpointSlice') this.#noteEndpoints(before as EndpointSlice | undefined, after as EndpointSlice | undefined);
    const subjects = subjectsOf(resource, key, (after ?? before) as { readonly service?: unknown; readonly namespace?: unknown });
    const fields = before !== undefined && after !== undefined ? changedFields(before, after) : [];
    if (this.#isRepeated(JSON.stringify([name, key, version, after === undefined, fields]))) return;
    const about = { resource: name, name: key, version };
    if (before === undefined) this.#events.note('object.added', subjects, about);
    else if (after === undefined) this.#events.note('object.removed', subjects, about);
    else this.#events.note('object.changed', subjects, { ...about, fields });
  }

  #isRepeated(text: string): boolean {
    if (this.#recent.has(text)) return true;
    this.#recent.add(text);
    for (const oldest of this.#recent) {
      if (this.#recent.size <= RECENT_MAX) break;
      this.#recent.delete(oldest);
    }
    return false;
  }

  #noteEndpoints(before: EndpointSlice | undefined, after: EndpointSlice | undefined): void {
    const slice = after ?? before;
    if (slice?.service === undefined || before?.endpoints === after?.endpoints) return;
    const [had, has] = [readyAddresses(before), readyAddresses(after)];
    const service = `${slice.namespace}/${slice.service}`;
    const added = [...has].filter((address) => !had.has(address));
    const removed = [...had].filter((address) => !has.has(address));
    if (added.length > 0) this.#events.note('endpoint.added', [`service/${service}`], { service, endpoints: added });
    if (removed.length > 0) this.#events.note('endpoint.removed', [`service/${service}`], { service, endpoints: removed });
  }
}

function readyAddresses(slice: EndpointSlice | undefined): ReadonlySet<string> {
  if (slice === undefined) return new Set();
  return new Set(
    unpackEndpoints(slice.endpoints).flatMap(({ addresses: [address], ready }) => (ready && address !== undefined ? [address] : [])),
  );
}

function subjectsOf(
  resource: string,
  key: string,
  { service, namespace }: { readonly service?: unknown; readonly namespace?: unknown },
): readonly string[] {
  if (resource === 'EndpointSlice') return typeof service === 'string' ? [`service/${String(namespace)}/${service}`] : [];
  const prefix = prefixes[resource];
  return prefix === undefined ? [] : [`${prefix}/${key}`];
}

/** Names of members that differ, of two levels: `labels.app`. */
export function changedFields(before: unknown, after: unknown): readonly string[] {
  const fields = differing(before, after).flatMap(([name, was, is]) => {
    const inner = isRecord(was) && isRecord(is) ? differing(was, is) : [];
    return inner.length === 0 ? [name] : inner.map(([member]) => `${name}.${member}`);
  });
  return fields.length > FIELDS_MAX ? [...fields.slice(0, FIELDS_MAX), `${fields.length - FIELDS_MAX} more`] : fields;
}

function differing(before: unknown, after: unknown): (readonly [name: string, before: unknown, after: unknown])[] {
  if (!isRecord(before) || !isRecord(after)) return [];
  const names = [...new Set([...Object.keys(before), ...Object.keys(after)])];
  return names.flatMap((name) => {
    const [was, is] = [before[name], after[name]];
    return was === is || JSON.stringify(was) === JSON.stringify(is) ? [] : [[name, was, is] as const];
  });
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
