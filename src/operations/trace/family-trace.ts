import type { FamilyTrace, TracedConnection, TracePath } from '../../api/trace.ts';
import { SeineError } from '../../base/errors/seine-error.ts';
import type { Family, Ip } from '../../base/net/ip.ts';
import type { NodeEnvironment } from '../../dataplane/compile/environment.ts';
import { PacketState } from '../../dataplane/flow-walk/packet-state.ts';
import type { Lease } from '../../pods/ipam/lease.ts';
import { isSentByKernel, pathByKernel } from './kernel-paths.ts';
import { packetOf, tracedPacket } from './trace-packet.ts';
import { type TraceNode, tracePaths } from './trace-paths.ts';
import type { TraceQuestion } from './trace-question.ts';

interface TracedPlace {
  readonly environment: NodeEnvironment;
  readonly leases: readonly Lease[];
  /** Connection of a later packet, as the node knows it. */
  readonly known?: TracedConnection;
}

const assumed: TracedConnection = { from: 'assumption' };

/** Traces the packet of a question in one family. The time is left to the caller, which has a clock. */
export async function familyTrace(
  node: TraceNode,
  asked: TraceQuestion,
  family: Family,
  { environment, leases, known = assumed }: TracedPlace,
): Promise<FamilyTrace> {
  const question = known.sourcePort === undefined ? asked : { ...asked, sourcePort: known.sourcePort };
  const ends = { source: addressOf(question.from.addresses, family), destination: addressOf(question.to.addresses, family) };
  const opening = packetOf({ ...question, isEstablished: false }, ends, environment, leases);
  const packet = question.isEstablished ? packetOf(question, ends, environment, leases) : opening;
  const shown = tracedPacket(PacketState.of(packet));
  const onward = question.from.kind === 'node' ? node.onward(ends.destination) : undefined;
  const traced = onward
    ? { paths: [pathByKernel(shown, onward)], moreEndpoints: 0 }
    : await tracePaths(node, packet, question.isEstablished ? { established: opening } : {});
  const ofConnection = traced.paths.filter(({ endpoints }) => known.endpoint !== undefined && endpoints.includes(known.endpoint));
  const isOfEndpoint = ofConnection.length > 0;
  const isByKernel = ({ bridge, desired }: TracePath): boolean =>
    [bridge, desired].every(({ drop }) => isSentByKernel(question.from, drop?.name, ends.destination, environment));
  const paths = (isOfEndpoint ? ofConnection.map((path) => onlyTo(path, known.endpoint)) : traced.paths).map((path) =>
    isByKernel(path) ? pathByKernel(shown, undefined) : path,
  );
  return {
    family,
    packet: shown,
    from: question.from.name,
    to: question.to.name,
    connection: question.isEstablished ? 'established' : 'new',
    ...(question.isEstablished && {
      known: isOfEndpoint || known.endpoint === undefined ? known : withoutEndpoint(known, traced.moreEndpoints),
    }),
    paths,
    moreEndpoints: isOfEndpoint ? 0 : traced.moreEndpoints,
    milliseconds: 0,
  };
}

/** The connection has one endpoint, although others have the same path. */
function onlyTo(path: TracePath, endpoint: string | undefined): TracePath {
  return endpoint === undefined ? path : { ...path, endpoints: [endpoint] };
}

function withoutEndpoint(known: TracedConnection, moreEndpoints: number): TracedConnection {
  const { endpoint } = known;
  const why =
    moreEndpoints > 0
      ? `its endpoint ${endpoint} is not among those that were traced`
      : `new connections do not get its endpoint ${endpoint}`;
  return { ...known, note: `${why}: the path is that of a new one` };
}

/** @throws SeineError `INVARIANT` if there is none: the question has only families of both ends */
export function addressOf(addresses: readonly Ip[], family: Family): Ip {
  const found = addresses.find((each) => each.family === family);
  if (!found) throw new SeineError('INVARIANT', `no ${family} address`);
  return found;
}
