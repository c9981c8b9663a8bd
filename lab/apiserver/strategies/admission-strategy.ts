import type { ValidatingAdmissionPolicyBindingSpec, ValidatingAdmissionPolicySpec } from 'kubernetes-types/admissionregistration/v1.d.ts';
import type { FieldErrors } from '../errors/field-errors.ts';
import { parseCel } from '../object/cel.ts';
import type { Strategy } from '../resource/resource.ts';

const operations = ['CREATE', 'UPDATE'];

/** Rejects policies with features that are not evaluated here. */
export const admissionPolicyStrategy: Strategy = {
  defaults: ({ spec }) => {
    const policy = spec as ValidatingAdmissionPolicySpec | undefined;
    if (policy !== undefined) policy.failurePolicy ??= 'Fail';
  },
  validate: ({ spec }, _old, errors) => {
    const policy = spec as ValidatingAdmissionPolicySpec;
    const { matchConstraints = {}, matchConditions = [], variables = [], validations = [] } = policy;
    for (const name of ['paramKind', 'auditAnnotations'] as const) if (policy[name] !== undefined) notHere(errors, `spec.${name}`);
    for (const name of ['excludeResourceRules', 'namespaceSelector', 'objectSelector'] as const)
      if (matchConstraints[name] !== undefined) notHere(errors, `spec.matchConstraints.${name}`);
    if (!matchConstraints.resourceRules?.length) errors.required('spec.matchConstraints.resourceRules');
    matchConstraints.resourceRules?.forEach((rule, index) => {
      for (const operation of rule.operations ?? [])
        if (!operations.includes(operation))
          errors.notSupported(`spec.matchConstraints.resourceRules[${index}].operations`, operation, operations);
    });
    matchConditions.forEach(({ expression }, index) => {
      check(errors, `spec.matchConditions[${index}].expression`, expression, 'bool');
    });
    variables.forEach(({ expression }, index) => {
      check(errors, `spec.variables[${index}].expression`, expression, 'any');
    });
    validations.forEach(({ expression, messageExpression }, index) => {
      check(errors, `spec.validations[${index}].expression`, expression, 'bool');
      if (messageExpression) check(errors, `spec.validations[${index}].messageExpression`, messageExpression, 'string');
    });
  },
};

export const admissionBindingStrategy: Strategy = {
  validate: ({ spec }, _old, errors) => {
    const binding = spec as ValidatingAdmissionPolicyBindingSpec;
    for (const name of ['paramRef', 'matchResources'] as const) if (binding[name] !== undefined) notHere(errors, `spec.${name}`);
  },
};

function notHere(errors: FieldErrors, field: string): void {
  errors.forbidden(field, 'the API server of a lab does not evaluate it');
}

function check(errors: FieldErrors, field: string, expression: string, wanted: 'bool' | 'string' | 'any'): void {
  try {
    parseCel(expression, wanted);
  } catch (thrown) {
    const [reason] = (thrown instanceof Error ? thrown.message : String(thrown)).split('\n');
    errors.invalid(field, expression, `compilation failed: ERROR: ${reason}`);
  }
}
