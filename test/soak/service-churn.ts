import type { KubeApi, UnstructuredObject } from '../../lab/kube/kube-api.ts';
import { inNetns } from '../../lab/machine/netns.ts';
import { runAnyway } from '../../lab/machine/process.ts';
import { SeineError } from '../../src/base/errors/seine-error.ts';
import type { LiveContainer } from '../support/crash-runtime.ts';

const servicesMost = 24;
const endpointsMost = 12;
const namespace = 'default';
const label = { soak: 'services' };
const port = 53;
const answerMs = 15_000;
const services = `/api/v1/namespaces/${namespace}/services`;
const slices = `/apis/discovery.k8s.io/v1/namespaces/${namespace}/endpointslices`;

/**
 * Services of both families that are created, get other endpoints, and are deleted, and containers that send UDP to them, so that OVS
 * tracks connections and remembers clients. Changes are dropped while the API server is away.
 */
export class ServiceChurn {
  readonly counts = { created: 0, changed: 0, deleted: 0, asked: 0, refused: 0 };
  readonly #api: KubeApi;
  readonly #random: () => number;
  readonly #names = new Set<string>();
  #last = 0;

  constructor(api: KubeApi, random: () => number) {
    this.#api = api;
    this.#random = random;
  }

  /** One change, with endpoints among the live containers. */
  async change(live: readonly LiveContainer[]): Promise<void> {
    const draw = this.#random();
    const name = this.#drawn([...this.#names]);
    if (name === undefined || (draw < 0.3 && this.#names.size < servicesMost)) await this.#create(live);
    else if (draw < 0.8) await this.#lead(name, live);
    else await this.#delete(name);
  }

  /** Sends a datagram of a container to a Service, in either family. There is no answer. */
  async ask({ netns }: LiveContainer): Promise<void> {
    const name = this.#drawn([...this.#names]);
    if (name === undefined) return;
    const service = (await this.#try('GET', `${services}/${name}`)) as
      | { readonly spec: { readonly clusterIPs: readonly string[] } }
      | undefined;
    const address = this.#drawn(service?.spec.clusterIPs ?? []);
    if (address === undefined) return;
    const inside = inNetns(netns, 'bash', ['-c', `echo > /dev/udp/${address}/${port}`]);
    try {
      // The container may be deleted by now.
      await runAnyway(inside.command, inside.args, {}, AbortSignal.timeout(answerMs));
      this.counts.asked++;
    } catch (thrown) {
      // Too slow even for that: dropped, like changes without an API server.
      if (!(thrown instanceof SeineError) || thrown.code !== 'CANCELLED') throw thrown;
      this.counts.refused++;
    }
  }

  /** Deletes them all. @throws SeineError if the API server fails */
  async close(): Promise<void> {
    for (const collection of [services, slices]) {
      const list = (await this.#send('GET', `${collection}?labelSelector=soak`)) as { readonly items: readonly UnstructuredObject[] };
      for (const { metadata } of list.items) await this.#send('DELETE', `${collection}/${metadata.name}`);
    }
    this.#names.clear();
  }

  async #create(live: readonly LiveContainer[]): Promise<void> {
    const name = `soak-${++this.#last}`;
    const affinity = this.#random() < 0.3 ? { sessionAffinity: 'ClientIP' } : {};
    const spec = { ipFamilyPolicy: 'PreferDualStack', ports: [{ name: 'dns', protocol: 'UDP', port }], ...affinity };
    const created = await this.#try('POST', services, {
      apiVersion: 'v1',
      kind: 'Service',
      metadata: { name, namespace, labels: label },
      spec,
    });
    if (created === undefined) return;
    this.#names.add(name);
    this.counts.created++;
    for (const family of families) await this.#try('POST', slices, this.#slice(name, family, live));
  }

  async #lead(name: string, live: readonly LiveContainer[]): Promise<void> {
    for (const family of families) {
      const { endpoints } = this.#slice(name, family, live);
      await this.#try('PATCH', `${slices}/${name}-${family.toLowerCase()}`, { endpoints });
    }
    this.counts.changed++;
  }

  async #delete(name: string): Promise<void> {
    if ((await this.#try('DELETE', `${services}/${name}`)) === undefined) return;
    this.#names.delete(name);
    this.counts.deleted++;
    for (const family of families) await this.#try('DELETE', `${slices}/${name}-${family.toLowerCase()}`);
  }

  #slice(name: string, addressType: Family, live: readonly LiveContainer[]) {
    const isOf = (ip: string) => ip.includes(':') === (addressType === 'IPv6');
    const addresses = live.flatMap(({ ips }) => ips.filter(isOf)).filter(() => this.#random() < 0.5);
    return {
      apiVersion: 'discovery.k8s.io/v1',
      kind: 'EndpointSlice',
      metadata: { name: `${name}-${addressType.toLowerCase()}`, namespace, labels: { ...label, 'kubernetes.io/service-name': name } },
      addressType,
      ports: [{ name: 'dns', protocol: 'UDP', port }],
      endpoints: addresses.slice(0, endpointsMost).map((ip) => ({ addresses: [ip], conditions: { ready: this.#random() < 0.9 } })),
    };
  }

  #drawn<T>(of: readonly T[]): T | undefined {
    return of[Math.floor(this.#random() * of.length)];
  }

  /**
   * @returns undefined if the API server is away, or rejects the change: another stream has deleted the object, or it was created before its
   * answer was lost
   */
  async #try(method: Method, path: string, body?: unknown): Promise<unknown> {
    try {
      return (await this.#send(method, path, body)) ?? {};
    } catch (thrown) {
      if (!(thrown instanceof SeineError)) throw thrown;
      this.counts.refused++;
      return undefined;
    }
  }

  async #send(method: Method, path: string, body?: unknown): Promise<unknown> {
    const contentType = method === 'PATCH' ? { contentType: 'application/merge-patch+json' } : {};
    return await this.#api.send({ method, path, ...(body === undefined ? {} : { body }), ...contentType }, AbortSignal.timeout(answerMs));
  }
}

const families = ['IPv4', 'IPv6'] as const;
type Family = (typeof families)[number];
type Method = 'GET' | 'POST' | 'PATCH' | 'DELETE';
