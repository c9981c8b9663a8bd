import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { createAll, podsReady } from '../../lab/demo/workload.ts';
import { labPaths } from '../../lab/plan/names.ts';
import { askStatus } from '../../lab/up.ts';
import { SeineError } from '../../src/base/errors/seine-error.ts';
import { type Family, parseIp } from '../../src/base/net/ip.ts';
import type { ReachChange } from '../../src/policy/reach/difference.ts';
import { run } from '../../src/seinectl/program.ts';
import type { ServedChange } from '../../src/simulate/what-if/service-cells.ts';
import { ConvergeLab } from './converge-lab.ts';
import { type Cell, keyOfCell, type Reached, settledCells } from './observed-cells.ts';
import { openPort, podCounts, podKeys, type Step, sceneManifests, servicePorts } from './proposal-scene.ts';
import { recordingTerminal } from './recording-terminal.ts';
import { slowness } from './test-datapath.ts';

const signal = () => AbortSignal.timeout(60_000 * slowness);
const families: readonly Family[] = ['ipv4', 'ipv6'];

/** A part of the output of `seinectl whatif -o json`. */
interface Prediction {
  readonly connections: readonly ReachChange[];
  readonly services: readonly ServedChange[];
  readonly units: readonly { readonly name: string; readonly members: readonly string[] }[];
}

/** A proposal against the objects that exist now. */
interface Written {
  readonly documents: readonly KubeDocument[];
  /** `networkpolicy/red/one`. */
  readonly removed: readonly string[];
}

interface KubeDocument {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly namespace?: string; readonly labels?: Readonly<Record<string, string | null>> };
  readonly spec?: object;
}

/** Outcome of one applied proposal. */
export interface AppliedProposal {
  /** Cells whose observed change is not the predicted one, with both. */
  readonly wrong: readonly string[];
  readonly cells: number;
  readonly changed: number;
}

const collections: Readonly<Record<string, string>> = {
  networkpolicy: '/apis/networking.k8s.io/v1/namespaces/{ns}/networkpolicies',
  clusternetworkpolicy: '/apis/policy.networking.k8s.io/v1beta1/clusternetworkpolicies',
  service: '/api/v1/namespaces/{ns}/services',
  pod: '/api/v1/namespaces/{ns}/pods',
  namespace: '/api/v1/namespaces',
};
const versions: Readonly<Record<string, string>> = {
  NetworkPolicy: 'networking.k8s.io/v1',
  ClusterNetworkPolicy: 'policy.networking.k8s.io/v1beta1',
};

/** A lab in which proposals are predicted, applied, and compared with the packets before and after. */
export class ProposalLab {
  readonly #lab: ConvergeLab;
  /** Objects that proposals made, `networkpolicy/red/one`. */
  readonly #made = new Set<string>();
  readonly #labels = new Map<string, Readonly<Record<string, string>>>();
  readonly #nodes = new Map<string, string>();
  #fixed: readonly Cell[] = [];
  #seen: ReadonlyMap<string, Reached> = new Map();

  private constructor(lab: ConvergeLab) {
    this.#lab = lab;
  }

  static async start(): Promise<ProposalLab> {
    const lab = await ConvergeLab.start(2, undefined, { clusterPolicies: true });
    const proposals = new ProposalLab(lab);
    try {
      await createAll(lab.api, sceneManifests(lab.plan), signal());
      for (const [namespace, { length }] of podCounts) await podsReady(lab.api, length, signal(), namespace);
      await proposals.#begin();
      return proposals;
    } catch (thrown) {
      await lab.remove();
      throw thrown;
    }
  }

  async remove(): Promise<void> {
    await this.#lab.remove();
  }

  /** Nothing is denied at the beginning. */
  async #begin(): Promise<void> {
    const { pods } = await askStatus(this.#lab.plan.dir);
    const known = pods.filter(({ namespace, name }) => podKeys.includes(`${namespace}/${name}`));
    const ends = [
      ...known.map(({ namespace, name, ips }) => ({ to: `${namespace}/${name}`, ips })),
      ...this.#lab.plan.nodes.map(({ name, ips }) => ({ to: `node ${name}`, ips })),
      ...this.#lab.plan.external.outside.map((ip) => ({ to: `outside ${parseIp(ip).text}`, ips: [ip] })),
    ];
    this.#fixed = known.flatMap(({ namespace, name, netns: place, node }) =>
      ends.flatMap(({ to, ips }) => {
        const from = `${namespace}/${name}`;
        const aims = from === to ? [] : ips.map((address) => ({ from, to, node, family: parseIp(address).family, place, address }));
        return aims.flatMap((aim): readonly Cell[] => [
          { ...aim, protocol: 'TCP', port: openPort },
          { ...aim, protocol: 'TCP', port: 8080 },
          ...(to.includes('/') ? [{ ...aim, protocol: 'UDP' as const, port: openPort }] : []),
        ]);
      }),
    );
    for (const { namespace, name, node } of known) this.#nodes.set(`${namespace}/${name}`, node);
    for (const pod of (await this.#read('/api/v1/pods')).items) this.#labels.set(keyOf(pod), pod.metadata.labels ?? {});
    for (const each of (await this.#read('/api/v1/namespaces')).items) this.#labels.set(each.metadata.name, each.metadata.labels ?? {});
    const seen = await settledCells(this.#fixed, () => ['all']);
    const unreached = [...seen].filter(([, reached]) => reached !== 'all');
    if (unreached.length > 0) throw new Error(`not reached before any policy: ${unreached.map(([key]) => key).join(', ')}`);
    this.#seen = seen;
  }

  async #read(path: string): Promise<{ readonly items: readonly ReadObject[] }> {
    return (await this.#lab.api.send({ method: 'GET', path }, signal())) as { readonly items: readonly ReadObject[] };
  }

  /** Predicts a proposal with `seinectl whatif`, applies it, and compares. @param hide documents that the prediction does not get */
  async apply(
    steps: readonly Step[],
    { hide, observations }: { readonly hide?: (document: KubeDocument) => boolean; readonly observations?: number } = {},
  ): Promise<AppliedProposal> {
    const written = this.#write(steps);
    const documents = written.documents.filter((each) => hide?.(each) !== true);
    const prediction =
      documents.length + written.removed.length === 0
        ? { connections: [], services: [], units: [] }
        : await this.#predict({ ...written, documents });
    const servicesBefore = await this.#services();
    await this.#store(written);
    const services = await this.#services();
    const cells = [...this.#fixed, ...this.#serviceCells(services)];
    // A client's connections to itself are not compared by the prediction.
    const own = ({ from, to }: Cell): boolean => [servicesBefore, services].some((of) => of.get(to)?.endpoints.has(from) === true);
    const compared = cells.filter((cell) => !own(cell));
    const changeOf = (cell: Cell) => predictedChange(prediction, cell);
    const before = (cell: Cell): Reached => this.#seen.get(keyOfCell(cell)) ?? 'none';
    const reachedLater = (cell: Cell): readonly Reached[] => reachedAfter(cell, before(cell), changeOf(cell));
    const later = new Map(this.#fixed.map((cell) => [keyOfCell(cell), reachedLater(cell)[0]]));
    const expected = (cell: Cell): readonly Reached[] => {
      const service = services.get(cell.to);
      if (!service || service.text !== servicesBefore.get(cell.to)?.text) return reachedLater(cell);
      // The prediction names what policies change at the endpoints of a Service that does not change itself.
      const atEndpoint = (to: string) => later.get(keyOfCell({ ...cell, to, port: openPort }));
      const endpoints = [...service.endpoints].filter((to) => !service.isLocal || this.#nodes.get(to) === cell.node);
      return cell.port === service.port ? [shareOf(endpoints.map(atEndpoint))] : ['none'];
    };
    const seen = await settledCells(compared, expected, observations === undefined ? {} : { withinMs: 0, least: observations });
    const wrong = compared.filter((cell) => !expected(cell).includes(seen.get(keyOfCell(cell)) ?? 'none'));
    const lines = wrong.map((cell) => {
      const after = seen.get(keyOfCell(cell)) ?? 'none';
      return `${keyOfCell(cell)}: predicted ${changeOf(cell)}, reached ${before(cell)} before and ${after} after`;
    });
    const changed = compared.filter((cell) => before(cell) !== seen.get(keyOfCell(cell))).length;
    // Cells that were not compared this time, or are not as expected, begin with what they are now.
    const unsettled = wrong.length > 0 ? cells : cells.filter(own);
    const rest = await settledCells(unsettled, () => ['none', 'some', 'all']);
    this.#seen = new Map([...seen, ...rest]);
    return { wrong: lines, cells: compared.length, changed };
  }

  #write(steps: readonly Step[]): Written {
    const removed = steps.flatMap((step) => {
      const made = [...this.#made].sort();
      const chosen = 'remove' in step ? made[step.remove % Math.max(1, made.length)] : undefined;
      return chosen === undefined ? [] : [chosen];
    });
    return { removed: [...new Set(removed)], documents: steps.flatMap((step) => this.#document(step) ?? []) };
  }

  #document(step: Step): KubeDocument | undefined {
    if ('remove' in step) return undefined;
    const names = step.key.split('/');
    const metadata = names.length === 2 ? { namespace: names[0] ?? '', name: names[1] ?? '' } : { name: step.key };
    if ('put' in step) return { apiVersion: versions[step.put] ?? 'v1', kind: step.put, metadata, spec: step.spec };
    const gone = Object.fromEntries(Object.keys(this.#labels.get(step.key) ?? {}).map((key) => [key, null]));
    const kept = step.relabel === 'Namespace' ? { 'kubernetes.io/metadata.name': step.key } : {};
    return { apiVersion: 'v1', kind: step.relabel, metadata: { ...metadata, labels: { ...gone, ...step.labels, ...kept } } };
  }

  async #predict({ documents, removed }: Written): Promise<Prediction> {
    const file = join(this.#lab.plan.dir, 'proposal.json');
    writeFileSync(file, JSON.stringify({ apiVersion: 'v1', kind: 'List', items: documents }));
    const { terminal, out, err } = recordingTerminal();
    const args = [...(documents.length > 0 ? ['-f', file] : []), ...removed.flatMap((each) => ['--delete', each])];
    const kubeconfig = ['--kubeconfig', labPaths(this.#lab.plan.dir).kubeconfig];
    const code = await run(['whatif', ...args, ...kubeconfig, '--no-used', '-o', 'json'], terminal, Readable.from([]));
    if (code > 1) throw new Error(`seinectl whatif ended with ${code}: ${err.join('\n')}; ${JSON.stringify({ documents, removed })}`);
    return JSON.parse(out.join('\n')) as Prediction;
  }

  async #store({ documents, removed }: Written): Promise<void> {
    for (const key of removed) {
      const [kind = '', ...names] = key.split('/');
      await this.#lab.api.send({ method: 'DELETE', path: pathOf(kind, names) }, signal());
      this.#made.delete(key);
    }
    for (const body of documents) {
      const kind = body.kind.toLowerCase();
      const { namespace, name } = body.metadata;
      const names = namespace === undefined ? [name] : [namespace, name];
      const path = pathOf(kind, names);
      if (kind === 'pod' || kind === 'namespace') {
        const contentType = 'application/merge-patch+json';
        const patch = { metadata: { labels: body.metadata.labels } };
        const stored = await this.#lab.api.send({ method: 'PATCH', path, body: patch, contentType }, signal());
        this.#labels.set(names.join('/'), (stored as ReadObject).metadata.labels ?? {});
      } else {
        await this.#replace(path, body);
        this.#made.add(`${kind}/${names.join('/')}`);
      }
    }
  }

  async #replace(path: string, body: KubeDocument): Promise<void> {
    const collection = path.replace(/\/[^/]+$/, '');
    try {
      const { metadata } = (await this.#lab.api.send({ method: 'GET', path }, signal())) as ReadObject;
      const own = { ...body.metadata, resourceVersion: metadata.resourceVersion };
      await this.#lab.api.send({ method: 'PUT', path, body: { ...body, metadata: own } }, signal());
    } catch (thrown) {
      if (!(thrown instanceof SeineError) || thrown.context['status'] !== 404) throw thrown;
      await this.#lab.api.send({ method: 'POST', path: collection, body }, signal());
    }
  }

  #serviceCells(services: ReadonlyMap<string, KnownService>): readonly Cell[] {
    const clients = [...new Map(this.#fixed.map((cell) => [cell.from, cell])).values()];
    const names = new Set([...[...this.#seen.keys()].flatMap((key) => /(service \S+)/.exec(key)?.[1] ?? []), ...services.keys()]);
    return [...names].flatMap((to) =>
      clients.flatMap(({ from, node, place }) =>
        families.flatMap((family) => {
          const address = services.get(to)?.addresses.find((each) => parseIp(each).family === family);
          return servicePorts.map((port): Cell => ({ from, to, node, family, protocol: 'TCP', port, place, address }));
        }),
      ),
    );
  }

  /** Services of proposals, by `service NAMESPACE/NAME`. */
  async #services(): Promise<ReadonlyMap<string, KnownService>> {
    const { items } = await this.#read('/api/v1/services');
    const known = items.flatMap(({ metadata: { namespace, name }, spec }): readonly (readonly [string, KnownService])[] => {
      const { selector, ports, clusterIPs: addresses, internalTrafficPolicy } = spec ?? {};
      const port = ports?.[0]?.port;
      if (namespace === 'default' || selector === undefined || port === undefined || addresses === undefined) return [];
      const isEndpoint = (key: string) =>
        key.startsWith(`${namespace}/`) && Object.entries(selector).every(([label, value]) => this.#labels.get(key)?.[label] === value);
      const endpoints = new Set(podKeys.filter(isEndpoint));
      const text = JSON.stringify([ports, addresses, internalTrafficPolicy, [...endpoints]]);
      return [[`service ${namespace}/${name}`, { text, endpoints, port, isLocal: internalTrafficPolicy === 'Local', addresses }]];
    });
    return new Map(known);
  }
}

interface KnownService {
  /** All that decides about clients, apart from policies. */
  readonly text: string;
  readonly endpoints: ReadonlySet<string>;
  readonly port: number;
  readonly isLocal: boolean;
  readonly addresses: readonly string[];
}

function shareOf(reached: readonly (Reached | undefined)[]): Reached {
  if (!reached.includes('all')) return 'none';
  return reached.every((each) => each === 'all') ? 'all' : 'some';
}

interface ReadObject {
  readonly metadata: {
    readonly name: string;
    readonly namespace?: string;
    readonly resourceVersion?: string;
    readonly labels?: Readonly<Record<string, string>>;
  };
  readonly spec?: {
    readonly clusterIPs?: readonly string[];
    readonly selector?: Readonly<Record<string, string>>;
    readonly ports?: readonly { readonly port: number }[];
    readonly internalTrafficPolicy?: string;
  };
}

function keyOf({ metadata: { namespace, name } }: ReadObject): string {
  return `${namespace}/${name}`;
}

function pathOf(kind: string, names: readonly string[]): string {
  const collection = collections[kind] ?? '';
  return names.length === 2 ? `${collection.replace('{ns}', names[0] ?? '')}/${names[1]}` : `${collection}/${names[0]}`;
}

type Change = 'none' | 'opened' | 'closed';

function predictedChange({ connections, services, units }: Prediction, cell: Cell): Change {
  const unitOf = (member: string) => units.find(({ members }) => members.includes(member))?.name;
  const from = unitOf(cell.from);
  if (from === undefined) return 'none';
  const isSameFamily = ({ family }: { readonly family?: Family }): boolean => (family ?? cell.family) === cell.family;
  if (cell.to.startsWith('service ')) {
    const row = services
      .filter(isSameFamily)
      .filter((each) => each.to === cell.to && [`${cell.port}/TCP`, 'all ports'].includes(each.ports))
      .find((each) => each.from === from || each.from === `${from} on ${cell.node}`);
    return row === undefined || row.change === 'other endpoints' ? 'none' : row.change;
  }
  const row = connections
    .filter((each) => each.change !== 'other rule' && isSameFamily(each))
    .filter((each) => each.from === from && each.to === unitOf(cell.to))
    .find(({ ranges }) => ranges.some((range) => range.protocol === cell.protocol && range.first <= cell.port && cell.port <= range.last));
  return row === undefined || row.change === 'other rule' ? 'none' : row.change;
}

/** Values that a cell may have after a predicted change; none if the change is impossible. A Service may lose or gain a share of its endpoints. */
function reachedAfter({ to }: Cell, before: Reached, change: Change): readonly Reached[] {
  if (change === 'none') return [before];
  const isService = to.startsWith('service ');
  if (change === 'opened') return before === 'all' ? [] : isService ? ['some', 'all'] : ['all'];
  return before === 'none' ? [] : isService ? ['none', 'some'] : ['none'];
}
