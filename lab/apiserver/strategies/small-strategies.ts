import type { NodeSpec, Taint } from 'kubernetes-types/core/v1.d.ts';
import { parseCidr } from '../../../src/base/net/ip.ts';
import type { FieldErrors } from '../errors/field-errors.ts';
import { at, ensureObject, equalJson, isObject, type JsonRecord } from '../object/json.ts';
import { compileLabelSelector, type LabelSelector } from '../object/selectors.ts';
import type { Strategy } from '../resource/resource.ts';
import { podTemplateDefaults } from './pod-defaults.ts';

/** A new namespace is active and has the finalizer that its controller removes when the namespace is empty. */
export const namespaceStrategy: Strategy = {
  defaults: (draft, old) => {
    draft.metadata.labels = { ...draft.metadata.labels, 'kubernetes.io/metadata.name': draft.metadata.name };
    if (old !== undefined) return;
    draft.spec = { finalizers: ['kubernetes'] };
    draft.status = { phase: 'Active' };
  },
};

const taintEffects = ['NoSchedule', 'PreferNoSchedule', 'NoExecute'];

export const nodeStrategy: Strategy = {
  defaults: (draft) => {
    const spec = ensureObject(draft, 'spec') as NodeSpec;
    if (spec.podCIDR && !spec.podCIDRs) spec.podCIDRs = [spec.podCIDR];
    if (!spec.podCIDR && spec.podCIDRs?.[0]) spec.podCIDR = spec.podCIDRs[0];
  },
  validate: ({ spec }, old, errors) => {
    const { podCIDRs = [], taints = [] } = spec as NodeSpec;
    podCIDRs.forEach((cidr, index) => {
      checkCidr(`spec.podCIDRs[${index}]`, cidr, errors);
    });
    (taints as readonly Taint[]).forEach(({ effect }, index) => {
      if (!taintEffects.includes(effect)) errors.notSupported(`spec.taints[${index}].effect`, effect, taintEffects);
    });
    const before = (old?.spec as NodeSpec | undefined)?.podCIDRs ?? [];
    if (before.length > 0 && !equalJson(before, podCIDRs))
      errors.forbidden('spec.podCIDRs', 'node updates may not change podCIDR except from "" to valid');
  },
};

/** @returns true if `cidr` is a CIDR; reported if not */
export function checkCidr(path: string, cidr: string, errors: FieldErrors): boolean {
  try {
    parseCidr(cidr);
    return true;
  } catch {
    // The parser's text describes our rules; the user reads the real server's.
    errors.invalid(path, cidr, 'must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)');
    return false;
  }
}

export const secretStrategy: Strategy = {
  defaults: (draft) => {
    draft['type'] ??= 'Opaque';
    const plain = draft['stringData'];
    if (!isObject(plain)) return;
    const encoded = Object.entries(plain).map(([key, value]) => [key, Buffer.from(String(value)).toString('base64')]);
    draft['data'] = { ...(draft['data'] as object | undefined), ...Object.fromEntries(encoded) };
    delete draft['stringData'];
  },
  validate: (object, old, errors) => {
    if (old !== undefined && old['type'] !== object['type']) errors.immutable('type', object['type']);
  },
};

/** Deployments, DaemonSets and ReplicaSets are stored for clients to read; no controller here acts on them. */
export const workloadStrategy: Strategy = {
  defaults: (draft) => {
    const spec = ensureObject(draft, 'spec');
    if (draft.kind !== 'DaemonSet') spec['replicas'] ??= 1;
    if (draft.kind !== 'ReplicaSet') spec['revisionHistoryLimit'] ??= 10;
    if (draft.kind === 'Deployment') deploymentDefaults(spec);
    if (draft.kind === 'DaemonSet') spec['updateStrategy'] ??= { type: 'RollingUpdate', rollingUpdate: { maxUnavailable: 1, maxSurge: 0 } };
    const template = ensureObject(spec, 'template');
    if (isObject(template['spec'])) podTemplateDefaults(template['spec']);
  },
  validate: ({ spec }, old, errors) => {
    const selector = at(spec, 'selector') as LabelSelector | undefined;
    const labels = (at(spec, 'template', 'metadata', 'labels') ?? {}) as Record<string, string>;
    if (selector !== undefined && !compileLabelSelector(selector)(labels))
      errors.invalid('spec.template.metadata.labels', labels, '`selector` does not match template `labels`');
    if (old !== undefined && !equalJson(at(old.spec, 'selector'), selector)) errors.immutable('spec.selector', selector);
  },
};

function deploymentDefaults(spec: JsonRecord): void {
  spec['progressDeadlineSeconds'] ??= 600;
  const strategy = ensureObject(spec, 'strategy');
  strategy['type'] ??= 'RollingUpdate';
  if (strategy['type'] === 'RollingUpdate') strategy['rollingUpdate'] ??= { maxUnavailable: '25%', maxSurge: '25%' };
}
