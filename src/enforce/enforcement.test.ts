import { setImmediate as nextTurn } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { LoopTurns } from '../async/loop-turns.ts';
import type { Namespace } from '../kube/namespace.ts';
import { type NetworkPolicy, networkPolicies } from '../kube/network-policy.ts';
import type { Node } from '../kube/node.ts';
import type { PolicyPod } from '../kube/policy-pod.ts';
import { ReplicaStore } from '../kube/replica.ts';
import { silentLog } from '../log/log.ts';
import { parseIp } from '../net/ip.ts';
import { type Owner, ownerOf } from '../pipeline/cookie.ts';
import type { NumberedRow } from '../pipeline/flow-pattern.ts';
import { PolicyFlows } from '../policy-flows/policy-flows.ts';
import type { Revisions } from '../reconcile/node-state.ts';
import { nothing, type Wanted } from '../wanted/wanted.ts';
import { Enforcement } from './enforcement.ts';
import type { LocalPodFacts, LocalSubject } from './local-subjects.ts';
import { NumberReturns } from './number-returns.ts';

/** A wanted state whose bridge has what it is told to have, when it is told to. */
class TestBridge {
  readonly wanted = new Map<Owner, Wanted>();
  /** What was written since the last look, in order. */
  readonly told: string[] = [];
  readonly bridge = { revision: 0 };
  realizedRevision = 0;
  /** Whether everything is acknowledged as it comes. */
  isQuick = true;
  readonly #waiting: { readonly revision: number; readonly go: () => void }[] = [];
  /** Owners of which the switch has what they want. */
  readonly #has = new Set<Owner>();
  readonly reconcilers = { bridge: this as unknown as Reconciler };

  want(owner: Owner, wanted: Wanted): Revisions {
    this.wanted.set(owner, wanted);
    return this.#change(owner, `want ${owner}`);
  }

  wantRow(owner: Owner, { rows, ip, number }: NumberedRow): Revisions {
    return this.want(owner, { ...nothing, flows: [rows.flowOf(ip, number)] });
  }

  forget(owner: Owner): Revisions {
    this.wanted.delete(owner);
    return this.#change(owner, `forget ${owner}`);
  }

  async realized({ bridge: revision }: Revisions): Promise<void> {
    if (this.realizedRevision < revision) await new Promise<void>((go) => this.#waiting.push({ revision, go }));
  }

  isHeld(owner: Owner): boolean {
    return this.#has.has(owner);
  }

  async held(owners: Iterable<Owner>): Promise<void> {
    const { revision } = this.bridge;
    while (![...owners].every((owner) => this.isHeld(owner))) await new Promise<void>((go) => this.#waiting.push({ revision, go }));
  }

  together(work: () => void): void {
    this.told.push('together');
    work();
    this.told.push('apart');
  }

  failures(): readonly never[] {
    return [];
  }

  /** Since it was told to have something. */
  isLookedAt = false;

  /** It turns out not to have what an owner wants. */
  lose(owner: Owner): void {
    this.#has.delete(owner);
  }

  hasPolicyLeftovers(): boolean {
    this.isLookedAt = true;
    return false;
  }

  acknowledge(): void {
    this.realizedRevision = this.bridge.revision;
    for (const owner of this.wanted.keys()) this.#has.add(owner);
    for (const { go } of this.#waiting.splice(0)) go();
  }

  get isAwaited(): boolean {
    return this.#waiting.length > 0;
  }

  /** What of these kinds was written since the last look: `class`, `subject` … */
  take(...kinds: readonly string[]): readonly string[] {
    const words = this.told.splice(0).map((line) => line.replace(/\/[0-9a-f]{16,}.*/, '').replace(/^(\w+) policy\/\w+\/(\w+).*/, '$1 $2'));
    return words.filter((line) => kinds.some((kind) => line.includes(` ${kind}`)));
  }

  /** Of policy's rows; of all else nothing. */
  acknowledgeRows(): void {
    for (const owner of this.wanted.keys()) if (owner.startsWith('policy/')) this.#has.add(owner);
    for (const { go } of this.#waiting.splice(0)) go();
  }

  #change(owner: Owner, line: string): Revisions {
    this.told.push(line);
    this.#has.delete(owner);
    this.bridge.revision++;
    if (this.isQuick) this.acknowledge();
    return { owner, bridge: this.bridge.revision, host: -1 };
  }
}

type Reconciler = ConstructorParameters<typeof Enforcement>[0]['nodeState']['reconcilers']['bridge'];

const never = new AbortController().signal;
const web: LocalSubject = {
  owner: ownerOf('subject', 'shop', 'web', 'eth0@a'),
  ofPort: 7,
  addresses: [parseIp('10.10.0.7')],
  pod: { namespace: 'shop', name: 'web', uid: 'u' },
};
const second: LocalSubject = {
  ...web,
  owner: ownerOf('subject', 'shop', 'two', 'eth0@b'),
  ofPort: 8,
  addresses: [parseIp('10.10.0.8')],
  pod: { namespace: 'shop', name: 'two', uid: 'v' },
};
const denyAll = policy('deny-all', { podSelector: {}, policyTypes: ['Ingress'] });

function policy(name: string, spec: object): NetworkPolicy {
  const projected = networkPolicies.project({ metadata: { namespace: 'shop', name, uid: name, generation: 1 }, spec });
  if (!projected) throw new Error('no policy');
  return projected;
}

let bridge: TestBridge;
let policies: ReplicaStore<NetworkPolicy>;
let pods: ReplicaStore<PolicyPod>;
let facts: Map<string, LocalPodFacts>;
let known: boolean;
let version: number;
let stop: AbortController;

beforeEach(() => {
  bridge = new TestBridge();
  policies = new ReplicaStore();
  pods = new ReplicaStore();
  facts = new Map(['web', 'two'].map((name) => [name, { labels: { app: name }, ports: {} }]));
  known = true;
  version = 0;
  stop = new AbortController();
});
afterEach(() => stop.abort());

type Options = ConstructorParameters<typeof Enforcement>[0];

async function enforce(more: Partial<Options> = {}): Promise<Enforcement> {
  const sources = { policies, namespaces: new ReplicaStore<Namespace>(), nodes: new ReplicaStore<Node>(), pods };
  const enforcement = new Enforcement({
    nodeName: 'n1',
    sources,
    rulesKnown: () => known,
    areAddressesKnown: () => false,
    factsOf: ({ name }) => facts.get(name),
    flows: new PolicyFlows({ families: ['ipv4'] }),
    nodeState: bridge as unknown as Options['nodeState'],
    suspensions: { of: () => undefined, endedAway: () => false },
    whenUnknown: 'closed',
    serviceOpenings: 2_000,
    mode: () => 'enforce',
    bridgeBefore: 'with policy',
    turns: new LoopTurns(5),
    log: silentLog,
    signal: stop.signal,
    ...more,
  });
  stop.signal.addEventListener('abort', enforcement.follow());
  await enforcement.settled();
  bridge.told.length = 0;
  return enforcement;
}

function put(object: NetworkPolicy): void {
  policies.put(`${object.namespace}/${object.name}`, String(++version), object);
  policies.flush();
}

function remove({ namespace, name }: NetworkPolicy): void {
  policies.remove(`${namespace}/${name}`, String(++version));
  policies.flush();
}

const is = (enforcement: Enforcement, pod = 'shop/web') => enforcement.pods().get(pod)?.is;

describe('a pod', () => {
  it('is led to rows only once the switch has acknowledged them, and they go only after it was led elsewhere', async () => {
    const enforcement = await enforce();
    await enforcement.attach(web, never);
    expect(is(enforcement)).toBe('free');
    bridge.told.length = 0;

    bridge.isQuick = false;
    put(denyAll);
    const settled = enforcement.settled();
    await expect.poll(() => bridge.isAwaited).toBe(true);
    expect(bridge.take('class', 'subject')).toEqual(['want class']);
    expect(is(enforcement)).toBe('free');
    bridge.acknowledge();
    await settled;
    expect(bridge.take('class', 'subject')).toEqual([`want ${web.owner}`]);
    expect(enforcement.pods().get('shop/web')).toEqual({ is: 'policed', ingress: ['shop/deny-all'], egress: [] });

    bridge.isQuick = true;
    bridge.acknowledge();
    remove(denyAll);
    await enforcement.settled();
    expect(bridge.take('class', 'subject')).toEqual([`want ${web.owner}`, 'forget class']);
  });

  describe('whose policy lets other ports through', () => {
    const letting = (port: number): NetworkPolicy =>
      policy('ports', { podSelector: {}, ingress: [{ ports: [80, 81, 82, port].map((each) => ({ protocol: 'TCP', port: each })) }] });
    const begin = async (): Promise<Enforcement> => {
      put(letting(90));
      const enforcement = await enforce();
      for (const each of [web, second]) await enforcement.attach(each, never);
      await enforcement.settled();
      return enforcement;
    };
    const rest = async (enforcement: Enforcement): Promise<void> => {
      enforcement.removalsAllowed();
      // As of the next look at numbers.
      await expect.poll(() => bridge.isLookedAt).toBe(true);
      bridge.told.length = 0;
    };
    const change = async (enforcement: Enforcement, port: number): Promise<readonly string[]> => {
      put(letting(port));
      await enforcement.settled();
      return bridge.told.splice(0).map((line) => line.replace(/(class|decision)\/[\w-]{20}/, '$1'));
    };

    it('stays where it is, and the rows that differ are edited in one piece', async () => {
      const enforcement = await begin();
      await rest(enforcement);
      const told = await change(enforcement, 91);
      expect(told.slice(0, told.indexOf('apart') + 1)).toEqual([
        'together',
        'want policy/ingress/decision',
        'want policy/ingress/ports/1/TCP/91-91/allow shop/ports spec.ingress[0]',
        'want policy/ingress/class',
        'forget policy/ingress/decision',
        'forget policy/ingress/class',
        'forget policy/ingress/ports/1/TCP/90-90/allow shop/ports spec.ingress[0]',
        'apart',
      ]);
      expect(told.some((line) => line.startsWith('forget subject'))).toBe(false);
    });

    it('is led to other rows while the bridge may have something that nobody wants, or is behind', async () => {
      const enforcement = await begin();
      expect(await change(enforcement, 91)).not.toContain('together');
      await rest(enforcement);
      bridge.lose(web.owner);
      expect(await change(enforcement, 92)).not.toContain('together');
      expect(await change(enforcement, 93)).toContain('together');
    });

    it('and one that comes waits for the bridge to have them', async () => {
      const enforcement = await begin();
      await rest(enforcement);
      const third = { ...web, owner: ownerOf('subject', 'shop', 'three', 'eth0@c'), pod: { namespace: 'shop', name: 'three', uid: 'w' } };
      facts.set('three', { labels: {}, ports: {} });
      bridge.isQuick = false;
      put(letting(91));
      await expect.poll(() => bridge.told).toContain('apart');
      void enforcement.attach(third, never);
      await expect.poll(() => bridge.isAwaited).toBe(true);
      expect(bridge.wanted.has(third.owner)).toBe(false);
      bridge.acknowledgeRows();
      await expect.poll(() => bridge.wanted.has(third.owner)).toBe(true);
      bridge.acknowledge();
    });
  });

  it('that starts waits for the rows of a class that is new, and for none where others are in it', async () => {
    put(denyAll);
    const enforcement = await enforce();
    bridge.isQuick = false;
    const attached = enforcement.attach(web, never);
    await expect.poll(() => bridge.isAwaited).toBe(true);
    expect(bridge.take('class', 'subject')).toEqual(['want class']);
    bridge.acknowledge();
    await expect.poll(() => bridge.take('subject')).toEqual([`want ${web.owner}`]);
    bridge.acknowledge();
    await attached;
    void enforcement.attach(second, never);
    expect(bridge.take('class')).toEqual([]);
    await expect.poll(() => bridge.wanted.has(second.owner)).toBe(true);
    bridge.acknowledge();
  });

  it('is led to its rows while the bridge is behind with what others want, or refuses it', async () => {
    const enforcement = await enforce();
    await enforcement.attach(web, never);
    bridge.isQuick = false;
    bridge.want(ownerOf('service', 'shop', 'web', '80'), nothing);
    put(denyAll);
    const settled = enforcement.settled();
    await expect.poll(() => bridge.isAwaited).toBe(true);
    bridge.acknowledgeRows();
    await settled;
    expect([is(enforcement), bridge.realizedRevision < bridge.bridge.revision]).toEqual(['policed', true]);
  });

  it('that another policy isolates while it waits is led to what holds then', async () => {
    const enforcement = await enforce();
    await enforcement.attach(web, never);
    bridge.isQuick = false;
    put(denyAll);
    const settled = enforcement.settled();
    await expect.poll(() => bridge.isAwaited).toBe(true);
    bridge.told.length = 0;
    remove(denyAll);
    bridge.isQuick = true;
    bridge.acknowledge();
    await settled;
    await enforcement.settled();
    expect(is(enforcement)).toBe('free');
    expect([...bridge.wanted.keys()]).toEqual([web.owner]);
  });

  it('that starts while much is worked off waits for none of it, if others of its class are here, and nobody reads the half of it', async () => {
    put(policy('some', { podSelector: {}, ingress: [{ from: [{ namespaceSelector: {}, podSelector: { matchLabels: { app: 'a' } } }] }] }));
    const pods = new ReplicaStore<PolicyPod>();
    const enforcement = await enforce({
      sources: { policies, namespaces: new ReplicaStore(), nodes: new ReplicaStore(), pods },
      turns: new LoopTurns(0),
    });
    await enforcement.attach(web, never);
    await enforcement.settled();
    const many = 2_000;
    for (let at = 0; at < many; at++) {
      const podIps = [`10.20.${at >> 8}.${at & 255}`];
      pods.put(`many/${at}`, '1', { namespace: 'many', name: `${at}`, nodeName: 'n2', podIps, labels: { app: 'a' }, ports: {} });
    }
    pods.flush();
    bridge.told.length = 0;
    let isSettled = false;
    const settled = enforcement.settled().then(() => {
      isSettled = true;
    });
    while (bridge.take('address').length === 0) await nextTurn();
    expect(enforcement.matrix.ingress.identities.size).toBe(0);
    await enforcement.attach(second, never);
    expect([isSettled, is(enforcement, 'shop/two')]).toEqual([false, 'policed']);
    expect(enforcement.matrix.ingress.identities.size).toBe(0);
    await settled;
    expect(enforcement.matrix.ingress.identities.size).toBe(many);
    expect(enforcement.matrix.subjects.get('shop/two')?.ingress).toBe(enforcement.matrix.subjects.get('shop/web')?.ingress);
  });

  it('that is gone takes its flows with it at once, and the rows of its class after them', async () => {
    put(denyAll);
    const enforcement = await enforce();
    await enforcement.attach(web, never);
    bridge.told.length = 0;
    enforcement.detach(web.owner);
    expect(bridge.told).toEqual([`forget ${web.owner}`]);
    await enforcement.settled();
    expect([...bridge.wanted.keys()]).toEqual([]);
    expect(enforcement.pods().size).toBe(0);
  });
});

describe('a pod that has come from another node under its name', () => {
  const elsewhere: PolicyPod = { namespace: 'shop', name: 'web', nodeName: 'n2', podIps: ['10.10.2.7'], labels: { app: 'web' }, ports: {} };
  const list = (pod: PolicyPod | undefined): void => {
    if (pod) pods.put('shop/web', String(++version), pod);
    else pods.remove('shop/web', String(++version));
    pods.flush();
  };

  it('is what it is here, whatever the list of the cluster still says, and in whatever order', async () => {
    list(elsewhere);
    put(denyAll);
    const enforcement = await enforce();
    await enforcement.attach(web, never);
    expect(is(enforcement)).toBe('policed');
    for (const said of [undefined, elsewhere, undefined, { ...elsewhere, nodeName: 'n1', podIps: [] }]) {
      list(said);
      await enforcement.settled();
      expect(is(enforcement)).toBe('policed');
      expect(enforcement.holderOf(parseIp('10.10.0.7'))).toBe('shop/web');
    }
  });

  it('is there again, as the list has it, once it is gone from here', async () => {
    list(elsewhere);
    put(denyAll);
    const enforcement = await enforce();
    await enforcement.attach(web, never);
    await enforcement.settled();
    expect(enforcement.holderOf(parseIp('10.10.2.7'))).toBeUndefined();
    enforcement.detach(web.owner);
    await enforcement.settled();
    expect(enforcement.holderOf(parseIp('10.10.2.7'))).toBe('shop/web');
  });
});

describe('a pod of which too little is known', () => {
  it('keeps what the bridge has if an earlier agent attached it, and is policed as soon as it is known', async () => {
    put(denyAll);
    known = false;
    const enforcement = await enforce();
    enforcement.adopt(web);
    await enforcement.settled();
    expect(is(enforcement)).toBe('undecided');
    expect(bridge.wanted.has(web.owner)).toBe(false);
    known = true;
    enforcement.podsChanged(['shop/web']);
    await enforcement.settled();
    expect(is(enforcement)).toBe('policed');
  });

  it.each([
    ['without policy', 'free'],
    ['empty', 'closed'],
  ] as const)('is on a bridge that was %s %s', async (bridgeBefore, standing) => {
    known = false;
    const enforcement = await enforce({ bridgeBefore });
    enforcement.adopt(web);
    expect(is(enforcement)).toBe(standing);
  });

  it.each([
    ['closed', 'closed'],
    ['open', 'free'],
  ] as const)('is, where `whenUnknown` is %s, %s', async (whenUnknown, standing) => {
    known = false;
    const enforcement = await enforce({ whenUnknown });
    await enforcement.attach(web, never);
    expect(is(enforcement)).toBe(standing);
  });

  it('is refused where `whenUnknown` says so', async () => {
    known = false;
    const enforcement = await enforce({ whenUnknown: 'refuse' });
    await expect(enforcement.attach(web, never)).rejects.toMatchObject({ code: 'UNAVAILABLE' });
    expect(bridge.wanted.has(web.owner)).toBe(false);
  });

  it('is closed without labels in a namespace with policies, and says why, and free in one without', async () => {
    facts.clear();
    const enforcement = await enforce();
    await enforcement.attach(web, never);
    expect(is(enforcement)).toBe('free');
    await enforcement.settled();
    put(denyAll);
    await enforcement.settled();
    expect(is(enforcement)).toBe('closed');
    await enforcement.attach(second, never);
    expect(enforcement.pods().get('shop/two')).toMatchObject({ is: 'closed', why: 'the labels of the pod are not known yet' });
  });
});

it('makes the flows of pods that stay as they are no second time, whoever starts beside them', async () => {
  facts.clear();
  const enforcement = await enforce();
  await enforcement.attach(web, never);
  await enforcement.settled();
  bridge.told.length = 0;
  await enforcement.attach(second, never);
  await enforcement.settled();
  expect(bridge.told).toEqual([`want ${second.owner}`]);
  put(denyAll);
  await enforcement.settled();
  expect(is(enforcement)).toBe('closed');
  expect(bridge.told).toContain(`want ${web.owner}`);
});

describe('numbers', () => {
  const asked: string[] = [];
  let leftovers = true;
  const returns = () =>
    new NumberReturns({
      flows: {
        acknowledged: (revision) => asked.push(`acknowledged ${revision}`) > 99,
        leftoversGone: () => asked.push('leftovers gone') > 0,
      },
      nodeState: { hasPolicyLeftovers: () => leftovers, reconcilers: { bridge: { realizedRevision: 5 } } },
      now: () => 0,
    });

  it('are not free before removals are allowed, nor before the bridge was seen without leftovers', () => {
    const numbers = returns();
    expect(numbers.look()).toBe(false);
    numbers.removalsAllowed();
    expect(numbers.look()).toBe(false);
    expect(asked).toEqual([]);
    leftovers = false;
    expect(numbers.look()).toBe(true);
    leftovers = true; // of no matter any more: what this agent wants and removes goes by revisions
    expect(numbers.look()).toBe(false);
    expect(asked).toEqual(['leftovers gone', 'acknowledged 5', 'acknowledged 5']);
  });
});
