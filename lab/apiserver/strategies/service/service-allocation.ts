import { isIp, parseIp } from '../../../../src/base/net/ip.ts';
import type { FieldErrors } from '../../errors/field-errors.ts';
import { type ApiObject, keyOf } from '../../object/api-object.ts';
import type { ServiceRanges } from '../../resource/resource.ts';
import { type IpFamily, isExternalName, needsHealthCheckPort, needsNodePorts, type ServiceDraft } from './service-facts.ts';

/** Chooses families and addresses and writes `clusterIP(s)`, `ipFamilies` and `ipFamilyPolicy`; rejects through `errors`. */
export function allocateAddresses(draft: ApiObject, old: ServiceDraft | undefined, errors: FieldErrors, ranges: ServiceRanges): void {
  const spec = draft.spec as ServiceDraft;
  if (isExternalName(spec)) return;
  if (!spec.clusterIPs?.length && spec.clusterIP) spec.clusterIPs = [spec.clusterIP];
  if (spec.clusterIPs?.[0] !== undefined && spec.clusterIP === undefined) spec.clusterIP = spec.clusterIPs[0];
  const wanted = chooseFamilies(spec, errors, ranges);
  if (wanted === undefined) return;
  spec.ipFamilies = [...wanted];
  if (isHeadless(spec)) {
    spec.clusterIPs = ['None'];
    return;
  }
  const addresses = (spec.clusterIPs ?? []).slice(0, wanted.length);
  const key = keyOf(draft.metadata);
  wanted.forEach((family, index) => {
    const given = addresses[index];
    if (given === undefined) {
      const free = ranges.freeAddress(family);
      if (free === undefined) errors.invalid('spec.clusterIPs', addresses, `failed to allocate a serviceIP: range is full`);
      else addresses[index] = free;
    } else if (!old?.clusterIPs?.includes(given)) checkGiven(given, family, index, { key, addresses, errors, ranges });
  });
  spec.clusterIPs = addresses;
  if (addresses[0] !== undefined) spec.clusterIP = addresses[0];
}

function isHeadless({ clusterIPs }: ServiceDraft): boolean {
  return clusterIPs?.[0] === 'None';
}

interface Given {
  readonly key: string;
  readonly addresses: readonly string[];
  readonly errors: FieldErrors;
  readonly ranges: ServiceRanges;
}

function checkGiven(address: string, family: IpFamily, index: number, { key, addresses, errors, ranges }: Given): void {
  const path = `spec.clusterIPs[${index}]`;
  if (!isIp(address)) {
    errors.invalid(path, address, 'must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)');
    return;
  }
  if (familyOf(address) !== family) {
    errors.invalid(path, address, `expected an ${family} value as indicated by \`ipFamilies[${index}]\``);
    return;
  }
  const refused = ranges.refusedAddress(parseIp(address).text, family, key);
  if (refused !== undefined) errors.invalid('spec.clusterIPs', addresses, `failed to allocate IP ${address}: ${refused}`);
}

function familyOf(address: string): IpFamily {
  return address.includes(':') ? 'IPv6' : 'IPv4';
}

/** The families in order, from the requested list, addresses or policy; undefined after a rejection. */
function chooseFamilies(spec: ServiceDraft, errors: FieldErrors, ranges: ServiceRanges): readonly IpFamily[] | undefined {
  const cluster = ranges.families;
  const given = (spec.clusterIPs ?? []).filter(isIp).map(familyOf);
  const asked = ((spec.ipFamilies ?? []) as readonly IpFamily[]).length > 0 ? (spec.ipFamilies as IpFamily[]) : given;
  const selectorless = Object.keys(spec.selector ?? {}).length === 0;
  const anywhere = isHeadless(spec) && selectorless;
  if (anywhere && spec.ipFamilyPolicy === undefined && asked.length === 0) spec.ipFamilyPolicy = 'RequireDualStack';
  if (spec.ipFamilyPolicy === undefined)
    spec.ipFamilyPolicy = Math.max(asked.length, spec.clusterIPs?.length ?? 0) > 1 ? 'RequireDualStack' : 'SingleStack';
  const first = asked[0] ?? cluster[0];
  if (!anywhere) {
    const unknown = asked.find((family) => !cluster.includes(family));
    if (unknown !== undefined) {
      errors.invalid(`spec.ipFamilies[${asked.indexOf(unknown)}]`, unknown, 'not configured on this cluster');
      return undefined;
    }
    if (spec.ipFamilyPolicy === 'RequireDualStack' && cluster.length < 2) {
      errors.invalid('spec.ipFamilyPolicy', 'RequireDualStack', 'this cluster is not configured for dual-stack services');
      return undefined;
    }
  }
  if (first === undefined) return [];
  if (spec.ipFamilyPolicy === 'SingleStack') return asked.length > 1 ? refuseTwo(asked, errors) : [first];
  const both = asked.length > 1 ? asked : [first, first === 'IPv4' ? ('IPv6' as const) : ('IPv4' as const)];
  return spec.ipFamilyPolicy === 'RequireDualStack' || cluster.length > 1 ? both : [first];
}

function refuseTwo(asked: readonly IpFamily[], errors: FieldErrors): undefined {
  errors.invalid(
    'spec.ipFamilyPolicy',
    'SingleStack',
    `when multiple values are specified for ${asked.length > 1 ? 'ipFamilies' : 'clusterIPs'}, ipFamilyPolicy must be PreferDualStack or RequireDualStack`,
  );
}

/** Allocates node ports and the health check port, and checks those that the user chose. */
export function allocatePorts(draft: ApiObject, errors: FieldErrors, ranges: ServiceRanges): void {
  const spec = draft.spec as ServiceDraft;
  const key = keyOf(draft.metadata);
  const taken = new Set<string>();
  (spec.ports ?? []).forEach(({ nodePort, protocol = 'TCP' }, index) => {
    if (!nodePort) return;
    const path = `spec.ports[${index}].nodePort`;
    const refused = ranges.refusedPort(nodePort, protocol, key);
    if (taken.has(`${protocol}/${nodePort}`)) errors.duplicate(path, { nodePort, protocol });
    else if (refused !== undefined) errors.invalid(path, nodePort, refused);
    taken.add(`${protocol}/${nodePort}`);
  });
  if (needsNodePorts(spec)) for (const port of spec.ports ?? []) givePort(port, spec, taken, errors, ranges);
  if (!needsHealthCheckPort(spec)) return;
  if (spec.healthCheckNodePort) {
    const refused = ranges.refusedPort(spec.healthCheckNodePort, 'TCP', key);
    if (refused !== undefined) errors.invalid('spec.healthCheckNodePort', spec.healthCheckNodePort, refused);
  } else {
    const free = ranges.freePort(['TCP'], taken);
    if (free === undefined)
      errors.invalid('spec.healthCheckNodePort', 0, 'failed to allocate requested HealthCheck NodePort: range is full');
    else spec.healthCheckNodePort = free;
  }
}

type ServicePortDraft = NonNullable<ServiceDraft['ports']>[number];

/** Uses one number for TCP and UDP of the same port if possible, as the real server does for DNS. */
function givePort(port: ServicePortDraft, spec: ServiceDraft, taken: Set<string>, errors: FieldErrors, ranges: ServiceRanges): void {
  if (port.nodePort) return;
  const protocol = port.protocol ?? 'TCP';
  const sibling = spec.ports?.find(
    (one) => one !== port && one.port === port.port && one.nodePort && !taken.has(`${protocol}/${one.nodePort}`),
  );
  const shared = sibling?.nodePort;
  const free = shared !== undefined && ranges.refusedPort(shared, protocol, '') === undefined ? shared : ranges.freePort([protocol], taken);
  if (free === undefined) {
    errors.invalid('spec.ports', [], 'failed to allocate a nodePort: range is full');
    return;
  }
  port.nodePort = free;
  taken.add(`${protocol}/${free}`);
}
