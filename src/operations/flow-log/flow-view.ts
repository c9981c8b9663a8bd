import type { FlowEnd, FlowView } from '../../api/flow-log.ts';
import { protocolNames } from '../../policy/denied-log/denied-packet.ts';
import type { NumberedFlow, RecordedEnd } from './records/flow-record.ts';
import { workloadOf } from './records/workload-of.ts';

/** Returns a record as the API has it. Pure. @param node name of this node */
export function flowView(flow: NumberedFlow, node: string): FlowView {
  const { number, timeMs, event, verdict, reporter, protocol, source, destination, service, packets, bytes, startedMs, endedMs, ...rest } =
    flow;
  const { namespace, name } = splitName(service?.name);
  return {
    node,
    number,
    time: new Date(timeMs).toISOString(),
    event,
    verdict,
    reporter,
    family: source.ip.family,
    protocol: protocolNames[protocol] ?? String(protocol),
    source: endView(source),
    destination: endView(destination),
    ...(service && {
      service: {
        address: service.ip.text,
        ...(service.port !== undefined && { port: service.port }),
        ...(namespace !== undefined && { namespace, name }),
      },
    }),
    ...rest,
    ...(packets && { packets: textOf(packets) }),
    ...(bytes && { bytes: textOf(bytes) }),
    ...(startedMs !== undefined && { startedAt: new Date(startedMs).toISOString() }),
    ...(endedMs !== undefined && { endedAt: new Date(endedMs).toISOString() }),
  };
}

function endView({ ip, port, kind, name }: RecordedEnd): FlowEnd {
  const place = { address: ip.text, ...(port !== undefined && { port }), kind };
  if (name === undefined) return place;
  if (kind !== 'pod') return { ...place, name };
  const of = splitName(name);
  return { ...place, ...of, ...(of.name !== undefined && { workload: workloadOf({ name: of.name }) }) };
}

function splitName(text: string | undefined): { readonly namespace?: string; readonly name?: string } {
  const slash = text?.indexOf('/') ?? -1;
  return text === undefined || slash < 0 ? {} : { namespace: text.slice(0, slash), name: text.slice(slash + 1) };
}

function textOf({ out, in: received }: { readonly out: number; readonly in: number }): { readonly out: string; readonly in: string } {
  return { out: String(out), in: String(received) };
}
