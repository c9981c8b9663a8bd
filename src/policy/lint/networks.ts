import { type Cidr, cidrContains, overlaps, parseCidr } from '../../base/net/ip.ts';
import { keyOf, type ServiceObject } from '../reach/objects.ts';
import type { PodObject } from '../verify/reference/objects.ts';
import type { LintFinding } from './findings.ts';
import { type CheckedPolicy, subjectsOf } from './matching.ts';
import { rulesOf } from './rules-of.ts';

/** P07: networks that contain addresses of pods. P14: networks of clients whose address is replaced before the pod sees it. */
export function networkFindings(checked: CheckedPolicy): readonly LintFinding[] {
  const policy = keyOf(checked.policy);
  const podNetworks = checked.objects.nodes.flatMap(({ spec }) => spec.podCIDRs ?? []).map(parseCidr);
  const replaced = servicesWithReplacedSource(checked);
  return rulesOf(checked.policy).flatMap(({ direction, peers }) =>
    peers.flatMap(({ field, peer: { ipBlock } }): readonly LintFinding[] => {
      if (!ipBlock) return [];
      const cidr = parseCidr(ipBlock.cidr);
      if (cidr.prefixLength === 0) return [];
      if (podNetworks.some((network) => overlaps(network, cidr) && !isExcepted(network, ipBlock.except ?? []))) {
        const message = `${cidr.text} contains addresses of pods. Pods get other addresses when they are created again. Use podSelector and namespaceSelector for pods.`;
        return [{ code: 'P07', level: 'warning', policy, field: `${field}.ipBlock.cidr`, message }];
      }
      const [service] = replaced;
      if (direction !== 'ingress' || !service) return [];
      const message =
        `Clients that reach the pods through Service ${keyOf(service)} from outside may arrive with the address of a node, because its externalTrafficPolicy is Cluster. ` +
        'Set externalTrafficPolicy: Local to let pods see the address of the client.';
      return [{ code: 'P14', level: 'warning', policy, field: `${field}.ipBlock.cidr`, message }];
    }),
  );
}

function isExcepted(network: Cidr, except: readonly string[]): boolean {
  return except.map(parseCidr).some((each) => each.prefixLength <= network.prefixLength && cidrContains(each, network.network));
}

/** Returns the Services that external clients reach with a node's address, and whose endpoints the policy selects. */
function servicesWithReplacedSource(checked: CheckedPolicy): readonly ServiceObject[] {
  const subjects = subjectsOf(checked);
  return checked.objects.services.filter(
    ({ metadata, spec }) =>
      metadata.namespace === checked.policy.metadata.namespace &&
      (spec.type === 'NodePort' || spec.type === 'LoadBalancer') &&
      spec.externalTrafficPolicy !== 'Local' &&
      subjects.some((pod) => isEndpoint(pod, spec.selector)),
  );
}

function isEndpoint({ metadata }: PodObject, selector: ServiceObject['spec']['selector']): boolean {
  const entries = Object.entries(selector ?? {});
  return entries.length > 0 && entries.every(([key, value]) => metadata.labels?.[key] === value);
}
