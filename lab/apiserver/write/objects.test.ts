import { beforeEach, expect, it } from 'vitest';
import { refusalOf } from '../../../test/support/api-refusal.ts';
import { openClusterObjects } from '../cluster-objects.ts';
import { builtIn } from '../controllers/access.ts';
import type { ApiObject } from '../object/api-object.ts';
import { at, type JsonRecord } from '../object/json.ts';
import { listQuery, renderPage } from '../read/read.ts';
import { selectionOf } from '../read/selection.ts';
import type { Registry } from '../resource/registry.ts';
import { Store } from '../store/store.ts';
import type { ObjectWriter } from './object-writer.ts';
import { mergePatch, type PatchType, patchObject } from './patch/patch.ts';
import { podBinder } from './pod-subresources.ts';

let store: Store;
let registry: Registry;
let writer: ObjectWriter;
let nowMs: number;

beforeEach(() => {
  nowMs = Date.parse('2026-01-01T00:00:00Z');
  store = new Store();
  ({ registry, writer } = openClusterObjects({
    store,
    serviceCidrs: ['10.96.0.0/16'],
    nodePortRange: { first: 30_000, last: 30_100 },
    now: () => nowMs,
  }));
});

function configMap(name: string, more: JsonRecord = {}): ApiObject {
  return writer.create(builtIn(registry, '', 'configmaps'), 'default', { metadata: { name }, ...more }, { fieldManager: 'test' });
}

function pod(name: string, spec: JsonRecord = {}): ApiObject {
  return writer.create(
    builtIn(registry, '', 'pods'),
    'default',
    { metadata: { name }, spec: { containers: [{ name: 'c', image: 'x' }], ...spec } },
    {},
  );
}

function merge(plural: string, name: string, change: JsonRecord, subresource?: string): ApiObject {
  const options = subresource === undefined ? {} : { subresource };
  return writer.update(builtIn(registry, '', plural), `default/${name}`, (old) => mergePatch(old, change) as JsonRecord, options);
}

function patched(type: PatchType, name: string, patch: unknown, more: object = {}): ApiObject {
  const request = {
    resource: builtIn(registry, '', 'configmaps'),
    namespace: 'default',
    name,
    type,
    text: JSON.stringify(patch),
    options: { fieldManager: 'test', ...more },
  };
  return patchObject({ store, writer, now: () => nowMs }, request).object;
}

it('gives new objects an identity', () => {
  const { metadata } = configMap('a');
  expect(metadata).toMatchObject({
    name: 'a',
    namespace: 'default',
    creationTimestamp: '2026-01-01T00:00:00Z',
    resourceVersion: String(store.revision),
  });
  expect(metadata.uid).toMatch(/^[0-9a-f-]{36}$/);
});

it('makes names from generateName', () => {
  const made = writer.create(builtIn(registry, '', 'configmaps'), 'default', { metadata: { generateName: 'web-' } }, {});
  expect(made.metadata.name).toMatch(/^web-[bcdfghjklmnpqrstvwxz2456789]{5}$/);
});

for (const [what, act, code, text] of [
  ['a name twice', () => [configMap('a'), configMap('a')], 409, 'configmaps "a" already exists'],
  [
    'a name of none',
    () => configMap('A_b'),
    422,
    'ConfigMap "A_b" is invalid: metadata.name: Invalid value: "A_b": a lowercase RFC 1123 subdomain must consist of',
  ],
  ['no name', () => configMap(''), 422, 'metadata.name: Required value: name or generateName is required'],
  ['another kind', () => configMap('a', { kind: 'Secret' }), 400, 'Secret in version "v1" cannot be handled as a ConfigMap'],
  [
    'a wrong type',
    () => configMap('a', { immutable: 'yes' }),
    400,
    'json: cannot unmarshal string into Go struct field immutable of type bool',
  ],
  [
    'a wrong label',
    () => configMap('a', { metadata: { name: 'a', labels: { 'a b': 'c' } } }),
    422,
    'metadata.labels: Invalid value: "a b": name part must consist of',
  ],
  [
    'a namespace that is not there',
    () => writer.create(builtIn(registry, '', 'configmaps'), 'nowhere', { metadata: { name: 'a' } }, {}),
    404,
    'namespaces "nowhere" not found',
  ],
  ['a pod without containers', () => pod('p', { containers: [] }), 422, 'spec.containers: Required value'],
] as const) {
  it(`refuses ${what}`, () => {
    const refused = refusalOf(act);
    expect(refused.code).toBe(code);
    expect(refused.message).toContain(text);
  });
}

it('rejects, warns about or drops unknown fields, as requested', () => {
  const create = (fieldValidation: 'Strict' | 'Warn' | 'Ignore', warnings: string[]) =>
    writer.create(
      builtIn(registry, '', 'configmaps'),
      'default',
      { metadata: { generateName: 'a-', lables: {} }, dat: {} },
      { fieldValidation, warn: (text) => warnings.push(text) },
    );
  expect(refusalOf(() => create('Strict', [])).message).toBe(
    'ConfigMap in version "v1" cannot be handled as a ConfigMap: strict decoding error: unknown field "metadata.lables", unknown field "dat"',
  );
  const warnings: string[] = [];
  expect(create('Warn', warnings)['dat']).toBeUndefined();
  expect(warnings).toEqual(['unknown field "metadata.lables"', 'unknown field "dat"']);
  create('Ignore', warnings);
  expect(warnings).toHaveLength(2);
});

it('rejects a stale write and accepts one without a version', () => {
  const old = configMap('a');
  merge('configmaps', 'a', { data: { x: '1' } });
  const stale = refusalOf(() => merge('configmaps', 'a', { metadata: { resourceVersion: old.metadata.resourceVersion } }));
  expect(stale).toMatchObject({ code: 409, reason: 'Conflict' });
  expect(stale.message).toContain('the object has been modified; please apply your changes to the latest version and try again');
});

it('does not count a write that changes nothing', () => {
  const before = configMap('a', { data: { x: '1' } });
  expect(merge('configmaps', 'a', { data: { x: '1' } })).toBe(before);
});

it('checks and fills in, but stores nothing, in a dry run', () => {
  const before = store.revision;
  const tried = writer.create(
    builtIn(registry, '', 'services'),
    'default',
    { metadata: { name: 's' }, spec: { ports: [{ port: 1 }] } },
    { dryRun: true },
  );
  expect(at(tried.spec, 'clusterIP')).toBe('10.96.1.0');
  expect(store.revision).toBe(before);
});

it('keeps status and spec separate', () => {
  pod('p');
  expect(merge('pods', 'p', { status: { phase: 'Running' } }).status).toMatchObject({ phase: 'Pending' });
  const changed = merge('pods', 'p', { status: { phase: 'Running', podIPs: [{ ip: '10.0.0.1' }] }, spec: { nodeName: 'n' } }, 'status');
  expect(changed.status).toMatchObject({ phase: 'Running', podIP: '10.0.0.1' });
  expect(at(changed.spec, 'nodeName')).toBeUndefined();
});

it('rejects changes of immutable pod fields', () => {
  pod('p');
  expect(
    merge('pods', 'p', {
      spec: {
        containers: [
          {
            name: 'c',
            image: 'y',
            imagePullPolicy: 'Always',
            terminationMessagePath: '/dev/termination-log',
            terminationMessagePolicy: 'File',
            resources: {},
          },
        ],
      },
    }).metadata.generation,
  ).toBe(2);
  expect(refusalOf(() => merge('pods', 'p', { spec: { hostNetwork: true } })).message).toContain(
    'spec: Forbidden: pod updates may not change fields other than',
  );
});

it('binds a pod once', () => {
  pod('p');
  const bindPod = podBinder({ store, now: () => nowMs });
  bindPod('default', 'p', { target: { name: 'n1' } }, {});
  expect(refusalOf(() => bindPod('default', 'p', { target: { name: 'n2' } }, {})).message).toContain('already assigned to node "n1"');
});

it('waits for the kubelet before it deletes a running pod', () => {
  pod('p', { nodeName: 'n1' });
  const pods = builtIn(registry, '', 'pods');
  const first = writer.delete(pods, 'default', 'p', {});
  expect(first.gone).toBe(false);
  expect(first.object.metadata).toMatchObject({ deletionTimestamp: '2026-01-01T00:00:30Z', deletionGracePeriodSeconds: 30 });
  expect(writer.delete(pods, 'default', 'p', { gracePeriodSeconds: 60 }).object.metadata.deletionGracePeriodSeconds).toBe(30);
  expect(writer.delete(pods, 'default', 'p', { gracePeriodSeconds: 5 }).object.metadata.deletionGracePeriodSeconds).toBe(5);
  expect(writer.delete(pods, 'default', 'p', { gracePeriodSeconds: 0 }).gone).toBe(true);
  expect(store.get('pods', 'default/p')).toBeUndefined();
});

it('deletes a pod without a node immediately', () => {
  pod('p');
  expect(writer.delete(builtIn(registry, '', 'pods'), 'default', 'p', {}).gone).toBe(true);
});

it('waits for finalizers, and deletes with the last', () => {
  configMap('a', { metadata: { name: 'a', finalizers: ['example.com/hold'] } });
  expect(writer.delete(builtIn(registry, '', 'configmaps'), 'default', 'a', {}).gone).toBe(false);
  expect(store.get('configmaps', 'default/a')).toBeDefined();
  merge('configmaps', 'a', { metadata: { finalizers: null } });
  expect(store.get('configmaps', 'default/a')).toBeUndefined();
});

it('checks preconditions of deletions', () => {
  configMap('a');
  const wrong = refusalOf(() => writer.delete(builtIn(registry, '', 'configmaps'), 'default', 'a', { preconditions: { uid: 'other' } }));
  expect(wrong.message).toContain('Precondition failed: UID in precondition: other');
});

it('pages through a list in its state at the first page', () => {
  for (const name of ['a', 'b', 'c', 'd', 'e']) configMap(name);
  const resource = builtIn(registry, '', 'configmaps');
  const names: string[] = [];
  let token = '';
  do {
    const query = new URLSearchParams({ limit: '2', ...(token === '' ? {} : { continue: token }) });
    const page = JSON.parse(
      renderPage({ store, forgotten: new Set(), now: () => nowMs }, resource, selectionOf(resource, 'default', query), listQuery(query), {
        as: 'object',
      }),
    ) as {
      items: ApiObject[];
      metadata: { continue?: string };
    };
    names.push(...page.items.map(({ metadata }) => metadata.name));
    token = page.metadata.continue ?? '';
    if (names.length === 2) writer.delete(resource, 'default', 'c', {});
    if (names.length === 2) configMap('f');
  } while (token !== '');
  expect(names).toEqual(['a', 'b', 'c', 'd', 'e']);
});

it('selects by labels and fields', () => {
  configMap('a', { metadata: { name: 'a', labels: { app: 'x' } } });
  configMap('b');
  const resource = builtIn(registry, '', 'configmaps');
  const select = (query: Record<string, string>) =>
    store
      .list('configmaps')
      .filter(({ object }) => selectionOf(resource, 'default', new URLSearchParams(query)).matches(object))
      .map(({ object }) => object.metadata.name);
  expect(select({ labelSelector: 'app=x' })).toEqual(['a']);
  expect(select({ fieldSelector: 'metadata.name!=a' })).toEqual(['b']);
  expect(refusalOf(() => select({ fieldSelector: 'spec.x=1' }))).toMatchObject({ code: 400, message: 'field label not supported: spec.x' });
});

it('applies JSON patches and names operations that fail', () => {
  configMap('a', { data: { x: '1' } });
  expect(
    patched('application/json-patch+json', 'a', [
      { op: 'test', path: '/data/x', value: '1' },
      { op: 'add', path: '/data/y', value: '2' },
    ])['data'],
  ).toEqual({ x: '1', y: '2' });
  expect(refusalOf(() => patched('application/json-patch+json', 'a', [{ op: 'remove', path: '/data/none' }])).code).toBe(422);
});

it('tracks ownership of fields, and reports conflicts between managers', () => {
  const config = (data: JsonRecord) => ({ apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'a' }, data });
  const apply = (manager: string, data: JsonRecord, force = false) =>
    patched('application/apply-patch+yaml', 'a', config(data), { fieldManager: manager, force });
  expect(apply('one', { x: '1', y: '1' })['data']).toEqual({ x: '1', y: '1' });
  expect(apply('two', { z: '1', y: '1' })['data']).toEqual({ x: '1', y: '1', z: '1' });
  expect(refusalOf(() => apply('two', { x: '2' }))).toMatchObject({
    code: 409,
    message: 'Apply failed with 1 conflict: conflict with "one" using v1: .data.x',
  });
  // y is shared and z has one owner: a field that `two` no longer names is removed only if no other manager owns it.
  expect(apply('two', { x: '2' }, true)['data']).toEqual({ x: '2', y: '1' });
  expect(apply('one', {})['data']).toEqual({ x: '2' });
  const before = store.revision;
  apply('two', { x: '2' });
  expect(store.revision).toBe(before);
});

it('records the manager of each change', () => {
  configMap('a', { data: { x: '1' } });
  patched('application/merge-patch+json', 'a', { data: { y: '2' } }, { fieldManager: 'other' });
  expect(store.get('configmaps', 'default/a')?.object.metadata.managedFields).toMatchObject([
    { manager: 'test', operation: 'Update', fieldsV1: { 'f:data': { 'f:x': {} } } },
    { manager: 'other', operation: 'Update', fieldsV1: { 'f:data': { 'f:y': {} } } },
  ]);
});

it('rejects new objects in a terminating namespace', () => {
  const namespaces = builtIn(registry, '', 'namespaces');
  writer.create(namespaces, undefined, { metadata: { name: 'going' } }, {});
  expect(writer.delete(namespaces, undefined, 'going', {}).object.status).toEqual({ phase: 'Terminating' });
  const refused = refusalOf(() => writer.create(builtIn(registry, '', 'configmaps'), 'going', { metadata: { name: 'a' } }, {}));
  expect(refused).toMatchObject({ code: 403, reason: 'Forbidden' });
});

it('shows events in both of their groups', () => {
  const core1 = writer.create(
    builtIn(registry, '', 'events'),
    'default',
    { metadata: { name: 'e' }, involvedObject: { kind: 'Pod', name: 'p' }, message: 'hello', reason: 'Test' },
    {},
  );
  const resource = builtIn(registry, 'events.k8s.io', 'events');
  expect(resource.fromStored?.(core1)).toMatchObject({
    apiVersion: 'events.k8s.io/v1',
    regarding: { kind: 'Pod', name: 'p' },
    note: 'hello',
  });
  const select = selectionOf(resource, 'default', new URLSearchParams({ fieldSelector: 'regarding.name=p' }));
  expect(select.matches(core1)).toBe(true);
});

it('defaults policies as the API does', () => {
  const make = (spec: JsonRecord) =>
    writer.create(builtIn(registry, 'networking.k8s.io', 'networkpolicies'), 'default', { metadata: { generateName: 'p-' }, spec }, {})
      .spec;
  expect(make({ podSelector: {} })).toEqual({ podSelector: {}, policyTypes: ['Ingress'] });
  expect(make({ podSelector: {}, egress: [{ ports: [{ port: 53 }] }] })).toMatchObject({
    policyTypes: ['Ingress', 'Egress'],
    egress: [{ ports: [{ port: 53, protocol: 'TCP' }] }],
  });
  expect(refusalOf(() => make({ podSelector: {}, ingress: [{ from: [{}] }] })).message).toContain(
    'spec.ingress[0].from[0]: Required value: must specify a peer',
  );
  expect(
    refusalOf(() => make({ podSelector: {}, egress: [{ to: [{ ipBlock: { cidr: '10.0.0.0/8', except: ['11.0.0.0/8'] } }] }] })).message,
  ).toContain('spec.egress[0].to[0].ipBlock.except[0]: Invalid value: "11.0.0.0/8"');
});
