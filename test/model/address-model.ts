import { silentLog } from '../../src/base/log/log.ts';
import { deletionFileName } from '../../src/cni/deletions.ts';
import { cniCodes } from '../../src/cni/errors.ts';
import { type DelRequest, parseCniRequest } from '../../src/cni/request.ts';
import type { WireRequest } from '../../src/cni/wire.ts';
import { openHostPort } from '../../src/dataplane/compile/host-port.ts';
import { CniCalls } from '../../src/pods/cni-server/calls.ts';
import type { RecordedDeletion, RecordedDeletions } from '../../src/pods/cni-server/deletions.ts';
import { Ipam } from '../../src/pods/ipam/ipam.ts';
import { attachmentId, type Lease } from '../../src/pods/ipam/lease.ts';
import { MemoryJournalStore, type WriteOutcome, type WriteStep } from '../../src/pods/ipam/testing/memory-journal-store.ts';
import { FakeDelegatedIpam, poolOf } from '../support/cni-bench.ts';
import { type Bug, ForgetfulStore, type InjectedFault, LateStore } from './address-faults.ts';
import { ModelPodNetwork } from './model-pod-network.ts';

const never = new AbortController().signal;
const network = 'seine';

interface AgentProcess {
  readonly ipam: Ipam;
  readonly calls: CniCalls;
  readonly store: MemoryJournalStore;
}

/**
 * A node whose agent is real down to IPAM and journal, with a kernel, a runtime, a disk and an API server that are models. Every action is
 * one step of one of them; nothing happens by itself.
 */
export class AddressModel {
  /** Interfaces of the kernel, and their addresses. */
  readonly links = new Map<string, readonly string[]>();
  /** Interfaces whose removal was requested and is not done yet. */
  readonly going = new Set<string>();
  /** The attachments in the runtime's view, with their addresses. */
  readonly live = new Map<string, readonly string[]>();
  /** The API server's view; it lags. */
  readonly api = new Map<string, readonly string[]>();
  /** Containers for which a DEL is due: lost, or with a failed ADD. Only GC finds their remains. */
  readonly #owed = new Set<string>();
  readonly spool = new Map<string, RecordedDeletion>();
  readonly faults: string[] = [];
  readonly #bug: Bug | undefined;
  readonly #pools: readonly string[];
  #agent: AgentProcess | undefined;
  #content: Uint8Array = new Uint8Array();
  #boot = 1;
  #mishap: InjectedFault = 'none';
  #diskFull = false;
  #epoch = 0;

  constructor(pools: readonly string[], bug?: Bug) {
    this.#pools = pools;
    this.#bug = bug;
  }

  get isUp(): boolean {
    return this.#agent !== undefined;
  }

  /** Starts the agent: reads the journal, takes the inventory, executes the recorded DELs. */
  async start(): Promise<void> {
    const store = this.#store();
    const ipam = await this.#open(store);
    const ports = new ModelPodNetwork(this, ++this.#epoch);
    const deletions: Pick<RecordedDeletions, 'has' | 'list' | 'remove'> = {
      has: (key) => this.spool.has(attachmentId(key)),
      list: async () => [...this.spool.values()],
      remove: async (key) => void this.spool.delete(attachmentId(key)),
    };
    if (this.#bug === 'losesDeletions') this.spool.clear();
    const calls = new CniCalls({
      ipam,
      network: ports,
      deletions,
      delegatedIpam: new FakeDelegatedIpam(),
      reportPoolExhausted: true,
      hostPortCheck: () => openHostPort,
      pods: undefined,
      log: silentLog,
    });
    this.#agent = { ipam, calls, store };
    this.#takeInventory(ipam);
    await calls.settleDeletions(never);
  }

  /** Kills the agent. */
  kill(): void {
    if (this.#agent) this.#content = Uint8Array.from(this.#agent.store.content);
    this.#agent = undefined;
    this.#epoch++;
  }

  /** Reboots the host: every interface is deleted, and the runtime knows it. */
  reboot(): void {
    this.kill();
    this.#boot++;
    this.links.clear();
    this.going.clear();
    for (const container of this.live.keys()) this.#owed.add(container);
    this.live.clear();
  }

  async add(container: string, mishap: InjectedFault): Promise<void> {
    const agent = this.#agent;
    if (!agent) return;
    this.#owed.add(container);
    this.#mishap = mishap;
    this.#diskFull = mishap === 'diskFull';
    const gone = new AbortController();
    const { reply, undo } = await agent.calls.handle(wireOf('ADD', container), gone.signal);
    if (mishap === 'diesBeforeAnswer') this.kill();
    if (mishap === 'pluginGone') await undo?.();
    this.#mishap = 'none';
    this.#diskFull = false;
    if (this.#agent === agent && agent.store.dead) return this.reboot();
    if (this.#agent !== agent) return;
    if (reply.exit !== 0 && reply.stdout.includes(`"code":${cniCodes.alreadyAttached}`)) return; // of a lost container
    if (reply.exit !== 0 || mishap === 'pluginGone') {
      if (agent.ipam.leaseOf({ network, containerId: container, ifName: 'eth0' }))
        this.faults.push(`the failed ADD of ${container} left a lease`);
      if (this.links.has(container) && !this.going.has(container)) this.faults.push(`the failed ADD of ${container} left an interface`);
      this.#owed.delete(container);
      return;
    }
    const { ips } = JSON.parse(reply.stdout) as { readonly ips: readonly { readonly address: string }[] };
    this.live.set(
      container,
      ips.map(({ address }) => address.replace(/\/.*/, '')),
    );
    this.#owed.delete(container);
  }

  /** The runtime deletes the container. */
  async del(container: string, mishap: InjectedFault = 'none'): Promise<void> {
    this.live.delete(container);
    const wire = wireOf('DEL', container);
    const agent = this.#agent;
    if (!agent) {
      const request = parseCniRequest(wire.env, wire.conf) as DelRequest;
      if (deletionFileName(request.attachment).length !== 69) this.faults.push('a deletion without a name');
      this.spool.set(attachmentId(request.attachment), { request, wire });
      this.#owed.delete(container);
      return;
    }
    this.#owed.add(container);
    this.#mishap = mishap;
    const { reply } = this.#bug === 'keepsLeases' ? { reply: { exit: 0 } } : await agent.calls.handle(wire, never);
    this.#mishap = 'none';
    if (this.#bug === 'keepsLeases' && this.links.has(container)) this.going.add(container);
    if (mishap === 'diesBeforeAnswer' || this.#agent !== agent || agent.store.dead) this.kill();
    else if (reply.exit === 0) this.#owed.delete(container);
  }

  /** The container ends, with its namespace, without a DEL. */
  lose(container: string): void {
    if (this.live.delete(container)) this.#owed.add(container);
    if (this.links.has(container)) this.going.add(container);
  }

  kernelFinishes(): void {
    for (const container of this.going) this.links.delete(container);
    this.going.clear();
  }

  apiCatchesUp(): void {
    this.api.clear();
    for (const [container, ips] of this.live) this.api.set(container, ips);
  }

  async collectGarbage(): Promise<void> {
    if (!this.#agent) return;
    const list = [...this.live.keys()].map((containerID) => ({ containerID, ifname: 'eth0' }));
    if (this.#bug !== 'deafGc') await this.#agent.calls.handle(wireOf('GC', '', { 'cni.dev/valid-attachments': list }), never);
  }

  async reclaim(): Promise<void> {
    await this.#agent?.ipam.reclaim(never);
  }

  /** The leases, also those of an agent that does not run. */
  async leases(): Promise<readonly Lease[]> {
    if (this.#agent) return this.#agent.ipam.leases();
    return (await this.#open(new MemoryJournalStore(this.#content))).leases();
  }

  /** Equal for states that behave alike. */
  async key(): Promise<string> {
    const lines = (map: ReadonlyMap<string, readonly string[]>) => [...map].map(([name, ips]) => `${name}=${ips.join('+')}`).toSorted();
    const leases = (await this.leases()).map(
      ({ containerId, state, addresses, attached }) =>
        `${containerId}:${state[0]}:${attached ? 'y' : 'n'}:${addresses.map(({ ip }) => ip.text).join('+')}`,
    );
    return [
      this.isUp,
      leases.toSorted(),
      lines(this.links),
      [...this.going].toSorted(),
      lines(this.live),
      lines(this.api),
      [...this.spool.keys()].toSorted(),
      [...this.#owed].toSorted(),
    ].join('|');
  }

  /** Checks the invariants; called after every action. */
  async check(): Promise<void> {
    const owners = new Map<string, string>();
    const addFault = (what: string) => this.faults.push(what);
    for (const [container, ips] of this.live)
      for (const ip of ips) {
        const other = owners.get(ip);
        if (other !== undefined) addFault(`${ip} is given to ${other} and ${container}`);
        owners.set(ip, container);
      }
    const leases = await this.leases();
    const allocated = new Map<string, Lease>();
    for (const lease of leases)
      for (const { ip } of lease.addresses) {
        if (allocated.has(ip.text)) addFault(`${ip.text} has two leases`);
        allocated.set(ip.text, lease);
      }
    for (const [container, ips] of this.links)
      for (const ip of ips) {
        const lease = allocated.get(ip);
        if (lease === undefined) addFault(`${ip} is on the interface of ${container}, and free`);
        else if (lease.state === 'allocated' && lease.containerId !== container)
          addFault(`${ip} is on the interface of ${container}, and allocated to ${lease.containerId}`);
        if (this.live.has(container) && lease?.state === 'quarantined') addFault(`${ip} of ${container}, which is alive, is in quarantine`);
      }
  }

  /** Completes all operations, and checks for leaks. */
  async settle(): Promise<void> {
    if (!this.#agent) await this.start();
    this.kernelFinishes();
    if (this.#owed.size > 0) await this.collectGarbage();
    this.kernelFinishes();
    this.apiCatchesUp();
    await this.reclaim();
    await this.check();
    const leases = await this.leases();
    for (const { containerId, state, addresses } of leases)
      if (state !== 'allocated' || addresses.map(({ ip }) => ip.text).join() !== this.live.get(containerId)?.join())
        this.faults.push(`a lease of ${containerId} (${state}) has leaked`);
    for (const container of this.links.keys()) if (!this.live.has(container)) this.faults.push(`the interface of ${container} has leaked`);
    for (const container of this.live.keys()) if (!this.links.has(container)) this.faults.push(`${container} has lost its interface`);
  }

  get refuses(): boolean {
    return this.#mishap === 'refused';
  }

  /** Reports to the model of the data plane whether the agent dies. */
  dies(at: InjectedFault, epoch: number): boolean {
    if (epoch !== this.#epoch) return true;
    if (this.#mishap !== at) return false;
    this.kill();
    return true;
  }

  async #open(store: MemoryJournalStore): Promise<Ipam> {
    return await Ipam.open({
      store,
      pools: this.#pools.map(poolOf),
      bootId: `boot ${this.#boot}`,
      isAbsent: async ({ containerId, addresses }) =>
        this.#bug === 'blindToLinks' || !addresses.some(({ ip }) => this.links.get(containerId)?.includes(ip.text)),
      isClaimedByApi: ({ addresses }) => [...this.api.values()].some((ips) => addresses.some(({ ip }) => ips.includes(ip.text))),
      quarantinePatienceMs: 0,
      log: silentLog,
    });
  }

  /** Like `takeInventory`, with the journal that always exists here. */
  #takeInventory(ipam: Ipam): void {
    const kept = new Set<string>();
    for (const lease of ipam.leases().filter(({ state }) => state === 'allocated')) {
      const { containerId } = lease;
      if (lease.attached && this.links.has(containerId) && !this.going.has(containerId) && this.#bug !== 'releasesAll')
        kept.add(containerId);
      else ipam.release(lease);
    }
    for (const container of this.links.keys()) if (!kept.has(container)) this.going.add(container);
  }

  #store(): MemoryJournalStore {
    if (this.#bug === 'forgetfulDisk') return new ForgetfulStore(this.#content);
    const Store = this.#bug === 'handsOverLate' ? LateStore : MemoryJournalStore;
    // Unsynced data is zero after the host's death.
    return new Store(
      this.#content,
      (step) => this.#nextFate(step),
      (below) => below - 1,
    );
  }

  #nextFate(step: WriteStep): WriteOutcome {
    if (this.#diskFull) return 'failed';
    if (step === 'append') return this.#mishap === 'machineDiesInWrite' ? 'crash' : 'done';
    if (this.#mishap === 'syncFails') return 'failed';
    if (this.#mishap === 'machineDiesInSync') return 'crash';
    if (this.#mishap === 'diesInSync') this.kill();
    return 'done';
  }
}

function wireOf(command: string, containerId: string, extra: object = {}): WireRequest {
  const env = {
    CNI_COMMAND: command,
    CNI_CONTAINERID: containerId,
    CNI_NETNS: `/run/netns/${containerId}`,
    CNI_IFNAME: 'eth0',
    CNI_PATH: '/opt/cni/bin',
  };
  return { env, conf: JSON.stringify({ cniVersion: '1.1.0', name: network, ...extra }), deadlineMs: 1_000, attempt: 1 };
}
