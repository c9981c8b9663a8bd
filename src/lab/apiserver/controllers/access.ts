import { SeineError } from '../../../errors/seine-error.ts';
import type { Core } from '../core.ts';
import { cloneJson, type JsonObject } from '../json.ts';
import { type KubeObject, keyOf, kubeTime } from '../kube-object.ts';
import type { Resource } from '../resource.ts';
import { createObject, updateObject } from '../write.ts';

/** Built-in resources are always served. @throws SeineError `INVARIANT` for a name of none */
export function builtIn(core: Core, group: string, plural: string): Resource {
  const resource = core.registry.find(group, 'v1', plural);
  if (resource === undefined) throw new SeineError('INVARIANT', `${plural} are not served`);
  return resource;
}

/** Changes a copy of an object and stores it. */
export function changeObject(
  core: Core,
  resource: Resource,
  object: KubeObject,
  manager: string,
  change: (draft: JsonObject) => void,
  subresource?: string,
): void {
  const options = { fieldManager: manager, ...(subresource === undefined ? {} : { subresource }) };
  const edit = (old: KubeObject) => {
    const draft: JsonObject = cloneJson(old);
    change(draft);
    return draft;
  };
  updateObject(core, resource, keyOf(object.metadata), edit, options);
}

export interface Happening {
  readonly type: 'Normal' | 'Warning';
  readonly reason: string;
  readonly message: string;
  readonly component: string;
}

/** Writes an event about an object, as `kubectl describe` shows them. */
export function recordEvent(core: Core, about: KubeObject, { type, reason, message, component }: Happening): void {
  const now = kubeTime(core.now());
  const namespace = about.metadata.namespace ?? 'default';
  const { name, uid, resourceVersion } = about.metadata;
  const involvedObject = {
    kind: about.kind,
    apiVersion: about.apiVersion,
    name,
    uid,
    resourceVersion,
    ...(about.metadata.namespace === undefined ? {} : { namespace }),
  };
  const body = {
    metadata: { generateName: `${name}.` },
    involvedObject,
    type,
    reason,
    message,
    source: { component },
    reportingComponent: component,
    firstTimestamp: now,
    lastTimestamp: now,
    count: 1,
  };
  createObject(core, builtIn(core, '', 'events'), namespace, body, { fieldManager: component });
}
