import { parseIp } from '../../base/net/ip.ts';
import { keyOf } from '../../policy/reach/objects.ts';
import { addressesOf, partyName, type ReachParty } from '../../policy/reach/party.ts';
import type { ForwardedObjects, ServedObject } from '../../policy/verify/forwarding-reference/forwarded-objects.ts';
import { externalEndpoints, meaningOf } from '../../policy/verify/forwarding-reference/forwarding-reference.ts';
import type { ServiceIntent, ServiceVerdict } from '../../services/compile/service-intent.ts';
import type { SimulatedObjects } from '../objects/cluster-objects.ts';
import { type ServiceCell, type SideName, sideNames } from './service-cells.ts';

/** Comparison of what clients of Services get with the reference (`verify/forwarding-reference`), which shares no code with it. */
export class ServiceConfirmation {
  readonly #indexes: Readonly<Record<SideName, NarrowedCluster>>;
  /** Number of verdicts that were compared. */
  compared = 0;
  readonly disagreements: string[] = [];

  constructor({ before, after }: Readonly<Record<SideName, SimulatedObjects>>) {
    this.#indexes = { before: new NarrowedCluster(before), after: new NarrowedCluster(after) };
  }

  /** Confirms both sides of a cell. @param key Service, `namespace/name` */
  confirm(key: string, { client, family, place, answers }: ServiceCell): void {
    for (const side of sideNames) {
      const { intent, endpoints, is } = answers[side];
      if (!intent) continue;
      const address = intent.addresses.find(({ kind }) => kind === 'cluster')?.ip.text;
      const source = addressesOf(client[side]).get(family);
      if (address === undefined || source === undefined) continue;
      const packet = { source, destination: address, protocol: intent.transport.toUpperCase(), port: intent.port, node: place.name };
      const about = `${partyName(client[side])} to service ${key} ${intent.port}/${packet.protocol}, ${family}, ${side}`;
      if (is !== 'served') {
        const { verdict } = meaningOf(this.#indexes[side].objectsFor(key, [client[side]], []), packet);
        this.#compare(about, 'denied', verdict);
      } else
        for (const { endpoint, verdict } of endpoints) {
          if (endpoint.ip.text === source) continue;
          const objects = this.#indexes[side].objectsFor(key, [client[side]], [endpoint.ip.text]);
          const judged = meaningOf(objects, packet, { address: endpoint.ip.text, port: endpoint.port });
          this.#compare(`${about}, ${endpoint.ip.text} port ${endpoint.port}`, verdict === 'allow' ? 'allowed' : 'denied', judged.verdict);
        }
    }
  }

  /** Confirms the endpoints of external clients. */
  confirmExternal(key: string, side: SideName, node: string, intent: ServiceIntent, answer: ServiceVerdict): void {
    const objects = this.#indexes[side].objectsFor(key, [], []);
    const found = externalEndpoints(objects, key, {
      port: intent.port,
      protocol: intent.transport.toUpperCase(),
      family: intent.family,
      node,
    });
    const endpoints = answer.do === 'balance' ? answer.endpoints.map(({ ip, port }) => `${ip.text} ${port}`) : [];
    const known = new Set(found.map(({ address, port }) => `${parseIp(address).text} ${port}`));
    const isEqual = endpoints.every((each) => known.has(each)) && (endpoints.length === 0) === (known.size === 0);
    this.#compare(`external clients of service ${key} ${intent.port}, ${intent.family}, ${side}`, 'equal', isEqual ? 'equal' : 'different');
  }

  #compare(about: string, engine: string, reference: string): void {
    this.compared++;
    if (engine !== reference) this.disagreements.push(`${about}: engine ${engine}, reference ${reference}`);
  }
}

/** Objects that can matter to one connection: the reference scans every object that it is given. */
class NarrowedCluster {
  readonly #objects: SimulatedObjects;
  readonly #services: ReadonlyMap<string, ServedObject>;
  readonly #slices: ReadonlyMap<string, ForwardedObjects['slices']>;
  readonly #podsAt: ReadonlyMap<string, ForwardedObjects['pods']>;
  readonly #policies: ReadonlyMap<string, ForwardedObjects['networkPolicies']>;
  readonly #namespaces: ReadonlyMap<string, ForwardedObjects['namespaces'][number]>;

  constructor(objects: SimulatedObjects) {
    this.#objects = objects;
    this.#services = new Map(objects.services.map((each) => [keyOf(each), each]));
    this.#slices = Map.groupBy(
      objects.slices,
      ({ metadata: { namespace, labels } }) => `${namespace}/${labels?.['kubernetes.io/service-name'] ?? ''}`,
    );
    const byAddress = objects.pods.flatMap((pod) => (pod.status.podIPs ?? []).map(({ ip }) => ({ pod, text: parseIp(ip).text })));
    this.#podsAt = new Map([...Map.groupBy(byAddress, ({ text }) => text)].map(([text, all]) => [text, all.map(({ pod }) => pod)]));
    this.#policies = Map.groupBy(objects.networkPolicies, ({ metadata }) => metadata.namespace);
    this.#namespaces = new Map(objects.namespaces.map((each) => [each.metadata.name, each]));
  }

  objectsFor(key: string, clients: readonly ReachParty[], addresses: readonly string[]): ForwardedObjects {
    const service = this.#services.get(key);
    const pods = [
      ...clients.flatMap((each) => (each.is === 'pod' ? [each.pod] : [])),
      ...addresses.flatMap((address) => this.#podsAt.get(address) ?? []),
    ];
    const names = new Set(pods.map(({ metadata }) => metadata.namespace));
    return {
      ...this.#objects,
      pods: [...new Map(pods.map((pod) => [keyOf(pod), pod])).values()],
      namespaces: [...names].flatMap((name) => this.#namespaces.get(name) ?? []),
      networkPolicies: [...names].flatMap((name) => this.#policies.get(name) ?? []),
      services: service ? [service] : [],
      slices: this.#slices.get(key) ?? [],
    };
  }
}
