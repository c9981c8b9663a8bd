import type {
  NamedRuleWithOperations,
  ValidatingAdmissionPolicyBindingSpec,
  ValidatingAdmissionPolicySpec,
  Validation,
} from 'kubernetes-types/admissionregistration/v1.d.ts';
import { ApiError, qualified } from '../errors/api-error.ts';
import type { User } from '../http/api-request.ts';
import type { ApiObject } from '../object/api-object.ts';
import { type CelContext, type CelExpression, parseCel } from '../object/cel.ts';
import { defined } from '../object/json.ts';
import type { ResourceFacts } from '../resource/resource.ts';
import type { Store } from '../store/store.ts';

const group = 'admissionregistration.k8s.io';

/** A write before it is stored. */
export interface Admission {
  readonly user: User;
  readonly resource: ResourceFacts;
  readonly subresource: string | undefined;
  readonly object: ApiObject;
  /** Object that is replaced; undefined if it is new. */
  readonly oldObject: ApiObject | undefined;
  readonly dryRun: boolean;
}

/**
 * Evaluates every ValidatingAdmissionPolicy that is bound to deny.
 *
 * @throws ApiError 403 or 422, worded as the real server words it
 */
export function admit(policies: Pick<Store, 'get' | 'list'>, admission: Admission): void {
  for (const { object: binding } of policies.list(`${group}/validatingadmissionpolicybindings`)) {
    const { policyName = '', validationActions = [] } = binding.spec as ValidatingAdmissionPolicyBindingSpec;
    const policy = policies.get(`${group}/validatingadmissionpolicies`, policyName)?.object;
    if (policy === undefined || !(validationActions as readonly string[]).includes('Deny')) continue;
    if (!matches(policy, admission)) continue;
    const denial = denialOf(compiled(policy), contextOf(admission));
    if (denial !== undefined) throw refusal(admission, denial, `'${policyName}' with binding '${binding.metadata.name}'`);
  }
}

function matches({ spec }: ApiObject, { resource, subresource = '', oldObject }: Admission): boolean {
  const operation = oldObject === undefined ? 'CREATE' : 'UPDATE';
  // The package of types has lost this field of a rule.
  const rules = ((spec as ValidatingAdmissionPolicySpec).matchConstraints?.resourceRules ?? []) as readonly (NamedRuleWithOperations & {
    readonly resources?: readonly string[];
  })[];
  return rules.some(({ apiGroups, apiVersions, operations, resources = [] }) => {
    const named = resources.some((text) => {
      const [plural = '', part = ''] = text.split('/');
      return (plural === '*' || plural === resource.plural) && (part === '*' || part === subresource);
    });
    return named && has(apiGroups, resource.group) && has(apiVersions, resource.version) && has(operations, operation);
  });
}

function has(list: readonly string[] | undefined, wanted: string): boolean {
  return list?.includes('*') === true || list?.includes(wanted) === true;
}

interface Compiled {
  readonly fails: boolean;
  readonly conditions: readonly CelExpression[];
  readonly variables: readonly (readonly [name: string, expression: CelExpression])[];
  readonly validations: readonly {
    readonly rule: Validation;
    readonly expression: CelExpression;
    readonly message: CelExpression | undefined;
  }[];
}

/** Compiled policies. Stored objects never change: an updated policy is another object. */
const cache = new WeakMap<ApiObject, Compiled>();

function compiled(policy: ApiObject): Compiled {
  const known = cache.get(policy);
  if (known !== undefined) return known;
  const { failurePolicy, matchConditions = [], variables = [], validations = [] } = policy.spec as ValidatingAdmissionPolicySpec;
  const made: Compiled = {
    fails: failurePolicy !== 'Ignore',
    conditions: matchConditions.map(({ expression }) => parseCel(expression, 'bool')),
    variables: variables.map(({ name, expression }) => [name, parseCel(expression, 'any')]),
    validations: validations.map((rule) => ({
      rule,
      expression: parseCel(rule.expression, 'bool'),
      message: rule.messageExpression ? parseCel(rule.messageExpression, 'string') : undefined,
    })),
  };
  cache.set(policy, made);
  return made;
}

interface Denial {
  readonly message: string;
  readonly reason: string;
}

/** The first denial. An expression that cannot be evaluated denies, unless the failure policy is Ignore. */
function denialOf(policy: Compiled, { request, object, oldObject }: Omit<CelContext, 'variables'>): Denial | undefined {
  const variables: Record<string, unknown> = {};
  const context: CelContext = { request, object, oldObject, variables };
  // In their order, each seeing those before it. Variables are evaluated only when used.
  for (const [name, expression] of policy.variables)
    Object.defineProperty(variables, name, { enumerable: true, get: () => expression.evaluate(context) });
  try {
    if (!policy.conditions.every((condition) => condition.evaluate(context) === true)) return undefined;
    for (const { rule, expression, message } of policy.validations) {
      if (expression.evaluate(context) === true) continue;
      const said = message === undefined ? rule.message : String(message.evaluate(context));
      return { message: said ?? `failed expression: ${rule.expression}`, reason: rule.reason ?? 'Invalid' };
    }
  } catch (thrown) {
    if (!policy.fails) return undefined;
    const [reason] = (thrown instanceof Error ? thrown.message : String(thrown)).split('\n');
    return { message: `an expression resulted in error: ${reason}`, reason: 'Invalid' };
  }
  return undefined;
}

/** Source: Kubernetes API reference, AdmissionRequest and UserInfo. Fields that are empty are left out, as there. */
function contextOf({ user, resource, subresource, object, oldObject, dryRun }: Admission): Omit<CelContext, 'variables'> {
  const { group: apiGroup, version, kind, plural } = resource;
  const request = {
    kind: { group: apiGroup, version, kind },
    resource: { group: apiGroup, version, resource: plural },
    ...defined({ subResource: subresource, namespace: object.metadata.namespace }),
    name: object.metadata.name,
    operation: oldObject === undefined ? 'CREATE' : 'UPDATE',
    userInfo: { username: user.name, groups: user.groups, ...(user.extra === undefined ? {} : { extra: user.extra }) },
    dryRun,
  };
  return { request, object, oldObject: oldObject ?? null };
}

const codes: Readonly<Record<string, number>> = { Unauthorized: 401, Forbidden: 403, Invalid: 422, RequestEntityTooLarge: 413 };

function refusal({ resource, object }: Admission, { message, reason }: Denial, where: string): ApiError {
  const { name } = object.metadata;
  const text = `${qualified(resource)} ${JSON.stringify(name)} is forbidden: ValidatingAdmissionPolicy ${where} denied request: ${message}`;
  return new ApiError(codes[reason] ?? 422, reason, text, { name, kind: resource.plural });
}
