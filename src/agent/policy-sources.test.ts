import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { acknowledgingNode } from '../../test/support/acknowledging-node.ts';
import { undisputedNetworks } from '../../test/support/enforcement-scene.ts';
import { LoopTurns } from '../base/async/loop-turns.ts';
import { silentLog } from '../base/log/log.ts';
import { parseIp } from '../base/net/ip.ts';
import { ownerOf } from '../dataplane/pipeline/cookie.ts';
import { KubeHttp } from '../kubernetes/client/http-client.ts';
import { Reflector } from '../kubernetes/client/reflector/reflector.ts';
import { reflectorPolicy } from '../kubernetes/client/reflector/reflector-machine.ts';
import { ReplicaStore } from '../kubernetes/client/replica/replica.ts';
import type { Resource } from '../kubernetes/client/resource.ts';
import { namespaces } from '../kubernetes/resources/namespace.ts';
import { networkPolicies } from '../kubernetes/resources/network-policy.ts';
import type { Node } from '../kubernetes/resources/node.ts';
import { policyPods } from '../kubernetes/resources/policy-pod.ts';
import { bookmark, event, list, ScriptedApiServer, status, watch } from '../kubernetes/testing/scripted-api-server.ts';
import type { LocalSubject } from '../policy/controller/local-subjects.ts';
import { PolicyController } from '../policy/controller/policy-controller.ts';
import { PolicyFlows } from '../policy/flows/policy-flows.ts';
import { isKnown } from './kube-sources.ts';

/**
 * Effects on pods that policies isolate if an API server refuses, loses data or returns wrong data: nothing is admitted, and nothing is
 * cut.
 */

const hasty = { ...reflectorPolicy, minBackoffMs: 1, maxBackoffMs: 4, healthyWatchMs: 0 };
const web: LocalSubject = {
  owner: ownerOf('subject', 'shop', 'web', 'eth0@a'),
  ofPort: 7,
  addresses: [parseIp('10.10.0.7')],
  pod: { namespace: 'shop', name: 'web', uid: 'u' },
};
const other: LocalSubject = {
  ...web,
  owner: ownerOf('subject', 'shop', 'b', 'eth0@b'),
  ofPort: 8,
  pod: { namespace: 'shop', name: 'b', uid: 'v' },
};

const metadata = (name: string, resourceVersion: number, namespace?: string) => ({
  name,
  ...(namespace === undefined ? {} : { namespace }),
  uid: name,
  resourceVersion: String(resourceVersion),
});
const policy = (at: number, version = 1) => ({
  metadata: metadata(`deny-${at}`, version, 'shop'),
  spec: { podSelector: {}, policyTypes: ['Ingress'] },
});
const ten = Array.from({ length: 10 }, (_, at) => policy(at));
const names = ten.map(({ metadata: { name } }) => `shop/${name}`).sort();
const shop = { metadata: metadata('shop', 1) };
const client = {
  metadata: metadata('client', 1, 'shop'),
  spec: { nodeName: 'n2', containers: [] },
  status: { podIPs: [{ ip: '10.20.0.5' }] },
};
const whole = (objects: readonly object[], then: 'stay' | 'end' = 'stay') =>
  watch([...objects.map((object) => event('ADDED', object)), bookmark('5', true)], then);

/** One source with its own API server. */
class Source<T> {
  readonly server = new ScriptedApiServer();
  readonly reflector: Reflector<T>;
  readonly #http: KubeHttp;
  #running: Promise<void> | undefined;

  private constructor(server: ScriptedApiServer, http: KubeHttp, reflector: Reflector<T>) {
    this.server = server;
    this.#http = http;
    this.reflector = reflector;
  }

  static async open<T>(resource: Resource<T>, stateDir: string): Promise<Source<T>> {
    const server = new ScriptedApiServer();
    const http = new KubeHttp(await server.listen(), 'test');
    const options = { http, resource, turns: new LoopTurns(5), onReport: () => undefined, stateDir, saveEveryMs: 1, policy: hasty };
    return new Source(server, http, new Reflector(options));
  }

  run(signal: AbortSignal): void {
    this.#running = this.reflector.run(signal);
  }

  async close(): Promise<void> {
    await this.#running;
    this.#http.close();
    await this.server.close();
  }
}

/** Sources of an agent and the resulting policy, on a switch that acknowledges everything at once. */
class Agent {
  readonly policies: Source<ReturnType<typeof networkPolicies.project> & {}>;
  readonly namespaces: Source<ReturnType<typeof namespaces.project> & {}>;
  readonly pods: Source<ReturnType<typeof policyPods.project> & {}>;
  readonly enforcement: PolicyController;
  /** Owners whose flows were desired or removed. */
  readonly calls: string[] = [];
  readonly #stop = new AbortController();

  private constructor([policies, ns, pods]: readonly [Agent['policies'], Agent['namespaces'], Agent['pods']]) {
    this.policies = policies;
    this.namespaces = ns;
    this.pods = pods;
    this.enforcement = new PolicyController({
      nodeName: 'n1',
      sources: {
        namespaces: ns.reflector.replica,
        policies: policies.reflector.replica,
        clusterPolicies: new ReplicaStore(),
        pods: pods.reflector.replica,
        nodes: new ReplicaStore<Node>(),
      },
      nodeNetworks: undisputedNetworks,
      rulesKnown: () => [ns.reflector, policies.reflector].every(isKnown),
      areAddressesKnown: () => pods.reflector.status.state === 'in step',
      factsOf: () => ({ labels: {}, ports: {} }),
      flows: new PolicyFlows({ families: ['ipv4'] }),
      nodeState: acknowledgingNode((owner) => this.calls.push(owner)),
      suspensions: { of: () => undefined, endedAway: () => false },
      whenUnknown: 'closed',
      serviceOpenings: 2_000,
      mode: () => 'enforce',
      bridgeBefore: 'empty',
      turns: new LoopTurns(5),
      log: silentLog,
      signal: this.#stop.signal,
    });
  }

  static async start(stateDir: string): Promise<Agent> {
    const open = [Source.open(networkPolicies, stateDir), Source.open(namespaces, stateDir), Source.open(policyPods, stateDir)] as const;
    const agent = new Agent(await Promise.all(open));
    agent.#stop.signal.addEventListener('abort', agent.enforcement.follow());
    return agent;
  }

  /** Starts with the first answers that the servers were configured to give. */
  run(): void {
    for (const source of [this.policies, this.namespaces, this.pods]) source.run(this.#stop.signal);
  }

  async attach(subject = web): Promise<void> {
    await this.enforcement.attach(subject, AbortSignal.timeout(5_000));
  }

  /** State of the pod, and the policies that isolate it. */
  standing(pod = 'shop/web') {
    const { is, ingress } = this.enforcement.pods().get(pod) ?? {};
    return { is, ingress };
  }

  async close(): Promise<void> {
    this.#stop.abort();
    await Promise.all([this.policies, this.namespaces, this.pods].map((source) => source.close()));
  }
}

let stateDir: string;
let agent: Agent;
const eventually = (check: () => void) => vi.waitFor(check, { timeout: 8_000, interval: 2 });
const policed = { is: 'policed', ingress: names };

beforeEach(async () => {
  stateDir = await mkdtemp(join(tmpdir(), 'seine-policy-'));
  agent = await Agent.start(stateDir);
});
afterEach(async () => {
  await agent.close();
  await rm(stateDir, { recursive: true, force: true });
});

/** Synced with ten policies of `shop`; the watches of these sources end, and the servers are asked again. */
async function inStep(...ending: readonly ('policies' | 'namespaces' | 'pods')[]): Promise<void> {
  const objects = { policies: ten, namespaces: [shop], pods: [client] };
  for (const source of ['policies', 'namespaces', 'pods'] as const)
    agent[source].server.answer(whole(objects[source], ending.includes(source) ? 'end' : 'stay'));
  agent.run();
  await eventually(() =>
    expect([agent.policies, agent.namespaces, agent.pods].every(({ reflector }) => reflector.replica.synced)).toBe(true),
  );
  await agent.enforcement.settled();
  await agent.attach();
  await agent.enforcement.settled();
  expect(agent.standing()).toEqual(policed);
  agent.calls.length = 0;
}

const sources = ['policies', 'namespaces', 'pods'] as const;

describe.each([
  [403, 'Forbidden', 'refused'],
  [404, 'NotFound', 'gone'],
] as const)('an API server that answers %i %s', (code, reason, state) => {
  it.each(['policies', 'namespaces'] as const)('to a first agent about %s keeps its pods blocked', async (refused) => {
    const answers = { policies: whole(ten), namespaces: whole([shop]), pods: whole([client]) };
    for (const source of sources) agent[source].server.answer(source === refused ? status(code, reason) : answers[source]);
    agent.run();
    await eventually(() => expect(agent[refused].reflector.status.state).toBe(state));
    await agent.attach();
    expect(agent.standing().is).toBe('closed');
    expect([isKnown(agent[refused].reflector), agent[refused].reflector.replica.synced]).toEqual([false, false]);
  });

  it.each(sources)('about %s, after it answered before, changes nothing for present and new pods', async (refused) => {
    await inStep(refused);
    agent[refused].server.answer(status(code, reason), status(code, reason));
    await eventually(() => expect(agent[refused].server.requests.length).toBeGreaterThan(2));
    await eventually(() => expect(agent[refused].reflector.status).toMatchObject({ state }));
    await agent.enforcement.settled();
    expect([agent.standing(), agent.calls]).toEqual([policed, []]);
    await agent.attach(other);
    expect(agent.standing('shop/b')).toEqual(policed);
  });

  it('about everything keeps the stored state of an earlier agent in force', async () => {
    await inStep();
    await agent.close();
    agent = await Agent.start(stateDir);
    for (const source of sources) agent[source].server.answer(status(code, reason));
    agent.run();
    await eventually(() => expect(sources.map((source) => agent[source].reflector.status.state)).toEqual([state, state, state]));
    await agent.enforcement.settled();
    await agent.attach();
    expect(agent.standing()).toEqual(policed);
  });
});

it('a list that lacks five of ten policies opens nothing until a second one lacks them too', async () => {
  await inStep('policies');
  agent.policies.server.answer(
    status(410, 'Expired'),
    watch([...ten.slice(5).map((object) => event('ADDED', object)), bookmark('6', true)]),
  );
  await eventually(() => expect(agent.policies.reflector.status.state).toBe('held'));
  await agent.enforcement.settled();
  expect([agent.standing(), agent.calls]).toEqual([policed, []]);
  await agent.attach(other);
  expect(agent.standing('shop/b')).toEqual(policed);
  agent.policies.server.answer(list('7', ten.slice(5)), watch([]));
  await eventually(() => expect(agent.standing().ingress).toEqual(names.slice(5)));
});

it('a list that lacks four of ten policies is applied', async () => {
  await inStep('policies');
  agent.policies.server.answer(
    status(410, 'Expired'),
    watch([...ten.slice(4).map((object) => event('ADDED', object)), bookmark('6', true)]),
  );
  await eventually(() => expect(agent.standing().ingress).toEqual(names.slice(4)));
});

it('a policy of 5 MB isolates as any other', async () => {
  const [small] = ten;
  const large = { ...small, metadata: { ...small?.metadata, annotations: { x: 'y'.repeat(5_000_000) } } };
  agent.policies.server.answer(whole([large]));
  agent.namespaces.server.answer(whole([shop]));
  agent.pods.server.answer(whole([client]));
  agent.run();
  await eventually(() => expect([agent.policies, agent.namespaces].every(({ reflector }) => reflector.replica.synced)).toBe(true));
  await agent.enforcement.settled();
  await agent.attach();
  expect(agent.standing()).toEqual({ is: 'policed', ingress: ['shop/deny-0'] });
});
