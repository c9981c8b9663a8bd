import type { ServicePort, ServiceSpec } from 'kubernetes-types/core/v1.d.ts';
import { isIp } from '../../../../src/base/net/ip.ts';
import type { FieldErrors } from '../../errors/field-errors.ts';
import { equalJson } from '../../object/json.ts';
import { checkLabelName, checkLabels, checkPortName, checkSubdomain } from '../../resource/name-rules.ts';
import { checkPort, portProtocols } from '../pod-strategy.ts';
import { checkCidr } from '../small-strategies.ts';
import { isReachableFromOutside, needsHealthCheckPort, type ServiceDraft } from './service-facts.ts';

const affinities = ['ClientIP', 'None'];
const trafficPolicies = ['Cluster', 'Local'];
const distributions = ['PreferClose', 'PreferSameNode', 'PreferSameZone'];
const affinityLimit = 86_400;

/** A Service after defaults and allocation. */
export function validateService(spec: ServiceSpec, old: ServiceSpec | undefined, errors: FieldErrors): void {
  checkPorts(spec, errors);
  checkLabels('spec.selector', spec.selector ?? {}, errors);
  checkAffinity(spec, errors);
  checkExternals(spec, errors);
  checkTrafficPolicies(spec, errors);
  if (spec.type === 'ExternalName') checkExternalName(spec, errors);
  if (spec.type === 'LoadBalancer' && spec.clusterIP === 'None')
    errors.invalid('spec.clusterIPs[0]', 'None', "may not be set to 'None' for LoadBalancer services");
  if (spec.type === 'NodePort' && spec.clusterIP === 'None')
    errors.invalid('spec.clusterIPs[0]', 'None', "may not be set to 'None' for NodePort services");
  if (old !== undefined) checkUpdate(spec, old, errors);
}

function checkPorts(spec: ServiceSpec, errors: FieldErrors): void {
  const ports = spec.ports ?? [];
  const headless = spec.clusterIP === 'None';
  if (ports.length === 0 && !headless && spec.type !== 'ExternalName') errors.required('spec.ports');
  const names = new Set<string>();
  const pairs = new Set<string>();
  ports.forEach((port, index) => {
    const path = `spec.ports[${index}]`;
    checkServicePort(path, port, { many: ports.length > 1, headless }, errors);
    if (port.name && names.has(port.name)) errors.duplicate(`${path}.name`, port.name);
    if (port.name) names.add(port.name);
    const pair = `${port.protocol}/${port.port}`;
    if (pairs.has(pair)) errors.duplicate(path, { port: port.port, protocol: port.protocol });
    pairs.add(pair);
    const takesNodePort = spec.type === 'NodePort' || spec.type === 'LoadBalancer';
    if (port.nodePort && !takesNodePort) errors.forbidden(`${path}.nodePort`, `may not be used when \`type\` is '${spec.type}'`);
  });
}

function checkServicePort(
  path: string,
  port: ServicePort,
  { many, headless }: { readonly many: boolean; readonly headless: boolean },
  errors: FieldErrors,
): void {
  if (port.name) checkLabelName(`${path}.name`, port.name, errors);
  else if (many) errors.required(`${path}.name`);
  checkPort(`${path}.port`, port.port ?? 0, errors);
  if (!portProtocols.includes(port.protocol ?? '')) errors.notSupported(`${path}.protocol`, port.protocol, portProtocols);
  if (typeof port.targetPort === 'number') {
    if (!headless || port.targetPort !== port.port) checkPort(`${path}.targetPort`, port.targetPort, errors);
  } else if (port.targetPort !== undefined) checkPortName(`${path}.targetPort`, port.targetPort, errors);
}

function checkAffinity({ sessionAffinity = '', sessionAffinityConfig }: ServiceSpec, errors: FieldErrors): void {
  if (!affinities.includes(sessionAffinity)) errors.notSupported('spec.sessionAffinity', sessionAffinity, affinities);
  const seconds = sessionAffinityConfig?.clientIP?.timeoutSeconds;
  if (seconds !== undefined && (seconds <= 0 || seconds > affinityLimit))
    errors.invalid('spec.sessionAffinityConfig.clientIP.timeoutSeconds', seconds, `must be greater than 0 and less than ${affinityLimit}`);
}

function checkExternals({ externalIPs = [], loadBalancerSourceRanges = [], type }: ServiceSpec, errors: FieldErrors): void {
  externalIPs.forEach((address, index) => {
    const path = `spec.externalIPs[${index}]`;
    if (!isIp(address)) errors.invalid(path, address, 'must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)');
    else if (/^(127\.|169\.254\.|0\.0\.0\.0$|::1?$|fe80:)/.test(address))
      errors.invalid(path, address, 'may not be unspecified, loopback or link-local');
  });
  if (loadBalancerSourceRanges.length > 0 && type !== 'LoadBalancer')
    errors.forbidden('spec.LoadBalancerSourceRanges', "may only be used when `type` is 'LoadBalancer'");
  loadBalancerSourceRanges.forEach((cidr, index) => {
    checkCidr(`spec.LoadBalancerSourceRanges[${index}]`, cidr.trim(), errors);
  });
}

function checkTrafficPolicies(spec: ServiceDraft, errors: FieldErrors): void {
  const { externalTrafficPolicy, internalTrafficPolicy, trafficDistribution, healthCheckNodePort } = spec;
  if (externalTrafficPolicy !== undefined && !isReachableFromOutside(spec))
    errors.invalid('spec.externalTrafficPolicy', externalTrafficPolicy, 'may only be set for externally-accessible services');
  else if (externalTrafficPolicy !== undefined && !trafficPolicies.includes(externalTrafficPolicy))
    errors.notSupported('spec.externalTrafficPolicy', externalTrafficPolicy, trafficPolicies);
  if (internalTrafficPolicy !== undefined && !trafficPolicies.includes(internalTrafficPolicy))
    errors.notSupported('spec.internalTrafficPolicy', internalTrafficPolicy, trafficPolicies);
  if (trafficDistribution !== undefined && !distributions.includes(trafficDistribution))
    errors.notSupported('spec.trafficDistribution', trafficDistribution, distributions);
  if (healthCheckNodePort !== undefined && !needsHealthCheckPort(spec))
    errors.invalid(
      'spec.healthCheckNodePort',
      healthCheckNodePort,
      "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'",
    );
}

function checkExternalName(spec: ServiceSpec, errors: FieldErrors): void {
  if (!spec.externalName) errors.required('spec.externalName');
  else checkSubdomain('spec.externalName', spec.externalName.replace(/\.$/, ''), errors);
  for (const name of ['clusterIPs', 'ipFamilies', 'ipFamilyPolicy'] as const) {
    if (spec[name] !== undefined) errors.forbidden(`spec.${name}`, 'may not be set for ExternalName services');
  }
}

function checkUpdate(spec: ServiceSpec, old: ServiceSpec, errors: FieldErrors): void {
  if (spec.type === 'ExternalName' || old.type === 'ExternalName') return;
  const [now, before] = [spec.clusterIPs ?? [], old.clusterIPs ?? []];
  if (before[0] !== undefined && now[0] !== before[0]) errors.invalid('spec.clusterIPs[0]', now, 'may not change once set');
  if (before[1] !== undefined && now[1] !== undefined && now[1] !== before[1])
    errors.invalid('spec.clusterIPs[1]', now, 'may not change once set');
  const [family, familyBefore] = [spec.ipFamilies?.[0], old.ipFamilies?.[0]];
  if (familyBefore !== undefined && !equalJson(family, familyBefore))
    errors.invalid('spec.ipFamilies[0]', spec.ipFamilies, 'may not change once set');
}
