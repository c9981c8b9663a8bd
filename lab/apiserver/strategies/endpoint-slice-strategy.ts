import type { Endpoint, EndpointPort } from 'kubernetes-types/discovery/v1.d.ts';
import { isIp } from '../../../src/base/net/ip.ts';
import type { FieldErrors } from '../errors/field-errors.ts';
import { arrayAt, textAt } from '../object/json.ts';
import type { Strategy } from '../resource/resource.ts';
import { checkPort, portProtocols } from './pod-strategy.ts';

const addressTypes = ['FQDN', 'IPv4', 'IPv6'];
const endpointLimit = 1000;
const addressLimit = 100;

export const endpointSliceStrategy: Strategy = {
  defaults: (draft) => {
    for (const port of arrayAt(draft, 'ports') as readonly EndpointPort[]) {
      port.protocol ??= 'TCP';
      port.name ??= '';
    }
    // The real server stores no empty list and returns an absent one as null; clients must accept that, so this one does the same.
    for (const list of ['endpoints', 'ports']) if (arrayAt(draft, list).length === 0) draft[list] = null;
  },
  validate: (object, old, errors) => {
    const addressType = textAt(object, 'addressType');
    if (addressType === '') errors.required('addressType');
    else if (!addressTypes.includes(addressType)) errors.notSupported('addressType', addressType, addressTypes);
    if (old !== undefined && old['addressType'] !== addressType) errors.immutable('addressType', addressType);
    checkEndpoints(arrayAt(object, 'endpoints') as readonly Endpoint[], addressType, errors);
    checkPorts(arrayAt(object, 'ports') as readonly EndpointPort[], errors);
  },
};

function checkEndpoints(endpoints: readonly Endpoint[], addressType: string, errors: FieldErrors): void {
  if (endpoints.length > endpointLimit) errors.tooMany('endpoints', endpoints.length, endpointLimit);
  endpoints.forEach(({ addresses = [] }, index) => {
    const path = `endpoints[${index}].addresses`;
    if (addresses.length === 0) errors.required(path, 'must contain at least 1 address');
    if (addresses.length > addressLimit) errors.tooMany(path, addresses.length, addressLimit);
    if (addressType === 'FQDN') return;
    addresses.forEach((address, at) => {
      const right = isIp(address) && address.includes(':') === (addressType === 'IPv6');
      if (!right) errors.invalid(`${path}[${at}]`, address, `must be a valid ${addressType} address`);
    });
  });
}

function checkPorts(ports: readonly EndpointPort[], errors: FieldErrors): void {
  const names = new Set<string>();
  ports.forEach(({ name = '', port, protocol = 'TCP' }, index) => {
    if (names.has(name)) errors.duplicate(`ports[${index}].name`, name);
    names.add(name);
    if (port !== undefined) checkPort(`ports[${index}].port`, port, errors);
    if (!portProtocols.includes(protocol)) errors.notSupported(`ports[${index}].protocol`, protocol, portProtocols);
  });
}
