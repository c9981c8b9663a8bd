import type {
  NamedRuleWithOperations,
  ValidatingAdmissionPolicy,
  ValidatingAdmissionPolicyBinding,
  ValidatingAdmissionPolicySpec,
  Validation,
  Variable,
} from 'kubernetes-types/admissionregistration/v1.d.ts';
import { ownAnnotations } from '../../src/kubernetes/resources/node-annotations.ts';
import { agentName } from './access.ts';
import { namespace } from './options.ts';
import { labelsOf, type Note, type Part } from './part.ts';

const admission = 'admissionregistration.k8s.io/v1';

/** A policy about writes of agents, and its binding: {@link Part}s like any other. */
interface Policy {
  readonly name: string;
  readonly about: string;
  readonly rule: { readonly operation: 'CREATE' | 'UPDATE'; readonly resource: string };
  readonly variables: readonly Commented<Variable>[];
  readonly validations: readonly Commented<Validation>[];
}

/** The package of types has lost this field of a rule. */
interface ResourceRule extends NamedRuleWithOperations {
  readonly resources: string[];
}

type Commented<T> = T & { readonly why?: string };

/**
 * Policies that restrict an agent to its own node, which RBAC cannot.
 *
 * Expressions use only features that every evaluator of CEL has: no optional types, no macros except `has`, `all` and `filter`. `dyn` is
 * for fields that are accessed by name, which the type checker would reject for an object with a schema.
 */
export function admissionPolicies(): Part[] {
  return [nodePolicy, eventPolicy].flatMap(partsOf);
}

/** Claim of the agent's node: API servers put the node of the pod that a token is bound to into it (1.30; always since 1.32). */
const nodeClaim = 'authentication.kubernetes.io/node-name';

const node: Commented<Variable> = {
  name: 'node',
  expression: `has(request.userInfo.extra) && '${nodeClaim}' in request.userInfo.extra ? request.userInfo.extra['${nodeClaim}'][0] : ''`,
  why: 'The node of the pod that the token was given to; empty for a token that was given to no pod.',
};

const namesNode: Commented<Validation> = {
  expression: "variables.node != ''",
  message: 'this token names no node: an agent writes only with the token of its pod',
};

/** True if both maps have the same value under a name, or neither has it. */
const same = (now: string, before: string, name: string): string =>
  `(${name} in ${now} ? ${name} in ${before} && ${now}[${name}] == ${before}[${name}] : !(${name} in ${before}))`;

const agentAnnotations = `[${ownAnnotations.map((key) => `'${key}'`).join(', ')}]`;

const otherConditions = (status: string): string =>
  `('conditions' in ${status} ? ${status}.conditions : []).filter(c, c.type != 'NetworkUnavailable')`;

const nodePolicy: Policy = {
  name: `${agentName}-nodes`,
  about: [
    'An agent writes only the condition NetworkUnavailable and its annotations of its own Node, so that its token cannot change',
    'addresses or keys of other nodes (docs/security.md). The policy applies to agents only.',
  ].join('\n'),
  rule: { operation: 'UPDATE', resource: 'nodes/status' },
  variables: [
    node,
    { name: 'now', expression: 'has(object.status) ? dyn(object.status) : dyn({})' },
    { name: 'before', expression: 'has(oldObject.status) ? dyn(oldObject.status) : dyn({})' },
    { name: 'annotations', expression: 'has(object.metadata.annotations) ? dyn(object.metadata.annotations) : dyn({})' },
    { name: 'annotationsBefore', expression: 'has(oldObject.metadata.annotations) ? dyn(oldObject.metadata.annotations) : dyn({})' },
  ],
  validations: [
    namesNode,
    {
      expression: 'object.metadata.name == variables.node',
      messageExpression: "'the agent of node ' + variables.node + ' may not write to node ' + object.metadata.name",
    },
    {
      expression: `variables.now.all(f, f == 'conditions' || (f in variables.before && variables.now[f] == variables.before[f])) && variables.before.all(f, f == 'conditions' || f in variables.now)`,
      message: 'an agent changes nothing of a status but its condition: no address, no capacity',
    },
    {
      expression: `${otherConditions('variables.now')} == ${otherConditions('variables.before')}`,
      message: 'an agent changes no condition but NetworkUnavailable',
    },
    {
      expression: `['labels', 'finalizers', 'ownerReferences'].all(f, ${same('dyn(object.metadata)', 'dyn(oldObject.metadata)', 'f')})`,
      message: 'an agent changes no labels, finalizers or owners of a node',
      why: 'A write to nodes/status may change these too.',
    },
    {
      expression: `variables.annotations.all(k, k in ${agentAnnotations} || (k in variables.annotationsBefore && variables.annotations[k] == variables.annotationsBefore[k])) && variables.annotationsBefore.all(k, k in ${agentAnnotations} || k in variables.annotations)`,
      message: 'an agent changes no annotations of a node but its own',
    },
  ],
};

const eventPolicy: Policy = {
  name: `${agentName}-events`,
  about: 'An agent posts events in its own name and that of its node, and of Nodes only about its own.',
  rule: { operation: 'CREATE', resource: 'events' },
  variables: [
    node,
    {
      name: 'event',
      expression: 'dyn(object)',
      why: 'API servers check the types of expressions against events of events.k8s.io, too, whose fields have other names.',
    },
  ],
  validations: [
    namesNode,
    {
      expression: `has(variables.event.reportingInstance) && variables.event.reportingInstance == variables.node && has(variables.event.source) && has(variables.event.source.host) && variables.event.source.host == variables.node`,
      message: 'an event names the node of the agent that writes it: reportingInstance and source.host',
    },
    {
      expression: `has(variables.event.reportingComponent) && variables.event.reportingComponent == '${agentName}' && has(variables.event.source.component) && variables.event.source.component == '${agentName}'`,
      message: `an event of an agent comes from ${agentName}: reportingComponent and source.component`,
    },
    {
      expression: `!has(variables.event.involvedObject.kind) || variables.event.involvedObject.kind != 'Node' || (has(variables.event.involvedObject.name) && variables.event.involvedObject.name == variables.node)`,
      message: 'an agent writes events of its own node only',
    },
  ],
};

function partsOf({ name, about, rule, variables, validations }: Policy): Part[] {
  const resourceRule: ResourceRule = {
    apiGroups: [''],
    apiVersions: ['v1'],
    operations: [rule.operation],
    resources: [rule.resource],
  };
  const spec: ValidatingAdmissionPolicySpec = {
    failurePolicy: 'Fail',
    matchConstraints: { resourceRules: [resourceRule] },
    matchConditions: [{ name: 'is-agent', expression: `request.userInfo.username == 'system:serviceaccount:${namespace}:${agentName}'` }],
    variables: variables.map(({ why: _why, ...variable }) => variable),
    validations: validations.map(({ why: _why, ...validation }) => ({ ...validation, reason: 'Forbidden' })),
  };
  const metadata = { name, labels: labelsOf(agentName) };
  const policy: ValidatingAdmissionPolicy = { apiVersion: admission, kind: 'ValidatingAdmissionPolicy', metadata, spec };
  const binding: ValidatingAdmissionPolicyBinding = {
    apiVersion: admission,
    kind: 'ValidatingAdmissionPolicyBinding',
    metadata,
    spec: { policyName: name, validationActions: ['Deny'] },
  };
  return [
    { object: policy, about, notes: [...notesOf('variables', variables), ...notesOf('validations', validations)] },
    { object: binding, about: `Enforces ${name} in the whole cluster.` },
  ];
}

function notesOf(field: string, rows: readonly { readonly why?: string }[]): Note[] {
  return rows.flatMap(({ why }, index) => (why === undefined ? [] : [[['spec', field, index], why] as const]));
}
