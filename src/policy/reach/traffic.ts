import * as z from 'zod';
import { SeineError } from '../../base/errors/seine-error.ts';
import { ipFromValue, isIp, parseIp } from '../../base/net/ip.ts';
import { parseObject } from '../../kubernetes/client/resource.ts';
import type { NamespaceObject, PodObject } from '../verify/reference/objects.ts';
import type { ReachCase } from './cases.ts';
import type { ReachObjects } from './objects.ts';
import { type EndSelection, parseSelection } from './select.ts';

/** Pods for ends that are described by labels: twice this number at most. */
const ENTRIES_MAX = 10_000;

const labels = z.record(z.string(), z.string()).nullish();
const end = z
  .looseObject({
    Internal: z
      .looseObject({ Workload: z.string().nullish(), PodLabels: labels, NamespaceLabels: labels, Namespace: z.string().nullish() })
      .nullish(),
    IP: z.string().nullish(),
  })
  .transform(({ Internal, IP }) => ({ internal: Internal ?? undefined, address: IP || undefined }));
const entry = z.looseObject({
  Source: end,
  Destination: end,
  Protocol: z.enum(['TCP', 'UDP', 'SCTP']).default('TCP'),
  ResolvedPort: z.int().min(0).max(65_535),
  ResolvedPortName: z.string().nullish(),
});
const schema = z.array(entry).max(ENTRIES_MAX);

type TrafficEntry = z.output<typeof entry>;

/** Case of a list of traffic, with its text. */
interface TrafficCase {
  readonly text: string;
  readonly evaluated: ReachCase;
}

interface TrafficScene {
  /** The objects, and pods for the ends that are described by labels. */
  readonly objects: ReachObjects;
  readonly cases: readonly TrafficCase[];
}

/**
 * Reads a list of traffic as `policy-assistant` has it: ends are workloads (`shop/deployment/api`), labels of a pod that need not exist, or
 * external addresses.
 *
 * @throws SeineError `INVALID_INPUT` that names the entry and the field
 */
export function withTraffic(raw: unknown, objects: ReachObjects): TrafficScene {
  const maker = new TrafficPods(objects);
  const cases = parseObject(schema, raw).map((each, at): TrafficCase => {
    const [from, to] = [maker.selectionOf(each, 'Source', at), maker.selectionOf(each, 'Destination', at)];
    const { Protocol: protocol, ResolvedPort: port } = each;
    return {
      text: `${from.text} to ${to.text}, ${protocol} ${port}`,
      evaluated: { from: from.selection, to: to.selection, port: { of: 'range', protocol, first: port, last: port }, expect: 'some' },
    };
  });
  return { objects: maker.objects(), cases };
}

interface NamedSelection {
  readonly selection: EndSelection;
  readonly text: string;
}

/** The last addresses of the networks for made-up pods, whose first ones pods of manifests get. */
const lastAddresses = [parseIp('198.19.255.254'), parseIp('2001:2::ffff:ffff:ffff:ffff')];

class TrafficPods {
  readonly #objects: ReachObjects;
  readonly #namespaces: Map<string, NamespaceObject>;
  readonly #pods = new Map<string, PodObject>();

  constructor(objects: ReachObjects) {
    this.#objects = objects;
    this.#namespaces = new Map(objects.namespaces.map((each) => [each.metadata.name, each]));
  }

  objects(): ReachObjects {
    return { ...this.#objects, namespaces: [...this.#namespaces.values()], pods: [...this.#objects.pods, ...this.#pods.values()] };
  }

  selectionOf(each: TrafficEntry, side: 'Source' | 'Destination', at: number): NamedSelection {
    const { internal, address } = each[side];
    const place = `[${at}].${side}`;
    if (!internal) return outside(address, place);
    const { Workload: workload } = internal;
    if (workload) {
      const [namespace, kind, name, ...more] = workload.split('/');
      if (!namespace || !kind || !name || more.length > 0)
        throw new SeineError('INVALID_INPUT', `${place}.Internal.Workload: ${JSON.stringify(workload)} is not NAMESPACE/KIND/NAME`);
      return { selection: parseSelection(`${namespace}/${name}`), text: `${namespace}/${name}` };
    }
    const pod = this.#podOf(each, internal);
    const { namespace, name } = pod.metadata;
    return { selection: { of: 'pods', pods: { namespace, pod: name } }, text: `${namespace}/${JSON.stringify(pod.metadata.labels)}` };
  }

  /** Returns the pod of these labels, which has the named port; labels of a known namespace are those of the objects. */
  #podOf(
    { ResolvedPortName: portName, ResolvedPort: containerPort, Protocol: protocol }: TrafficEntry,
    internal: NonNullable<TrafficEntry['Source']['internal']>,
  ): PodObject {
    const namespace = internal.Namespace || 'default';
    const podLabels = internal.PodLabels ?? {};
    const ports = portName ? [{ name: portName, containerPort, protocol }] : [];
    const key = JSON.stringify([namespace, Object.entries(podLabels).sort(), ports]);
    const known = this.#pods.get(key);
    if (known) return known;
    if (!this.#namespaces.has(namespace)) {
      const own = { ...internal.NamespaceLabels, 'kubernetes.io/metadata.name': namespace };
      this.#namespaces.set(namespace, { metadata: { name: namespace, labels: own } });
    }
    const number = BigInt(this.#pods.size);
    const pod: PodObject = {
      metadata: { namespace, name: `traffic.${this.#pods.size}`, labels: podLabels },
      spec: { containers: [{ ports }] },
      status: { phase: 'Running', podIPs: lastAddresses.map(({ family, value }) => ({ ip: ipFromValue(family, value - number).text })) },
    };
    this.#pods.set(key, pod);
    return pod;
  }
}

function outside(address: string | undefined, place: string): NamedSelection {
  if (address === undefined || !isIp(address)) throw new SeineError('INVALID_INPUT', `${place}: neither Internal nor an address in IP`);
  return { selection: parseSelection(`outside:${address}`), text: `outside ${address}` };
}
