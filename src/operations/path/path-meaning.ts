import { isIp, parseIp } from '../../base/net/ip.ts';
import type { ForwardedObjects, ForwardedPacket } from '../../policy/verify/forwarding-reference/forwarded-objects.ts';
import { choiceFor, meaningOf } from '../../policy/verify/forwarding-reference/forwarding-reference.ts';
import { firstNames } from './first-names.ts';
import type { NodeQuestion, PathMeaning, TraceVerdict, WholePath, WholeTrace } from './whole-trace.ts';

/** Endpoints and reasons that are named in a sentence. */
const NAMED_MAX = 3;

/** Returns the verdict of the API objects about a path, of each of its endpoints; undefined where they do not decide. */
export function meaningFor(objects: ForwardedObjects, trace: WholeTrace, path: WholePath): PathMeaning | undefined {
  // That a packet may not leave without encryption is the agents' configuration, and no object's.
  const isBlocked = path.segments.some(({ bridge }) => bridge.onward?.mode === 'blocked');
  if (trace.connection === 'established' || isBlocked) return undefined;
  const packet = forwardedPacket(trace);
  const judged = (path.endpoints.length > 0 ? path.endpoints : [undefined]).map((endpoint) => ({
    endpoint,
    ...endpointMeaning(objects, packet, trace, endpoint),
  }));
  // Objects do not name the range of Services. Without `serviceCIDR` a node sends packets to such a port out, as its flows should.
  if (judged.some(({ isUnserved }) => isUnserved) && path.desired === 'allowed') return undefined;
  const [first] = judged;
  const other = judged.find(({ verdict }) => verdict !== path.bridge);
  const verdict = (other ?? first)?.verdict ?? 'unknown';
  const choice = path === trace.paths[0] ? choiceFor(objects, packet) : undefined;
  const unchosen = choice ? unchosenOf(trace, choice.endpoints) : [];
  return {
    verdict,
    why: reasonsOf(judged, path.bridge),
    ...(choice?.text !== undefined && { choice: choice.text }),
    ...(unchosen.length > 0 && { unchosen }),
  };
}

interface EndpointVerdict extends EndpointMeaning {
  readonly endpoint: string | undefined;
}

/** Returns the reason of all endpoints, or the reasons with their endpoints: those of other verdicts than the flows have are first. */
function reasonsOf(judged: readonly EndpointVerdict[], bridge: TraceVerdict): string {
  const byReason = [...Map.groupBy(judged, ({ why, verdict }) => `${verdict}: ${why}`)];
  if (byReason.length === 1) return judged[0]?.why ?? '';
  const ordered = byReason.toSorted(([, a], [, b]) => Number(a[0]?.verdict === bridge) - Number(b[0]?.verdict === bridge));
  const texts = ordered.slice(0, NAMED_MAX).map(([reason, those]) => `${namesOf(those)} ${reason}`);
  return [...texts, ...(ordered.length > NAMED_MAX ? ['others for other reasons'] : [])].join('; ');
}

/** Returns the packet of a trace as objects decide about it. */
export function forwardedPacket({ packet, node }: WholeTrace): ForwardedPacket {
  const { source, destination, protocol, destinationPort } = packet;
  return { source, destination, protocol, node, ...(destinationPort !== undefined && { port: destinationPort }) };
}

interface EndpointMeaning {
  readonly verdict: TraceVerdict;
  readonly why: string;
  readonly isUnserved?: true;
}

function endpointMeaning(
  objects: ForwardedObjects,
  packet: ForwardedPacket,
  { to }: Pick<WholeTrace, 'to'>,
  endpoint: string | undefined,
): EndpointMeaning {
  const [, address = '', port = ''] = /^(.*):(\d+)$/.exec(endpoint ?? '') ?? [];
  const meaning = meaningOf(objects, packet, endpoint === undefined ? undefined : { address, port: Number(port) });
  const { verdict, why, by, isUnserved, unclaimed } = meaning;
  // The packet may leave the node, and does not reach the Service that was asked for.
  if (unclaimed !== undefined && to.startsWith('service:')) return { verdict: 'denied', why: unclaimed };
  const reason = by.length > 0 ? `${why}: ${by.join(', ')}` : why;
  return { verdict, why: unclaimed === undefined ? reason : `${unclaimed}: ${reason}`, ...(isUnserved && { isUnserved }) };
}

function namesOf(judged: readonly { readonly endpoint: string | undefined }[]): string {
  return firstNames(
    judged.flatMap(({ endpoint }) => endpoint ?? []),
    NAMED_MAX,
  );
}

/** Returns those of the endpoints to which no path goes; empty if not all paths are known, or the client keeps the endpoint of a connection before. */
function unchosenOf(trace: WholeTrace, endpoints: readonly { readonly address: string; readonly port: number }[]): readonly string[] {
  const { paths, packet, moreEndpoints, choice } = trace;
  const isKept = paths.some(({ segments }) =>
    segments.some(({ hops }) => hops.some(({ table, text }) => table === 'affinity' && text !== '')),
  );
  const isWhole =
    moreEndpoints === 0 && (choice?.ofOtherSourcePorts ?? 0) === 0 && !paths.some(({ missing, bridge }) => missing || bridge === 'unknown');
  if (isKept || !isWhole || !paths.some((path) => path.endpoints.length > 0)) return [];
  // A packet to an endpoint that is the address itself is not translated.
  const chosen = new Set(
    paths.flatMap((path) => (path.endpoints.length > 0 ? path.endpoints : [`${packet.destination}:${packet.destinationPort}`])),
  );
  return endpoints
    .map(({ address, port }) => `${isIp(address) ? parseIp(address).text : address}:${port}`)
    .filter((each) => !chosen.has(each));
}

/** Reports whether a Service translates the packet: objects without Services do not decide about it. */
export function isThroughService({ to }: Pick<NodeQuestion, 'to'>, { endpoints }: Pick<WholePath, 'endpoints'>): boolean {
  return to.startsWith('service:') || endpoints.length > 0;
}
