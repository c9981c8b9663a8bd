import { type ForwardedObjects, meaningOf } from '../../policy/verify/forwarding-reference/forwarding-reference.ts';
import type { PathMeaning, WholePath, WholeTrace } from './whole-trace.ts';

/** Returns the verdict of the API objects about a path; undefined where they do not decide. */
export function meaningFor(objects: ForwardedObjects, trace: WholeTrace, { endpoints }: WholePath): PathMeaning | undefined {
  const { packet, node } = trace;
  if (trace.connection === 'established') return undefined;
  const [endpoint] = endpoints;
  const [, address = '', port = ''] = /^(.*):(\d+)$/.exec(endpoint ?? '') ?? [];
  const { verdict, why, by } = meaningOf(
    objects,
    {
      source: packet.source,
      destination: packet.destination,
      protocol: packet.protocol,
      node,
      ...(packet.destinationPort !== undefined && { port: packet.destinationPort }),
    },
    endpoint === undefined ? undefined : { address, port: Number(port) },
  );
  return { verdict, why: by.length > 0 ? `${why}: ${by.join(', ')}` : why };
}
