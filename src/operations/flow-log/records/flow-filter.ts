import { type FlowEvent, type FlowVerdict, flowEvents, flowVerdicts } from '../../../api/flow-log.ts';
import { SeineError } from '../../../base/errors/seine-error.ts';
import { canonicalIp } from '../../../base/net/ip.ts';
import { protocolNames } from '../../../policy/denied-log/denied-packet.ts';
import type { FlowRecord, RecordedEnd } from './flow-record.ts';

type FlowTest = (flow: FlowRecord) => boolean;

/** Maximum length of a value of a filter, and number of values of a list. */
const lengthMax = 320;
const valuesMax = 16;

/** Filters by name in the query; they have the names that `hubble observe` has, where it has them. */
const filters: Readonly<Record<string, (values: readonly string[], name: string) => FlowTest>> = {
  namespace: (values) => either((end) => ofNamespace(end, values)),
  'from-namespace': (values) => (flow) => ofNamespace(flow.source, values),
  'to-namespace': (values) => (flow) => ofNamespace(flow.destination, values),
  pod: (values, name) => either(podTest(values, name)),
  'from-pod': (values, name) => from(podTest(values, name)),
  'to-pod': (values, name) => to(podTest(values, name)),
  ip: (values, name) => either(ipTest(values, name)),
  'from-ip': (values, name) => from(ipTest(values, name)),
  'to-ip': (values, name) => to(ipTest(values, name)),
  port: (values, name) => either(portTest(values, name)),
  'from-port': (values, name) => from(portTest(values, name)),
  'to-port': (values, name) => to(portTest(values, name)),
  service: (values, name) => serviceTest(values, name),
  verdict: (values, name) => {
    const wanted = values.map((value) => choice<FlowVerdict>(value, flowVerdicts, name));
    return ({ verdict }) => wanted.includes(verdict);
  },
  event: (values, name) => {
    const wanted = values.map((value) => choice<FlowEvent>(value, flowEvents, name));
    return ({ event }) => wanted.includes(event);
  },
  protocol: (values, name) => {
    const wanted = values.map((value) => protocolNumber(value, name));
    return ({ protocol }) => wanted.includes(protocol);
  },
};

/** Names of all filters. */
export const flowFilterNames: readonly string[] = Object.keys(filters);

/**
 * Returns the condition that a query sets: every filter has to match, and of a list one value. Gaps always match. Pure.
 *
 * @param query keys of `flowFilterNames`, each with values separated by commas; others are ignored
 * @throws SeineError `INVALID_INPUT` naming the filter and the value
 */
export function flowFilter(query: URLSearchParams): FlowTest {
  const tests = flowFilterNames.flatMap((name) => {
    const texts = query.getAll(name);
    if (texts.length === 0) return [];
    const values = texts.flatMap((text) => text.split(','));
    for (const value of values)
      if (value === '' || value.length > lengthMax) throw invalid(name, value, `must have 1 to ${lengthMax} characters`);
    if (values.length > valuesMax) throw new SeineError('INVALID_INPUT', `${name}: at most ${valuesMax} values`);
    return [filters[name]?.(values, name) ?? (() => true)];
  });
  return (flow) => flow.event === 'gap' || tests.every((test) => test(flow));
}

function invalid(name: string, value: string, why: string): SeineError {
  return new SeineError('INVALID_INPUT', `${name}: ${JSON.stringify(value.slice(0, lengthMax))} ${why}`);
}

type EndTest = (end: RecordedEnd) => boolean;

function either(test: EndTest): FlowTest {
  return ({ source, destination }) => test(source) || test(destination);
}

function from(test: EndTest): FlowTest {
  return ({ source }) => test(source);
}

function to(test: EndTest): FlowTest {
  return ({ destination }) => test(destination);
}

function ofNamespace({ kind, name }: RecordedEnd, namespaces: readonly string[]): boolean {
  return kind === 'pod' && namespaces.some((namespace) => name?.startsWith(`${namespace}/`) === true);
}

/** Pods by the beginning of their name, as in Hubble: `shop/web` also matches `shop/web-1`. */
function podTest(values: readonly string[], name: string): EndTest {
  const prefixes = values.map((value) => withNamespace(value, name));
  return ({ kind, name: pod }) => kind === 'pod' && prefixes.some((prefix) => pod?.startsWith(prefix) === true);
}

function serviceTest(values: readonly string[], name: string): FlowTest {
  const services = values.map((value) => withNamespace(value, name));
  return ({ service }) => service?.name !== undefined && services.includes(service.name);
}

function withNamespace(value: string, name: string): string {
  const full = value.includes('/') ? value : `default/${value}`;
  if (!/^[a-z0-9][-a-z0-9]*\/[-a-z0-9.]*$/.test(full)) throw invalid(name, value, 'is not NAME or NAMESPACE/NAME');
  return full;
}

function ipTest(values: readonly string[], name: string): EndTest {
  const texts = values.map((value) => {
    const text = canonicalIp(value);
    if (text === undefined) throw invalid(name, value, 'is not an IP address');
    return text;
  });
  return ({ ip }) => texts.includes(ip.text);
}

function portTest(values: readonly string[], name: string): EndTest {
  const ports = values.map((value) => {
    if (!/^\d{1,5}$/.test(value) || Number(value) > 65_535) throw invalid(name, value, 'is not a port (0 to 65535)');
    return Number(value);
  });
  return ({ port }) => port !== undefined && ports.includes(port);
}

function choice<C extends string>(value: string, choices: readonly C[], name: string): C {
  const found = choices.find((each) => each === value.toLowerCase());
  if (found === undefined) throw invalid(name, value, `is not one of ${choices.join(', ')}`);
  return found;
}

function protocolNumber(value: string, name: string): number {
  const found = Object.entries(protocolNames).find(([, each]) => each.toLowerCase() === value.toLowerCase());
  if (found) return Number(found[0]);
  if (!/^\d{1,3}$/.test(value) || Number(value) > 255) throw invalid(name, value, 'is not a protocol, e.g. tcp, udp, icmp or 47');
  return Number(value);
}
