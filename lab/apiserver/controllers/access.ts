import { SeineError } from '../../../src/base/errors/seine-error.ts';
import { type ApiObject, keyOf, kubeTime } from '../object/api-object.ts';
import { cloneJson, type JsonRecord } from '../object/json.ts';
import type { Registry } from '../resource/registry.ts';
import type { ApiResource } from '../resource/resource.ts';
import type { ObjectWriter } from '../write/object-writer.ts';

/** Built-in resources are always served. @throws SeineError `INVARIANT` for an unknown name */
export function builtIn(registry: Pick<Registry, 'find'>, group: string, plural: string): ApiResource {
  const resource = registry.find(group, 'v1', plural);
  if (resource === undefined) throw new SeineError('INVARIANT', `${plural} are not served`);
  return resource;
}

/** Changes a copy of an object and stores it. */
export function changeObject(
  writer: Pick<ObjectWriter, 'update'>,
  resource: ApiResource,
  object: ApiObject,
  manager: string,
  change: (draft: JsonRecord) => void,
  subresource?: string,
): void {
  const options = { fieldManager: manager, ...(subresource === undefined ? {} : { subresource }) };
  const edit = (old: ApiObject) => {
    const draft: JsonRecord = cloneJson(old);
    change(draft);
    return draft;
  };
  writer.update(resource, keyOf(object.metadata), edit, options);
}

interface Happening {
  readonly type: 'Normal' | 'Warning';
  readonly reason: string;
  readonly message: string;
  readonly component: string;
}

/** Writes an event about an object, as `kubectl describe` shows them. */
export type RecordEvent = (about: ApiObject, happening: Happening) => void;

interface EventRecorderOptions {
  readonly events: ApiResource;
  readonly writer: Pick<ObjectWriter, 'create'>;
  /** Milliseconds since 1970. */
  now(): number;
}

export function eventRecorder({ events, writer, now }: EventRecorderOptions): RecordEvent {
  return (about, happening) => {
    const body = eventBody(about, happening, kubeTime(now()));
    writer.create(events, about.metadata.namespace ?? 'default', body, { fieldManager: happening.component });
  };
}

function eventBody(about: ApiObject, { type, reason, message, component }: Happening, time: string): JsonRecord {
  const { namespace, name, uid, resourceVersion } = about.metadata;
  const involvedObject = {
    kind: about.kind,
    apiVersion: about.apiVersion,
    name,
    uid,
    resourceVersion,
    ...(namespace === undefined ? {} : { namespace }),
  };
  return {
    metadata: { generateName: `${name}.` },
    involvedObject,
    type,
    reason,
    message,
    source: { component },
    reportingComponent: component,
    firstTimestamp: time,
    lastTimestamp: time,
    count: 1,
  };
}
