import type { ServicePort, ServiceSpec } from 'kubernetes-types/core/v1.d.ts';
import type { FieldErrors } from '../../errors/field-errors.ts';
import type { ApiObject } from '../../object/api-object.ts';
import { arrayAt, ensureObject, equalJson, isObject, type JsonRecord } from '../../object/json.ts';
import type { Strategy } from '../../resource/resource.ts';
import { checkLoadBalancerStatus, type LoadBalancerIngress } from './load-balancer-status.ts';
import { allocateAddresses, allocatePorts } from './service-allocation.ts';
import { isExternalName, isReachableFromOutside, needsHealthCheckPort, needsNodePorts, type ServiceDraft } from './service-facts.ts';
import { validateService } from './service-validation.ts';

const affinitySeconds = 10_800;

/**
 * Services as the API server creates them: omitted fields are filled in, and addresses and ports are allocated. The order is that of the
 * real server: defaults, then the effects of a changed type (fields that no longer apply are cleared), then allocation.
 */
export const serviceStrategy: Strategy = {
  defaults: (draft, old) => {
    const spec = ensureObject(draft, 'spec') as ServiceDraft;
    if (old !== undefined) inheritFromOld(spec, old.spec as ServiceDraft);
    fillDefaults(spec);
    draft.status = statusAfter(draft, old);
  },
  prepare: (draft, old, errors, cluster) => {
    const spec = draft.spec as ServiceDraft;
    if (!wellTyped(spec, errors)) return;
    allocateAddresses(draft, old?.spec as ServiceDraft | undefined, errors, cluster.services);
    allocatePorts(draft, errors, cluster.services);
    for (const name of Object.keys(spec) as (keyof ServiceDraft)[]) if (spec[name] === undefined) delete spec[name];
  },
  validate: (object, old, errors) => {
    validateService(object.spec as ServiceSpec, old?.spec as ServiceSpec | undefined, errors);
    checkLoadBalancerStatus(object, errors);
  },
};

/** A Service that is no longer a load balancer has no load balancer addresses; an address is virtual (VIP) by default. */
function statusAfter({ spec, status }: ApiObject, old: ApiObject | undefined): JsonRecord {
  const { type } = spec as ServiceDraft;
  const wasBalancer = (old?.spec as ServiceDraft | undefined)?.type === 'LoadBalancer';
  if (!isObject(status) || (wasBalancer && type !== 'LoadBalancer')) return { loadBalancer: {} };
  for (const ingress of arrayAt(status, 'loadBalancer', 'ingress') as LoadBalancerIngress[]) {
    if (type === 'LoadBalancer' && ingress.ip) ingress.ipMode ??= 'VIP';
  }
  return status;
}

function fillDefaults(spec: ServiceDraft): void {
  spec.type ??= 'ClusterIP';
  spec.sessionAffinity ??= 'None';
  if (spec.sessionAffinity === 'None') delete spec.sessionAffinityConfig;
  else if (spec.sessionAffinity === 'ClientIP')
    spec.sessionAffinityConfig = { clientIP: { timeoutSeconds: affinitySeconds, ...spec.sessionAffinityConfig?.clientIP } };
  for (const port of spec.ports ?? []) portDefaults(port);
  if (isReachableFromOutside(spec)) spec.externalTrafficPolicy ??= 'Cluster';
  if (!isExternalName(spec)) spec.internalTrafficPolicy ??= 'Cluster';
  if (spec.type === 'LoadBalancer') spec.allocateLoadBalancerNodePorts ??= true;
}

function portDefaults(port: ServicePort): void {
  port.protocol ??= 'TCP';
  if (port.targetPort === undefined || port.targetPort === 0 || port.targetPort === '') port.targetPort = port.port;
}

/**
 * Keeps allocated values that the client omits, except those that a change of type made meaningless, unless the client changed them too.
 */
function inheritFromOld(spec: ServiceDraft, old: ServiceDraft): void {
  const stays = (spec.type ?? 'ClusterIP') !== 'ExternalName' && !isExternalName(old);
  if (stays && !spec.clusterIP && !spec.clusterIPs?.length) {
    if (old.clusterIP !== undefined) spec.clusterIP = old.clusterIP;
    if (old.clusterIPs !== undefined) spec.clusterIPs = [...old.clusterIPs];
  } else if (stays) syncClusterIp(spec, old);
  if (stays) {
    if (old.ipFamilyPolicy !== undefined) spec.ipFamilyPolicy ??= old.ipFamilyPolicy;
    if (old.ipFamilies !== undefined) spec.ipFamilies ??= [...old.ipFamilies];
  }
  if (spec.ipFamilyPolicy === 'SingleStack' && old.ipFamilyPolicy !== 'SingleStack') trimToOne(spec, old);
  wipeUnchanged(spec, old);
  if (needsNodePorts(spec)) inheritNodePorts(spec, old);
  if (needsHealthCheckPort(spec) && needsHealthCheckPort(old) && old.healthCheckNodePort)
    spec.healthCheckNodePort ??= old.healthCheckNodePort;
}

/** Back to one family: lists the client did not change lose their second item. */
function trimToOne(spec: ServiceDraft, old: ServiceDraft): void {
  if (equalJson(spec.clusterIPs, old.clusterIPs) && spec.clusterIPs !== undefined) spec.clusterIPs = spec.clusterIPs.slice(0, 1);
  if (equalJson(spec.ipFamilies, old.ipFamilies) && spec.ipFamilies !== undefined) spec.ipFamilies = spec.ipFamilies.slice(0, 1);
}

/** `clusterIP` and the first of `clusterIPs` are one value; a client may change either. */
function syncClusterIp(spec: ServiceDraft, old: ServiceDraft): void {
  if (spec.clusterIP !== old.clusterIP && equalJson(spec.clusterIPs, old.clusterIPs)) {
    if (spec.clusterIP) spec.clusterIPs = [spec.clusterIP];
    else delete spec.clusterIPs;
  } else if (!spec.clusterIP && spec.clusterIPs?.[0]) spec.clusterIP = spec.clusterIPs[0];
}

function wipeUnchanged(spec: ServiceDraft, old: ServiceDraft): void {
  const same = (name: keyof ServiceDraft) => equalJson(spec[name], old[name]);
  if (isExternalName(spec) && !isExternalName(old)) {
    for (const name of ['clusterIP', 'clusterIPs', 'ipFamilies', 'ipFamilyPolicy', 'internalTrafficPolicy'] as const)
      if (same(name)) delete spec[name];
  }
  const portsGo = needsNodePorts(old) && !(spec.type === 'NodePort' || spec.type === 'LoadBalancer');
  if (portsGo) for (const port of spec.ports ?? []) if (old.ports?.some((one) => one.nodePort === port.nodePort)) delete port.nodePort;
  if (!needsHealthCheckPort(spec) && same('healthCheckNodePort')) delete spec.healthCheckNodePort;
  if (!isReachableFromOutside(spec) && same('externalTrafficPolicy')) delete spec.externalTrafficPolicy;
  if (spec.type !== 'LoadBalancer')
    for (const name of ['allocateLoadBalancerNodePorts', 'loadBalancerClass'] as const) if (same(name)) delete spec[name];
}

function inheritNodePorts(spec: ServiceDraft, old: ServiceDraft): void {
  const given = new Set((spec.ports ?? []).map(({ nodePort }) => nodePort));
  for (const port of spec.ports ?? []) {
    if (port.nodePort) continue;
    const before = old.ports?.find((one) => one.port === port.port && one.protocol === (port.protocol ?? 'TCP'));
    if (before?.nodePort && !given.has(before.nodePort)) port.nodePort = before.nodePort;
  }
}

const types = ['ClusterIP', 'ExternalName', 'LoadBalancer', 'NodePort'];
const policies = ['PreferDualStack', 'RequireDualStack', 'SingleStack'];
const families = ['IPv4', 'IPv6'];

/** Checks the types that allocation relies on. */
function wellTyped(spec: ServiceDraft, errors: FieldErrors): boolean {
  const before = errors.list.length;
  if (!types.includes(spec.type ?? '')) errors.notSupported('spec.type', spec.type, types);
  if (spec.ipFamilyPolicy !== undefined && !policies.includes(spec.ipFamilyPolicy))
    errors.notSupported('spec.ipFamilyPolicy', spec.ipFamilyPolicy, policies);
  (spec.ipFamilies ?? []).forEach((family, index) => {
    if (!families.includes(family)) errors.notSupported(`spec.ipFamilies[${index}]`, family, families);
    else if (spec.ipFamilies?.indexOf(family) !== index) errors.duplicate(`spec.ipFamilies[${index}]`, family);
  });
  return errors.list.length === before;
}
