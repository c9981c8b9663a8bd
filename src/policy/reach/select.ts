import * as z from 'zod';
import { SeineError } from '../../base/errors/seine-error.ts';
import { type Cidr, cidrContains, isIp, parseCidr, parseIp } from '../../base/net/ip.ts';
import { probedAddresses } from '../verify/proof/probes.ts';
import type { PodObject } from '../verify/reference/objects.ts';
import { whoHas } from '../verify/reference/parties.ts';
import { isPoliced, keyOf, type ReachObjects, type ServiceObject } from './objects.ts';
import type { ReachParty } from './party.ts';
import { workloadName } from './workload-name.ts';

const labels = z.record(z.string(), z.string());
const nameOrLabels = z.string().min(1).or(labels);

const podSelection = z.strictObject({
  namespace: nameOrLabels.optional(),
  namespaceNot: nameOrLabels.optional(),
  pod: nameOrLabels.optional(),
  podNot: nameOrLabels.optional(),
});

/** Pods by names (`*` stands for any characters) or labels. Absent members select all. */
type PodSelection = z.output<typeof podSelection>;

/** EndSelection of ends of connections. */
export type EndSelection =
  | { readonly of: 'pods'; readonly pods: PodSelection }
  | { readonly of: 'service'; readonly namespace: string; readonly name: string }
  | { readonly of: 'nodes'; readonly name: string }
  /** External hosts; absent: one of each family that no rule names. */
  | { readonly of: 'outside'; readonly network?: Cidr };

/** `shop/api-*`, `service:shop/db`, `node:n1`, `outside`, `outside:192.0.2.0/24`, or an object with selectors. */
export const selectionSchema = z.union([z.string(), podSelection]).transform((value, context): EndSelection => {
  try {
    return typeof value === 'string' ? parseSelection(value) : { of: 'pods', pods: value };
  } catch (thrown) {
    context.issues.push({ code: 'custom', message: SeineError.from(thrown, 'parse').rawMessage, input: value });
    return z.NEVER;
  }
});

const forms = 'NAMESPACE/POD, service:NAMESPACE/NAME, node:NAME, outside or outside:ADDRESS';

/** @throws SeineError `INVALID_INPUT` with the accepted forms */
export function parseSelection(text: string): EndSelection {
  const [, kind = 'pods', rest = ''] = /^(?:(service|node|outside|name):)?(.*)$/s.exec(text) ?? [];
  if (text === 'outside') return { of: 'outside' };
  if (kind === 'name') throw new SeineError('INVALID_INPUT', `${JSON.stringify(text)}: rules with domain names are not supported`);
  if (kind === 'outside') return { of: 'outside', network: networkOf(rest) };
  if (kind === 'node' && rest !== '') return { of: 'nodes', name: rest };
  const [namespace = '', name = '', ...more] = rest.split('/');
  if (namespace === '' || name === '' || more.length > 0)
    throw new SeineError('INVALID_INPUT', `${JSON.stringify(text)} is not one of ${forms}`);
  return kind === 'service' ? { of: 'service', namespace, name } : { of: 'pods', pods: { namespace, pod: name } };
}

function networkOf(text: string): Cidr {
  return isIp(text) ? parseCidr(`${text}/${text.includes(':') ? 128 : 32}`) : parseCidr(text);
}

/** Addresses of external hosts that no rule names: documentation addresses (RFC 5737, RFC 3849). */
const externalHosts = ['198.51.100.77', '2001:db8:ffff::77'];

/**
 * Finds the parties of a selection. A network stands for each of its addresses at which a policy's effect can change.
 *
 * @throws SeineError `INVALID_INPUT` for a Service that does not exist or has no selector
 */
export function partiesOf(objects: ReachObjects, selection: EndSelection): readonly ReachParty[] {
  if (selection.of === 'pods') return policedPods(objects, selection.pods).map((pod): ReachParty => ({ is: 'pod', pod }));
  if (selection.of === 'service') return endpointsOf(objects, serviceOf(objects, selection)).map((pod): ReachParty => ({ is: 'pod', pod }));
  if (selection.of === 'nodes') {
    const isNamed = globMatcher(selection.name);
    return objects.nodes.filter(({ metadata }) => isNamed(metadata.name)).map((node): ReachParty => ({ is: 'node', node }));
  }
  return outsideAddresses(objects, selection.network).map((address): ReachParty => ({ is: 'outside', address }));
}

function outsideAddresses(objects: ReachObjects, network: Cidr | undefined): readonly string[] {
  if (!network) return externalHosts;
  const inside = [network.network.text, ...probedAddresses(objects)].filter((address) => cidrContains(network, parseIp(address)));
  return [...new Set(inside)].filter((address) => whoHas(objects, address).is === 'external');
}

export function serviceOf({ services }: ReachObjects, { namespace, name }: { readonly namespace: string; readonly name: string }) {
  const found = services.find(({ metadata }) => metadata.namespace === namespace && metadata.name === name);
  if (!found) throw new SeineError('INVALID_INPUT', `there is no Service ${namespace}/${name}`);
  return found;
}

/** Returns the pods that a Service selects. @throws SeineError `INVALID_INPUT` if it has no selector */
function endpointsOf(objects: ReachObjects, service: ServiceObject): readonly PodObject[] {
  const { selector } = service.spec;
  if (!selector) throw new SeineError('INVALID_INPUT', `Service ${keyOf(service)} has no selector: its endpoints are not known`);
  return policedPods(objects, { namespace: service.metadata.namespace, pod: selector });
}

function policedPods({ pods, namespaces }: ReachObjects, selection: PodSelection): readonly PodObject[] {
  const namespaceLabels = new Map(namespaces.map(({ metadata }) => [metadata.name, metadata.labels ?? {}]));
  const isNamespace = matcher(selection.namespace, selection.namespaceNot);
  const isPod = matcher(selection.pod, selection.podNot);
  return pods.filter((pod) => {
    const { namespace, name, labels: own = {} } = pod.metadata;
    if (!isPoliced(pod) || !isNamespace([namespace], namespaceLabels.get(namespace) ?? {})) return false;
    return isPod([name, workloadName(pod)], own);
  });
}

type NameOrLabels = z.output<typeof nameOrLabels> | undefined;
type Matcher = (names: readonly string[], labels: Readonly<Record<string, string>>) => boolean;

function matcher(wanted: NameOrLabels, unwanted: NameOrLabels): Matcher {
  const [is, isNot] = [wanted, unwanted].map(oneMatcher);
  return (names, own) => (is?.(names, own) ?? true) && !(isNot?.(names, own) ?? false);
}

function oneMatcher(value: NameOrLabels): Matcher | undefined {
  if (value === undefined) return undefined;
  if (typeof value !== 'string')
    return (_, own) => Object.entries(value).every(([key, label]) => Object.hasOwn(own, key) && own[key] === label);
  const isNamed = globMatcher(value);
  return (names) => names.some(isNamed);
}

/** Returns a matcher of names. `*` stands for any characters. */
function globMatcher(glob: string): (name: string) => boolean {
  const parts = glob.split('*');
  if (parts.length === 1) return (name) => name === glob;
  const [first = '', last = ''] = [parts[0], parts.at(-1)];
  return (name) => {
    if (!name.startsWith(first) || name.length < first.length + last.length || !name.endsWith(last)) return false;
    let at = first.length;
    for (const part of parts.slice(1, -1)) {
      const found = name.indexOf(part, at);
      if (found < 0 || found + part.length > name.length - last.length) return false;
      at = found + part.length;
    }
    return true;
  };
}
