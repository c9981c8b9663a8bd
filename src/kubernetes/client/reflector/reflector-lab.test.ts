import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import fc from 'fast-check';
import { expect, it, vi } from 'vitest';
import { openClusterObjects } from '../../../../lab/apiserver/cluster-objects.ts';
import type { ApiObject } from '../../../../lab/apiserver/object/api-object.ts';
import { WatchCache, type WatchIncident } from '../../../../lab/apiserver/read/read-behaviour.ts';
import type { ResourcePorts } from '../../../../lab/apiserver/resource-handler.ts';
import { Store } from '../../../../lab/apiserver/store/store.ts';
import { labStream } from '../../../../test/support/lab-stream.ts';
import { LoopTurns } from '../../../base/async/loop-turns.ts';
import { networkPolicies } from '../../resources/network-policy.ts';
import { nodes } from '../../resources/node.ts';
import { hasty } from '../../testing/reflector-setup.ts';
import { ReplicaFile } from '../replica/replica-file.ts';
import type { Resource } from '../resource.ts';
import { Reflector } from './reflector.ts';

type Kind = 'nodes' | 'networkpolicies';

interface Watched {
  readonly storage: string;
  readonly resource: Resource<object>;
  readonly make: (name: string, value: number) => ApiObject;
}

const metadata = { resourceVersion: '', creationTimestamp: '2026-01-01T00:00:00Z' };
const kinds: Readonly<Record<Kind, Watched>> = {
  nodes: {
    storage: 'nodes',
    resource: nodes,
    make: (name, value) => ({
      apiVersion: 'v1',
      kind: 'Node',
      metadata: { ...metadata, name, uid: name },
      spec: { podCIDRs: [`10.0.${value}.0/24`] },
    }),
  },
  networkpolicies: {
    storage: 'networking.k8s.io/networkpolicies',
    resource: networkPolicies,
    make: (name, value) => ({
      apiVersion: 'networking.k8s.io/v1',
      kind: 'NetworkPolicy',
      metadata: { ...metadata, name, namespace: 'default', uid: `${name}-${value}` },
    }),
  },
};

type Step =
  | { readonly do: 'put' | 'delete'; readonly kind: Kind; readonly name: string; readonly value: number }
  | { readonly do: 'hold' | 'release' | 'wake'; readonly kind: Kind }
  | { readonly do: 'advance'; readonly kind: Kind; readonly changes: number }
  | { readonly do: 'watch'; readonly incident: WatchIncident }
  | { readonly do: 'list'; readonly incident: 'expired' | 'error' }
  | { readonly do: 'pause'; readonly ms: number };

const kind = fc.constantFrom<Kind>('nodes', 'networkpolicies');
const steps: fc.Arbitrary<readonly Step[]> = fc.array(
  fc.oneof(
    {
      weight: 8,
      arbitrary: fc.record({
        do: fc.constantFrom('put', 'put', 'delete'),
        kind,
        name: fc.constantFrom('a', 'b', 'c', 'd'),
        value: fc.nat(9),
      }),
    },
    { weight: 3, arbitrary: fc.record({ do: fc.constantFrom('hold', 'release', 'wake'), kind }) },
    { weight: 3, arbitrary: fc.record({ do: fc.constant('advance'), kind, changes: fc.integer({ min: 1, max: 3 }) }) },
    {
      weight: 3,
      arbitrary: fc.record({ do: fc.constant('watch'), incident: fc.constantFrom('bookmark', 'bookmark', 'expired', 'error', 'end') }),
    },
    { weight: 1, arbitrary: fc.record({ do: fc.constant('list'), incident: fc.constantFrom('expired', 'error') }) },
    { weight: 4, arbitrary: fc.record({ do: fc.constant('pause'), ms: fc.constantFrom(0, 1, 5) }) },
  ) as fc.Arbitrary<Step>,
  { minLength: 10, maxLength: 60, size: 'max' },
);

/** Cluster whose server does all that a real one may, and a reflector for each kind. */
class Cluster {
  readonly store = new Store();
  readonly cache = new WatchCache(this.store);
  readonly incidents: WatchIncident[] = [];
  readonly refusals: ('expired' | 'error')[] = [];
  readonly folder = mkdtempSync(join(tmpdir(), 'seine-reflector-'));
  readonly reflectors: readonly (readonly [Watched, Reflector<object>])[];
  readonly #turns = new LoopTurns(5);
  readonly #stop = new AbortController();
  readonly #running: readonly Promise<void>[];

  constructor() {
    const { registry, writer } = openClusterObjects({
      store: this.store,
      serviceCidrs: [],
      nodePortRange: { first: 1, last: 0 },
      now: () => 0,
    });
    const refused = (): never => {
      throw new Error('nothing is bound here');
    };
    const ports: ResourcePorts = {
      store: this.store,
      registry,
      writer,
      bindPod: refused,
      admit: () => undefined,
      forgotten: new Set(),
      behaviour: { cache: this.cache, watch: () => this.incidents.shift(), list: () => this.refusals.shift() },
      now: () => 0,
    };
    const http = labStream(ports);
    const policy = { ...hasty, behindMs: 3 };
    this.reflectors = Object.values(kinds).map((watched) => [
      watched,
      new Reflector({
        http,
        resource: watched.resource,
        turns: this.#turns,
        onReport: () => undefined,
        stateDir: this.folder,
        saveEveryMs: 1,
        policy,
      }),
    ]);
    this.#running = this.reflectors.map(([, reflector]) => reflector.run(this.#stop.signal));
  }

  async take(step: Step): Promise<void> {
    if (step.do === 'watch') this.incidents.push(step.incident);
    else if (step.do === 'list') this.refusals.push(step.incident);
    else if (step.do === 'pause') await sleep(step.ms);
    else if (step.do === 'put' || step.do === 'delete')
      this.#change(step.do, kinds[step.kind].make(step.name, step.value), kinds[step.kind].storage);
    else if (step.do === 'advance') this.cache.advance(kinds[step.kind].storage, step.changes);
    else this.cache[step.do](kinds[step.kind].storage);
  }

  #change(what: 'put' | 'delete', object: ApiObject, storage: string): void {
    const { namespace, name } = object.metadata;
    const held = this.store.get(storage, namespace === undefined ? name : `${namespace}/${name}`);
    if (what === 'put') this.store.put(storage, object);
    else if (held) this.store.remove(storage, held.object);
  }

  /** Stops the server's faults. */
  heal(): void {
    this.incidents.length = 0;
    this.refusals.length = 0;
    for (const { storage } of Object.values(kinds)) this.cache.release(storage);
  }

  /** Returns the server's objects of a kind, as a client would keep them. */
  truth({ storage, resource }: Watched): Record<string, object | undefined> {
    return Object.fromEntries(
      this.store.list(storage).map(({ object }) => {
        const { namespace, name } = object.metadata;
        return [namespace === undefined ? name : `${namespace}/${name}`, resource.project(object)];
      }),
    );
  }

  lastChange({ storage }: Watched): number {
    const changes = this.store.changesSince(storage, 1);
    return changes === 'gone' ? Number.POSITIVE_INFINITY : (changes.at(-1)?.revision ?? 1);
  }

  async stop(): Promise<void> {
    this.#stop.abort();
    await Promise.all(this.#running);
  }

  async stored({ resource }: Watched): Promise<Record<string, object>> {
    const path = join(this.folder, `${resource.kind.toLowerCase()}.jsonl`);
    const stored = await new ReplicaFile<object>({ path, of: resource, turns: this.#turns }).load();
    return Object.fromEntries([...(stored?.objects ?? [])].map(([key, { value }]) => [key, value]));
  }
}

/** A failure prints its seed, which reproduces it. */
const { SEINE_TEST_SEED: seed, SEINE_TEST_RUNS: runs = '60' } = process.env;

it("ends with the server's objects, in memory and on disk, for any behaviour of the server", { timeout: 120_000 }, async () => {
  await fc.assert(
    fc.asyncProperty(steps, async (sequence) => {
      const cluster = new Cluster();
      try {
        for (const step of sequence) await cluster.take(step);
        await sleep(3);
        cluster.heal();
        await vi.waitFor(
          () => {
            for (const [watched, { replica, status }] of cluster.reflectors) {
              expect(Object.fromEntries(replica.entries())).toEqual(cluster.truth(watched));
              expect(Number(status.version)).toBeGreaterThanOrEqual(cluster.lastChange(watched));
              expect(status.held).toBeUndefined();
            }
          },
          { timeout: 5_000, interval: 1 },
        );
        await cluster.stop();
        for (const [watched] of cluster.reflectors) expect(await cluster.stored(watched)).toEqual(cluster.truth(watched));
      } finally {
        await cluster.stop();
        rmSync(cluster.folder, { recursive: true });
      }
    }),
    { numRuns: Number(runs), endOnFailure: true, ...(seed === undefined ? {} : { seed: Number(seed) }) },
  );
});
