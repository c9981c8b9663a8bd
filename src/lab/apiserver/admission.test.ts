import { beforeEach, expect, it } from 'vitest';
import { refusalOf } from '../../../test/support/api-refusal.ts';
import { admit } from './admission.ts';
import type { User } from './api-request.ts';
import { builtIn } from './controllers/access.ts';
import type { Core } from './core.ts';
import type { JsonObject } from './json.ts';
import type { KubeObject } from './kube-object.ts';
import { newCore } from './new-core.ts';
import { Store } from './store.ts';
import { createObject, updateObject } from './write.ts';

const group = 'admissionregistration.k8s.io';
const somebody: User = { name: 'somebody', groups: ['system:authenticated'] };
let core: Core;

beforeEach(() => {
  core = newCore({ store: new Store(), serviceCidrs: [], nodePortRange: { first: 1, last: 0 }, now: () => 0 });
});

const rule = (resources: readonly string[] = ['configmaps'], operations: readonly string[] = ['CREATE', 'UPDATE']): JsonObject => ({
  resourceRules: [{ apiGroups: [''], apiVersions: ['v1'], operations, resources }],
});

function policy(spec: JsonObject): void {
  const whole = { matchConstraints: rule(), ...spec };
  createObject(core, builtIn(core, group, 'validatingadmissionpolicies'), undefined, { metadata: { name: 'p' }, spec: whole }, {});
}

function bind(validationActions: readonly string[] = ['Deny']): void {
  const spec = { policyName: 'p', validationActions };
  createObject(core, builtIn(core, group, 'validatingadmissionpolicybindings'), undefined, { metadata: { name: 'b' }, spec }, {});
}

function write(data: JsonObject, user: User = somebody): KubeObject {
  const resource = builtIn(core, '', 'configmaps');
  const options = {
    admit: (object: KubeObject, oldObject: KubeObject | undefined) =>
      admit(core, { user, resource, subresource: undefined, object, oldObject, dryRun: false }),
  };
  if (core.store.get('configmaps', 'default/c') === undefined)
    return createObject(core, resource, 'default', { metadata: { name: 'c' }, data }, options);
  return updateObject(core, resource, 'default/c', (old) => ({ ...old, data }), options);
}

const said = (act: () => unknown): string => {
  const { code, message } = refusalOf(act);
  return `${code} ${message}`;
};
const denied = (message: string, code = 422) =>
  `${code} configmaps "c" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: ${message}`;

it('asks a policy once it is bound to deny, of new objects and of changed ones', () => {
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

it('asks only of what its rules name', () => {
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
    const object: KubeObject = {
      apiVersion: 'v1',
      kind: 'Node',
      metadata: { name: 'n', uid: '', resourceVersion: '', creationTimestamp: '' },
    };
    const ask = () =>
      admit(core, { user: somebody, resource: builtIn(core, '', 'nodes'), subresource, object, oldObject: object, dryRun: false });
    if (isAsked) expect(ask).toThrow('denied request');
    else expect(ask).not.toThrow();
  });

it('asks only of whom its conditions mean, and knows what the token says', () => {
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
  const agent = { ...somebody, name: 'agent' };
  expect(said(() => write({}, agent))).toBe(denied('it is none!'));
  expect(said(() => write({}, { ...agent, extra: { node: ['b'] } }))).toBe(denied('it is b!'));
  expect(() => write({}, { ...agent, extra: { node: ['a'] } })).not.toThrow();
  expect(() => write({ a: '1' })).not.toThrow();
  expect(said(() => write({ a: '2' }, { ...agent, extra: { node: ['a'] } }))).toBe(denied('it is a!'));
});

it('denies what it cannot evaluate, unless failures are to pass', () => {
  policy({ validations: [{ expression: 'object.data.colour == "red"' }] });
  bind();
  expect(said(() => write({ size: '1' }))).toMatch(/denied request: an expression resulted in error: No such key: colour/);
  updateObject(
    core,
    builtIn(core, group, 'validatingadmissionpolicies'),
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
