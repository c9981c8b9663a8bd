import { type Owner, ownerOf } from '../../dataplane/pipeline/cookie.ts';
import type { Transport } from '../../dataplane/pipeline/flow.ts';
import { type ServiceEndpoint, type ServiceIntent, translatedEndpoints } from './service-intent.ts';

/** The owner that wants the translations to a port's endpoints. */
export function endpointOwners(intent: ServiceIntent): readonly Owner[] {
  return translatedEndpoints(intent).map((endpoint) => endpointOwner(intent.transport, endpoint));
}

/** Several Services may lead to one endpoint: its translation is the endpoint's own. */
export function endpointOwner(transport: Transport, { ip, port }: ServiceEndpoint): Owner {
  return ownerOf('endpoint', transport, ip.text, String(port));
}
