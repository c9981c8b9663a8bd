import type {
  IPBlock,
  NetworkPolicyEgressRule,
  NetworkPolicyIngressRule,
  NetworkPolicyPeer,
  NetworkPolicyPort,
  NetworkPolicySpec,
} from 'kubernetes-types/networking/v1.d.ts';
import { cidrContains, parseCidr } from '../../../src/base/net/ip.ts';
import type { FieldErrors } from '../errors/field-errors.ts';
import { ensureObject } from '../object/json.ts';
import type { LabelSelector } from '../object/selectors.ts';
import { checkLabels, checkPortName } from '../resource/name-rules.ts';
import type { Strategy } from '../resource/resource.ts';
import { checkPort, portProtocols } from './pod-strategy.ts';
import { checkCidr } from './small-strategies.ts';

const policyTypes = ['Egress', 'Ingress'];
const operators = ['In', 'NotIn', 'Exists', 'DoesNotExist'];

export const networkPolicyStrategy: Strategy = {
  defaults: (draft) => {
    const spec = ensureObject(draft, 'spec') as Partial<NetworkPolicySpec>;
    spec.podSelector ??= {};
    spec.policyTypes ??= spec.egress !== undefined && spec.egress.length > 0 ? ['Ingress', 'Egress'] : ['Ingress'];
    for (const rule of [...(spec.ingress ?? []), ...(spec.egress ?? [])]) for (const port of rule.ports ?? []) port.protocol ??= 'TCP';
  },
  validate: (object, _old, errors) => {
    const spec = object.spec as NetworkPolicySpec;
    checkSelector('spec.podSelector', spec.podSelector ?? {}, errors);
    (spec.ingress ?? []).forEach((rule, index) => {
      checkRule(`spec.ingress[${index}]`, rule, 'from', errors);
    });
    (spec.egress ?? []).forEach((rule, index) => {
      checkRule(`spec.egress[${index}]`, rule, 'to', errors);
    });
    const types = spec.policyTypes ?? [];
    if (types.length > policyTypes.length) errors.invalid('spec.policyTypes', types, 'may not specify more than two policyTypes');
    types.forEach((type, index) => {
      if (!policyTypes.includes(type)) errors.notSupported(`spec.policyTypes[${index}]`, type, policyTypes);
    });
  },
};

function checkRule(
  path: string,
  rule: NetworkPolicyIngressRule & NetworkPolicyEgressRule,
  peers: 'from' | 'to',
  errors: FieldErrors,
): void {
  (rule.ports ?? []).forEach((port, index) => {
    checkRulePort(`${path}.ports[${index}]`, port, errors);
  });
  (rule[peers] ?? []).forEach((peer, index) => {
    checkPeer(`${path}.${peers}[${index}]`, peer, errors);
  });
}

function checkRulePort(path: string, { protocol = 'TCP', port, endPort }: NetworkPolicyPort, errors: FieldErrors): void {
  if (!portProtocols.includes(protocol)) errors.notSupported(`${path}.protocol`, protocol, portProtocols);
  if (typeof port === 'number') {
    checkPort(`${path}.port`, port, errors);
    if (endPort !== undefined && endPort < port) errors.invalid(`${path}.endPort`, endPort, 'must be greater than or equal to `port`');
  } else if (port !== undefined) {
    checkPortName(`${path}.port`, port, errors);
    if (endPort !== undefined) errors.invalid(`${path}.endPort`, endPort, 'may not be specified when `port` is non-numeric');
  } else if (endPort !== undefined) errors.invalid(`${path}.endPort`, endPort, 'may not be specified when `port` is not specified');
  if (endPort !== undefined) checkPort(`${path}.endPort`, endPort, errors);
}

function checkPeer(path: string, { podSelector, namespaceSelector, ipBlock }: NetworkPolicyPeer, errors: FieldErrors): void {
  if (podSelector === undefined && namespaceSelector === undefined && ipBlock === undefined) errors.required(path, 'must specify a peer');
  if (ipBlock !== undefined && (podSelector !== undefined || namespaceSelector !== undefined))
    errors.forbidden(path, 'may not specify both ipBlock and another peer');
  if (podSelector !== undefined) checkSelector(`${path}.podSelector`, podSelector, errors);
  if (namespaceSelector !== undefined) checkSelector(`${path}.namespaceSelector`, namespaceSelector, errors);
  if (ipBlock !== undefined) checkBlock(`${path}.ipBlock`, ipBlock, errors);
}

function checkBlock(path: string, { cidr, except = [] }: IPBlock, errors: FieldErrors): void {
  if (!cidr) {
    errors.required(`${path}.cidr`);
    return;
  }
  if (!checkCidr(`${path}.cidr`, cidr, errors)) return;
  const outer = parseCidr(cidr);
  except.forEach((text, index) => {
    const here = `${path}.except[${index}]`;
    if (!checkCidr(here, text, errors)) return;
    const inner = parseCidr(text);
    if (!cidrContains(outer, inner.network) || inner.prefixLength <= outer.prefixLength)
      errors.invalid(here, text, `must be a strict subset of \`cidr\``);
  });
}

function checkSelector(path: string, { matchLabels = {}, matchExpressions = [] }: LabelSelector, errors: FieldErrors): void {
  checkLabels(`${path}.matchLabels`, matchLabels, errors);
  matchExpressions.forEach(({ operator, values = [] }, index) => {
    const here = `${path}.matchExpressions[${index}]`;
    if (!operators.includes(operator)) {
      errors.invalid(`${here}.operator`, operator, 'not a valid selector operator');
      return;
    }
    const wantsValues = operator === 'In' || operator === 'NotIn';
    if (wantsValues && values.length === 0) errors.required(`${here}.values`, "must be specified when `operator` is 'In' or 'NotIn'");
    if (!wantsValues && values.length > 0)
      errors.forbidden(`${here}.values`, "may not be specified when `operator` is 'Exists' or 'DoesNotExist'");
  });
}
