import { type Owner, ownerOf } from '../../dataplane/pipeline/cookie.ts';
import type { Transport } from '../../dataplane/pipeline/flow.ts';
import { type ServiceEndpoint, type ServiceIntent, translatedEndpoints } from './service-intent.ts';

/** Returns the owners of the translations to a port's endpoints. */
export function endpointOwners(intent: ServiceIntent): readonly Owner[] {
  return translatedEndpoints(intent).map((endpoint) => endpointOwner(intent.transport, endpoint));
}

/**
 * Returns the owner of an endpoint's translation. Several Services may forward to one endpoint: the translation belongs to the endpoint.
 */
export function endpointOwner(transport: Transport, { ip, port }: ServiceEndpoint): Owner {
  return ownerOf('endpoint', transport, ip.text, String(port));
}
