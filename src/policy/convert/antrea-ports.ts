import * as z from 'zod';
import type { FieldPath } from '../../kubernetes/resources/object-faults.ts';
import type { ClusterProtocolObject } from '../verify/reference/objects.ts';
import { portNumber, protocolOf, RULE_NAME_MAX } from './drafts.ts';
import type { ReadObject } from './losses.ts';

const LAST_PORT = 65_535;

const portSchema = z
  .strictObject({
    protocol: z.enum(['TCP', 'UDP', 'SCTP']).nullish(),
    port: portNumber.or(z.string().min(1).max(RULE_NAME_MAX)).nullish(),
    endPort: portNumber.nullish(),
    sourcePort: z.unknown().optional(),
    sourceEndPort: z.unknown().optional(),
  })
  .refine(({ port, endPort }) => !endPort || (typeof port === 'number' && port <= endPort), {
    error: 'endPort needs a port that is not above it',
  });

/** Returns the entries of `ports`. A named port loses its protocol: the API takes that of the container's port. */
export function protocolsOfPorts(ports: readonly unknown[], path: FieldPath, into: ReadObject): readonly ClusterProtocolObject[] {
  return ports.flatMap((raw, at) => protocolOfPort(raw, [...path, at], into) ?? []);
}

function protocolOfPort(raw: unknown, path: FieldPath, into: ReadObject): ClusterProtocolObject | undefined {
  const read = into.read(portSchema, raw, path);
  if (!read) return undefined;
  const { port, endPort, sourcePort, sourceEndPort } = read;
  const protocol = read.protocol ?? 'TCP';
  if ((sourcePort ?? sourceEndPort ?? undefined) !== undefined) {
    into.lose([...path, 'sourcePort'], sourcePort, 'source ports are not in the API', path);
    return undefined;
  }
  if (typeof port === 'string') {
    into.lose([...path, 'protocol'], protocol, `a named port has the protocol of the container's port ${JSON.stringify(port)}`);
    return { destinationNamedPort: port };
  }
  return typeof port === 'number' ? protocolOf(protocol, port, endPort ?? port) : protocolOf(protocol, 1, LAST_PORT);
}
