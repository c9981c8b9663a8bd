import type { ForwardedObjects } from '../../policy/verify/forwarding-reference/forwarded-objects.ts';
import { meaningOf } from '../../policy/verify/forwarding-reference/forwarding-reference.ts';
import type { NodeQuestion, PathMeaning, WholePath, WholeTrace } from './whole-trace.ts';

/** Returns the verdict of the API objects about a path; undefined where they do not decide. */
export function meaningFor(objects: ForwardedObjects, trace: WholeTrace, { endpoints, desired }: WholePath): PathMeaning | undefined {
  const { packet, node } = trace;
  if (trace.connection === 'established') return undefined;
  const [endpoint] = endpoints;
  const [, address = '', port = ''] = /^(.*):(\d+)$/.exec(endpoint ?? '') ?? [];
  const { verdict, why, by, isUnserved } = meaningOf(
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
  // Objects do not name the range of Services. Without `serviceCIDR` a node sends packets to such a port out, as its flows should.
  if (isUnserved && desired === 'allowed') return undefined;
  return { verdict, why: by.length > 0 ? `${why}: ${by.join(', ')}` : why };
}

/** Reports whether a Service translates the packet: objects without Services do not decide about it. */
export function isThroughService({ to }: Pick<NodeQuestion, 'to'>, { endpoints }: Pick<WholePath, 'endpoints'>): boolean {
  return to.startsWith('service:') || endpoints.length > 0;
}
