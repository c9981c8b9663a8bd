import fc from 'fast-check';
import { afterAll, expect, it } from 'vitest';
import { LoopTurns } from '../../src/base/async/loop-turns.ts';
import { silentLog } from '../../src/base/log/log.ts';
import { parseCidr, parseIp } from '../../src/base/net/ip.ts';
import { parseMac } from '../../src/base/net/mac.ts';
import { announcementsOwner, compileAnnouncements } from '../../src/dataplane/compile/compile-announcements.ts';
import { compileRefusals, refusalsOwner } from '../../src/dataplane/compile/compile-denied-packets.ts';
import { compileSubject, type SubjectIntent } from '../../src/dataplane/compile/compile-entry.ts';
import { compileNode } from '../../src/dataplane/compile/compile-node.ts';
import { compilePeer, type PeerIntent } from '../../src/dataplane/compile/compile-peer.ts';
import { compilePod, type PodIntent } from '../../src/dataplane/compile/compile-pod.ts';
import { compileProbes, probesOwner } from '../../src/dataplane/compile/compile-probes.ts';
import { compileUnservedPorts, unservedPortsOwner } from '../../src/dataplane/compile/compile-service-path.ts';
import { compileTimeExceeded, timeExceededOwner } from '../../src/dataplane/compile/compile-time-exceeded.ts';
import type { NodeEnvironment } from '../../src/dataplane/compile/environment.ts';
import { nothing, type Wanted } from '../../src/dataplane/desired/host-entries.ts';
import { type Owner, ownerOf } from '../../src/dataplane/pipeline/cookie.ts';
import { DesiredState } from '../../src/dataplane/reconcile/desired-state.ts';
import { type BridgeKey, type BridgeValue, encodeBridgeEntries } from '../../src/dataplane/targets/bridge/bridge-entry.ts';
import { compileInputs } from '../../src/operations/compiler-inputs/compile-inputs.ts';
import { InputsRecord, type InputsRecordOptions } from '../../src/operations/history/inputs-record.ts';
import type { HistoryLine } from '../../src/operations/history/read-segments.ts';
import { RecordedInputs, replay } from '../../src/operations/history/replay.ts';
import { compileEndpoint, compileService } from '../../src/services/compile/compile-service.ts';
import { endpointOwner } from '../../src/services/compile/endpoint-owner.ts';
import { serviceIntents } from '../../src/services/compile/intent.ts';
import { askedRanges, type ServiceIntent, translatedEndpoints } from '../../src/services/compile/service-intent.ts';
import { compileSourceRanges, rangeSetOf } from '../../src/services/compile/source-ranges.ts';
import { clusters } from './random-services.ts';
import { exampleScene, type Scene } from './scene.ts';

/** Random incidents: changes of pods, policies, peers, Services and the node, recorded each second and replayed. */
const incidents = Number(process.env['SEINE_TEST_INCIDENTS'] ?? 30);
const seed = Number(process.env['SEINE_TEST_SEED'] ?? Math.floor(Math.random() * 2 ** 31));

interface ServedInput {
  readonly intent: ServiceIntent;
  readonly groups: ReadonlyMap<string, number>;
}

/** An agent as far as it has inputs and desired entries, with the entries that each controller wants. */
class ChangingAgent {
  readonly bridge = new DesiredState<BridgeKey, BridgeValue>({ equal: (a, b) => a === b });
  environment: NodeEnvironment = exampleScene.node;
  readonly peers = new Map<string, PeerIntent>();
  readonly pods = new Map<Owner, PodIntent>();
  readonly subjects = new Map<Owner, SubjectIntent>();
  readonly served = new Map<Owner, ServedInput>();
  readonly lines: string[] = [];
  readonly record: InputsRecord;
  nowMs = 0;
  #lastGroup = 0;

  constructor() {
    const { bridge } = this;
    const running = () => ({
      environment: this.environment,
      services: {
        proxying: exampleScene.proxying,
        served: () => this.served.entries(),
        portsOf: (service: string) => new Map([...this.served].filter(([owner]) => owner.startsWith(`service/${service}:`))),
      },
      peers: { intents: () => this.peers.values() },
      ipam: { leases: () => [...this.pods.keys()].map((owner) => ({ state: 'allocated', owner })) },
      network: { inputOf: ({ owner }: { readonly owner: Owner }) => ({ owner, intent: this.pods.get(owner) }) },
      policy: { inputs: () => [...this.subjects].map(([owner, intent]) => ({ owner, intent })).values() },
    });
    const history = {
      isEnabled: true,
      writeInputs: async (lines: Iterable<string>): Promise<boolean> => {
        this.lines.push(...lines);
        return true;
      },
    };
    const port = { config: { nodeName: 'n1' }, nodeState: { bridge }, turns: new LoopTurns(0), running };
    const clocks = { now: () => this.nowMs, wallMs: () => this.nowMs };
    // The parts of the agent that are read; types of the rest do not matter here.
    this.record = new InputsRecord({ port, history, log: silentLog, ...clocks } as unknown as InputsRecordOptions);
    this.setEnvironment(exampleScene.node);
  }

  /** Entries of the owner become those of its inputs, as a controller does it. */
  want(owner: Owner, wanted: Wanted): void {
    this.bridge.set(owner, encodeBridgeEntries(owner, wanted));
  }

  setEnvironment(environment: NodeEnvironment): void {
    this.environment = environment;
    this.want(ownerOf('node'), compileNode(environment));
    this.want(announcementsOwner, compileAnnouncements());
    this.want(unservedPortsOwner, compileUnservedPorts(environment));
    this.want(timeExceededOwner, compileTimeExceeded(environment));
    this.want(refusalsOwner, compileRefusals(environment));
    this.want(probesOwner, compileProbes(environment));
    for (const peer of this.peers.values()) this.setPeer(peer);
  }

  setPeer(peer: PeerIntent): void {
    this.peers.set(peer.name, peer);
    this.want(ownerOf('peer', peer.name), compilePeer(peer, this.environment));
  }

  dropPeer(name: string): void {
    this.peers.delete(name);
    this.bridge.forget(ownerOf('peer', name));
  }

  setPod(number: number, intent: PodIntent): void {
    const owner = ownerOf('pod', 'default', `p${number}`, 'eth0@abc');
    this.pods.set(owner, intent);
    this.want(owner, compilePod(intent));
  }

  dropPod(number: number): void {
    for (const feature of ['pod', 'subject'] as const) {
      const owner = ownerOf(feature, 'default', `p${number}`, 'eth0@abc');
      this.pods.delete(owner);
      this.subjects.delete(owner);
      this.bridge.forget(owner);
    }
  }

  setSubject(number: number, intent: SubjectIntent): void {
    const owner = ownerOf('subject', 'default', `p${number}`, 'eth0@abc');
    this.subjects.set(owner, intent);
    this.want(owner, { ...nothing, flows: compileSubject(intent) });
  }

  setRow(number: number): void {
    const flows = compileSubject({ ofPort: 40 + number, addresses: [], ingress: number });
    this.want(ownerOf('policy', 'ingress', `class-${number}`), { ...nothing, flows });
  }

  /** Serves all ports of a scene's Services, and withdraws others. */
  serve({ services, proxying }: Scene): void {
    const before = new Map(this.served);
    this.served.clear();
    for (const { service, slices } of services)
      for (const intent of serviceIntents(service, slices, proxying)) {
        if (intent.addresses.length === 0) continue;
        const owner = ownerOf('service', `${service.namespace}/${service.name}:${intent.name}`);
        const groups = new Map(before.get(owner)?.groups ?? []);
        const groupId = (name: string): number => {
          groups.set(name, groups.get(name) ?? ++this.#lastGroup);
          return groups.get(name) ?? 0;
        };
        for (const each of translatedEndpoints(intent))
          this.want(endpointOwner(intent.transport, each), compileEndpoint(intent.transport, each));
        const ranges = askedRanges(intent);
        if (ranges) this.want(rangeSetOf(ranges).owner, compileSourceRanges(ranges, proxying.node));
        this.want(owner, compileService(intent, { owner, groupId }));
        this.served.set(owner, { intent, groups });
      }
    for (const owner of before.keys()) if (!this.served.has(owner)) this.bridge.forget(owner);
    const used = new Set(
      [...this.served.values()].flatMap(({ intent }) => translatedEndpoints(intent).map((each) => endpointOwner(intent.transport, each))),
    );
    const sets = new Set(
      [...this.served.values()].flatMap(({ intent }) => (askedRanges(intent) ? [rangeSetOf(intent.sourceRanges).owner] : [])),
    );
    for (const owner of [...this.bridge.owners()] as Owner[])
      if ((owner.startsWith('endpoint/') && !used.has(owner)) || (owner.startsWith('service/source-ranges:') && !sets.has(owner)))
        this.bridge.forget(owner);
  }

  get parsed(): readonly HistoryLine[] {
    return this.lines.map((line) => JSON.parse(line) as HistoryLine);
  }
}

const number = fc.nat(5);
const change = fc.oneof(
  { weight: 6, arbitrary: fc.record({ do: fc.constant('pod' as const), number, ofPort: fc.integer({ min: 10, max: 99 }) }) },
  { weight: 6, arbitrary: fc.record({ do: fc.constant('dropPod' as const), number }) },
  { weight: 6, arbitrary: fc.record({ do: fc.constant('subject' as const), number, ingress: fc.nat(50), isClosed: fc.boolean() }) },
  { weight: 6, arbitrary: fc.record({ do: fc.constant('peer' as const), number, size: fc.nat(15) }) },
  { weight: 6, arbitrary: fc.record({ do: fc.constant('dropPeer' as const), number }) },
  { weight: 6, arbitrary: fc.record({ do: fc.constant('row' as const), number }) },
  { weight: 6, arbitrary: fc.record({ do: fc.constant('serve' as const), scene: clusters }) },
  {
    weight: 1,
    arbitrary: fc.record({ do: fc.constant('environment' as const), denied: fc.constantFrom('drop' as const, 'reject' as const) }),
  },
);
type Change = typeof change extends fc.Arbitrary<infer C> ? C : never;

function apply(agent: ChangingAgent, each: Change): void {
  const [pod] = exampleScene.pods;
  const [peer] = exampleScene.peers;
  if (!pod || !peer) throw new Error('the example has a pod and a peer');
  switch (each.do) {
    case 'pod':
      agent.setPod(each.number, {
        ...pod,
        ofPort: each.ofPort * 8 + each.number,
        mac: parseMac(`0e:aa:00:00:01:0${each.number}`),
        addresses: [parseIp(`10.10.1.${each.number}`)],
      });
      break;
    case 'dropPod':
      agent.dropPod(each.number);
      break;
    case 'subject':
      agent.setSubject(each.number, { ofPort: 10 + each.number, addresses: [], ingress: each.isClosed ? 'closed' : each.ingress });
      break;
    case 'peer':
      agent.setPeer({ ...peer, name: `n${each.number + 2}`, podCidrs: [parseCidr(`10.11.${each.number * 16 + each.size}.0/24`)] });
      break;
    case 'dropPeer':
      agent.dropPeer(`n${each.number + 2}`);
      break;
    case 'row':
      agent.setRow(each.number);
      break;
    case 'serve':
      agent.serve(each.scene);
      break;
    case 'environment':
      agent.setEnvironment({ ...agent.environment, denied: each.denied });
      break;
  }
}

const incident = fc.array(fc.array(change, { maxLength: 5, size: 'max' }), { minLength: 4, maxLength: 16, size: 'max' });

async function recorded(rounds: readonly (readonly Change[])[]): Promise<ChangingAgent> {
  const agent = new ChangingAgent();
  for (const changes of [[], ...rounds, [], [], [], [], [], [], []]) {
    for (const each of changes) apply(agent, each);
    agent.nowMs += 1_000;
    await agent.record.round();
  }
  return agent;
}

const sorted = (entries: Iterable<readonly [string, string]>) => [...entries].toSorted(([a], [b]) => (a < b ? -1 : 1));
const totals = { incidents: 0, rounds: 0, compared: 0, tookMs: 0, recordedMs: 0 };

it(`replays ${incidents} random incidents with equal digests, and to the final bridge (seed ${seed})`, async () => {
  await fc.assert(
    fc.asyncProperty(incident, async (rounds) => {
      const agent = await recorded(rounds);
      const startedMs = performance.now();
      const { difference, ...counts } = await replay(agent.parsed, { fromMs: 0, untilMs: Number.MAX_SAFE_INTEGER });
      totals.tookMs += performance.now() - startedMs;
      expect(difference).toBeUndefined();
      totals.incidents++;
      totals.rounds += counts.rounds;
      totals.compared += counts.compared;
      totals.recordedMs += agent.nowMs;
      const state = new RecordedInputs();
      for (const line of agent.parsed) state.apply(line);
      if ([...agent.bridge.disputed()].length > 0) return; // the latest claim applies, which rounds do not record
      const entries = new Map([...compileInputs(state.inputs).entries, ...state.policyEntries()]);
      expect(sorted(entries)).toEqual(sorted([...agent.bridge.keys()].map((key) => [key, agent.bridge.wanted(key) ?? ''])));
    }),
    { numRuns: incidents, seed, endOnFailure: true },
  );
}, 600_000);

it('names the first owner whose entries are not those of its inputs', async () => {
  const agent = new ChangingAgent();
  const [pod] = exampleScene.pods;
  if (!pod) throw new Error('the example has a pod');
  await agent.record.round();
  agent.setPod(1, pod);
  agent.setPod(2, { ...pod, ofPort: 77, mac: parseMac('0e:aa:00:00:01:09'), addresses: [parseIp('10.10.1.9')] });
  // A defect of the agent: entries of other inputs.
  agent.want(ownerOf('pod', 'default', 'p1', 'eth0@abc'), compilePod({ ...pod, ofPort: 99 }));
  for (let second = 0; second < 3; second++) {
    agent.nowMs += 1_000;
    await agent.record.round();
  }
  const { difference } = await replay(agent.parsed, { fromMs: 0, untilMs: Number.MAX_SAFE_INTEGER });
  expect(difference?.owner).toBe('pod/default/p1/eth0@abc');
  expect(difference?.recorded).not.toBe(difference?.compiled);
});

it('names a port of a Service whose flows are those of another list of endpoints', async () => {
  const agent = new ChangingAgent();
  await agent.record.round();
  agent.serve(exampleScene);
  const [owner, port] = [...agent.served].find(([, { intent }]) => intent.cluster.length > 1) ?? [];
  if (!owner || !port) throw new Error('the example has a Service with endpoints');
  const cluster = port.intent.cluster.slice(1);
  agent.want(owner, compileService({ ...port.intent, cluster }, { owner, groupId: (name) => port.groups.get(name) ?? 1 }));
  for (let second = 0; second < 3; second++) {
    agent.nowMs += 1_000;
    await agent.record.round();
  }
  const { difference } = await replay(agent.parsed, { fromMs: 0, untilMs: Number.MAX_SAFE_INTEGER });
  expect(difference?.owner).toBe(owner);
});

afterAll(() => {
  const { incidents: count, rounds, compared, tookMs, recordedMs } = totals;
  process.stdout.write(
    `${count} incidents, ${rounds} records, ${compared} digests compared, ${Math.round(recordedMs / tookMs)} times faster than recorded\n`,
  );
});
