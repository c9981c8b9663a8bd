import { beforeEach, expect, it } from 'vitest';
import { refusalOf } from '../../../test/support/api-refusal.ts';
import { openClusterObjects } from '../cluster-objects.ts';
import { builtIn } from '../controllers/access.ts';
import type { User } from '../http/api-request.ts';
import type { ApiObject } from '../object/api-object.ts';
import type { JsonRecord } from '../object/json.ts';
import type { Registry } from '../resource/registry.ts';
import { Store } from '../store/store.ts';
import type { ObjectWriter } from '../write/object-writer.ts';
import { admit } from './admission.ts';

const group = 'admissionregistration.k8s.io';
const unprivileged: User = { name: 'unprivileged', groups: ['system:authenticated'] };
let store: Store;
let registry: Registry;
let writer: ObjectWriter;

beforeEach(() => {
  store = new Store();
  ({ registry, writer } = openClusterObjects({ store, serviceCidrs: [], nodePortRange: { first: 1, last: 0 }, now: () => 0 }));
});

const rule = (resources: readonly string[] = ['configmaps'], operations: readonly string[] = ['CREATE', 'UPDATE']): JsonRecord => ({
  resourceRules: [{ apiGroups: [''], apiVersions: ['v1'], operations, resources }],
});

function policy(spec: JsonRecord): void {
  const whole = { matchConstraints: rule(), ...spec };
  writer.create(builtIn(registry, group, 'validatingadmissionpolicies'), undefined, { metadata: { name: 'p' }, spec: whole }, {});
}

function bind(validationActions: readonly string[] = ['Deny']): void {
  const spec = { policyName: 'p', validationActions };
  writer.create(builtIn(registry, group, 'validatingadmissionpolicybindings'), undefined, { metadata: { name: 'b' }, spec }, {});
}

function write(data: JsonRecord, user: User = unprivileged): ApiObject {
  const resource = builtIn(registry, '', 'configmaps');
  const options = {
    admit: (object: ApiObject, oldObject: ApiObject | undefined) =>
      admit(store, { user, resource, subresource: undefined, object, oldObject, dryRun: false }),
  };
  if (store.get('configmaps', 'default/c') === undefined)
    return writer.create(resource, 'default', { metadata: { name: 'c' }, data }, options);
  return writer.update(resource, 'default/c', (old) => ({ ...old, data }), options);
}

const said = (act: () => unknown): string => {
  const { code, message } = refusalOf(act);
  return `${code} ${message}`;
};
const denied = (message: string, code = 422) =>
  `${code} configmaps "c" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: ${message}`;

it('evaluates a policy once it is bound to deny, for new and for changed objects', () => {
  policy({ validations: [{ expression: "object.data.colour != 'red'", message: 'not red', reason: 'Forbidden' }] });
  expect(() => write({ colour: 'red' })).not.toThrow();
  bind();
  expect(said(() => write({ colour: 'red', size: '1' }))).toBe(denied('not red', 403));
  expect(write({ colour: 'blue' })['data']).toEqual({ colour: 'blue' });
  expect(said(() => write({ colour: 'red' }))).toBe(denied('not red', 403));
});

it('does not deny for a binding that only warns or audits', () => {
  policy({ validations: [{ expression: 'false' }] });
  bind(['Audit']);
  expect(() => write({})).not.toThrow();
});

it('evaluates only requests that match the rules', () => {
  policy({ matchConstraints: rule(['configmaps'], ['UPDATE']), validations: [{ expression: 'false' }] });
  bind();
  expect(() => write({})).not.toThrow();
  expect(said(() => write({ a: '1' }))).toBe(denied('failed expression: false'));
});

for (const [resources, subresource, isAsked] of [
  [['nodes/status'], 'status', true],
  [['nodes/status'], undefined, false],
  [['nodes'], 'status', false],
  [['nodes/*'], 'status', true],
  [['*/status'], 'status', true],
  [['*/*'], undefined, true],
  [['*'], undefined, true],
  [['*'], 'status', false],
] as const)
  it(`${resources.join()} ${isAsked ? 'means' : 'does not mean'} nodes${subresource === undefined ? '' : `/${subresource}`}`, () => {
    policy({ matchConstraints: rule(resources), validations: [{ expression: 'false' }] });
    bind();
    const object: ApiObject = {
      apiVersion: 'v1',
      kind: 'Node',
      metadata: { name: 'n', uid: '', resourceVersion: '', creationTimestamp: '' },
    };
    const ask = () =>
      admit(store, { user: unprivileged, resource: builtIn(registry, '', 'nodes'), subresource, object, oldObject: object, dryRun: false });
    if (isAsked) expect(ask).toThrow('denied request');
    else expect(ask).not.toThrow();
  });

it('evaluates only users that match the conditions, with the claims of the token', () => {
  policy({
    matchConditions: [{ name: 'who', expression: "request.userInfo.username == 'agent'" }],
    variables: [
      { name: 'node', expression: "has(request.userInfo.extra) ? request.userInfo.extra['node'][0] : 'none'" },
      { name: 'wanted', expression: "variables.node + '!'" },
    ],
    validations: [
      {
        expression: "request.operation == 'CREATE' && oldObject == null && variables.wanted == 'a!'",
        messageExpression: "'it is ' + variables.wanted",
      },
    ],
  });
  bind();
  const agent = { ...unprivileged, name: 'agent' };
  expect(said(() => write({}, agent))).toBe(denied('it is none!'));
  expect(said(() => write({}, { ...agent, extra: { node: ['b'] } }))).toBe(denied('it is b!'));
  expect(() => write({}, { ...agent, extra: { node: ['a'] } })).not.toThrow();
  expect(() => write({ a: '1' })).not.toThrow();
  expect(said(() => write({ a: '2' }, { ...agent, extra: { node: ['a'] } }))).toBe(denied('it is a!'));
});

it('denies if an expression cannot be evaluated, unless the failure policy is Ignore', () => {
  policy({ validations: [{ expression: 'object.data.colour == "red"' }] });
  bind();
  expect(said(() => write({ size: '1' }))).toMatch(/denied request: an expression resulted in error: No such key: colour/);
  writer.update(
    builtIn(registry, group, 'validatingadmissionpolicies'),
    'p',
    (old) => ({ ...old, spec: { ...(old.spec as object), failurePolicy: 'Ignore' } }),
    {},
  );
  expect(() => write({ size: '1' })).not.toThrow();
});

for (const [name, spec, field] of [
  ['an expression that is none', { validations: [{ expression: 'object.' }] }, 'spec.validations[0].expression'],
  ['one that is no condition', { validations: [{ expression: "'yes'" }] }, 'spec.validations[0].expression'],
  ['one that names what there is not', { variables: [{ name: 'a', expression: 'subject.name' }] }, 'spec.variables[0].expression'],
  [
    'deletions, which are not asked about',
    { matchConstraints: rule(['pods'], ['DELETE']) },
    'spec.matchConstraints.resourceRules[0].operations',
  ],
  ['parameters', { paramKind: { apiVersion: 'v1', kind: 'ConfigMap' } }, 'spec.paramKind'],
] as const)
  it(`refuses a policy with ${name}`, () => {
    expect(refusalOf(() => policy(spec)).details.causes?.map((cause) => cause.field)).toEqual([field]);
  });
