import { abortable } from '../../base/async/abortable.ts';
import { SeineError } from '../../base/errors/seine-error.ts';
import { cidrContains, type Ip, parseIp } from '../../base/net/ip.ts';
import type { Mac } from '../../base/net/mac.ts';
import type { AddressPool } from './address-pool.ts';
import type { AttachedPod, AttachmentKey, PodAddress } from './attachment.ts';
import { Journal, type Written } from './journal.ts';
import { decodeJournal, type JournalRecord } from './journal-records.ts';
import type { JournalStore } from './journal-store.ts';
import { attachmentId, type Lease, type LeaseRequest, type Pool, type PoolUsage, throwIfAborted } from './lease.ts';
import { LeaseTable } from './lease-table.ts';
import { isUnicastMac, podMac } from './pod-mac.ts';
import { poolsFor, poolsOf } from './pools.ts';
import { Quarantine, type QuarantineOptions } from './quarantine.ts';

interface IpamOptions extends QuarantineOptions {
  readonly store: JournalStore;
  /** Pools, at most one for each family. */
  readonly pools: readonly Pool[];
  /** Boot ID of the kernel, which distinguishes a restart of the agent from a reboot. */
  readonly bootId: string;
}

/** Lease that may be used before it is durable, but not reported. */
export interface WrittenLease extends Written {
  readonly lease: Lease;
}

/**
 * Allocates addresses to pods, and records each on disk before it is reported.
 *
 * An address is never allocated twice, whatever fails: a lease that cannot be made durable is refused, and a released address stays in
 * quarantine until its absence is proven. Leaks are possible after a crash, duplicates are not. Leaks end with `release` for every lease
 * whose pod is gone, which the owner of the inventory decides.
 */
export class Ipam {
  readonly #options: IpamOptions;
  readonly #journal: Journal;
  readonly #table = new LeaseTable();
  readonly #quarantine: Quarantine;
  #pools: readonly AddressPool[];
  /** Serials of adopted leases whose record may not be on disk. */
  readonly #unwritten = new Set<number>();
  #rebooted = false;
  #damaged = 0;

  /**
   * Reads the journal. A disk that cannot be written is not an error here: existing leases stay known, and new leases are refused.
   *
   * @throws SeineError `INVALID_INPUT` for pools without room and for a journal of a newer format
   */
  static async open(options: IpamOptions): Promise<Ipam> {
    const ipam = new Ipam(options);
    await ipam.#load();
    return ipam;
  }

  private constructor(options: IpamOptions) {
    this.#options = options;
    this.#pools = poolsOf(options.pools);
    this.#journal = new Journal(options.store, () => this.#snapshot());
    this.#quarantine = new Quarantine(options, this.#table, (lease) => this.#forget(lease));
  }

  /** True if the host has booted since the journal was written: all namespaces, links and flows of that time are gone. */
  get rebooted(): boolean {
    return this.#rebooted;
  }

  /** Number of records of the journal that could not be read: leases may be missing, and must be found by inspecting the node. */
  get damaged(): number {
    return this.#damaged;
  }

  /** Reason why new leases are refused at present; undefined if they are not. */
  get failure(): SeineError | undefined {
    return this.#journal.failure;
  }

  /**
   * Writes the journal again if a write failed or the file was removed. To be called periodically: while `failure` is set, no other caller
   * may try. Never fails.
   */
  async retryJournal(): Promise<void> {
    if (!this.#journal.isInPlace) await this.#journal.rewrite().catch(() => undefined); // `failure` has it
  }

  /**
   * Reads the journal back, and writes it again if it differs from the state in memory. If it cannot be written, `failure` has the error.
   *
   * @returns reason for writing it again; undefined if that was not needed
   * @throws SeineError `UNAVAILABLE` if it cannot be compared now
   */
  checkJournal(): Promise<string | undefined> {
    return this.#journal.check();
  }

  /** Returns the allocated lease of an attachment. */
  leaseOf(key: AttachmentKey): Lease | undefined {
    return this.#table.allocated(key);
  }

  /**
   * Returns all leases in the order of their allocation. A lease with `attached` is a pod that was served and may still exist, in any
   * state.
   */
  leases(): readonly Lease[] {
    return this.#table.all();
  }

  hasMac(mac: Mac): boolean {
    return this.#table.hasMac(mac);
  }

  usage(): readonly PoolUsage[] {
    const leases = this.leases();
    return this.#pools.map(({ pool, size }) => {
      const inPool = leases.filter(({ addresses }) => addresses.some(({ ip }) => cidrContains(pool.cidr, ip)));
      const quarantined = inPool.filter(({ state }) => state === 'quarantined').length;
      return { cidr: pool.cidr.text, size, allocated: inPool.length - quarantined, quarantined };
    });
  }

  /** Returns the pool without a free address after addresses in quarantine were checked; undefined if all pools have one. */
  async exhausted(signal: AbortSignal): Promise<PoolUsage | undefined> {
    const full = () => this.usage().find(({ size, allocated, quarantined }) => allocated + quarantined >= size);
    if (full()) await this.reclaim(signal, 'urgent');
    return full();
  }

  /** Sets the pools of new leases. Leases from other pools stay until they are released. */
  setPools(pools: readonly Pool[]): void {
    this.#pools = poolsOf(pools);
    for (const lease of this.leases()) this.#occupy(lease);
  }

  /**
   * Leases an address of every family. When this resolves, the lease survives the death of this process and may be used. Once it is
   * `durable`, it survives a crash of the host; it must not be reported before. If the host crashes earlier, everything that used the
   * address is gone too.
   *
   * @throws SeineError `INVALID_INPUT` for an address that cannot be requested, `REFUSED` if none is left, the requested one is in use or
   * the attachment has a lease, `UNAVAILABLE` if it cannot be written, `CANCELLED`. Nothing is leased then.
   */
  async allocate(request: LeaseRequest, signal: AbortSignal): Promise<WrittenLease> {
    throwIfAborted(signal);
    if (this.leaseOf(request)) throw new SeineError('REFUSED', `${attachmentId(request)} has a lease already`);
    await this.#quarantine.reclaimUntil(() => !this.#quarantine.holds(request.addresses), signal);
    const lease = this.#reserve(request) ?? (await this.#reserveAfterReclaim(request, signal));
    try {
      throwIfAborted(signal);
      return { lease, ...(await abortable(this.#journal.write({ op: 'lease', lease }), signal)) };
    } catch (thrown) {
      this.#forget(lease);
      throw thrown;
    }
  }

  /**
   * Records that the data plane serves the pod. Not durable: if the record is lost in a crash of the host, so is the pod. But after a crash
   * of the agent an acknowledged pod must not appear unfinished: see `acknowledge`.
   */
  confirm(key: AttachmentKey, attached: AttachedPod): void {
    const lease = this.#need(key);
    this.#table.put({ ...lease, attached });
    this.#journal.keep({ op: 'attached', serial: lease.serial, attached });
  }

  /** Calls `confirm`, and waits until the record survives the death of this process. Then the pod may be reported as attached. */
  async acknowledge(key: AttachmentKey, attached: AttachedPod): Promise<void> {
    this.confirm(key, attached);
    await this.handedOver();
  }

  /**
   * Releases the addresses, into quarantine if they are from the agent's pools; an attachment without a lease is not an error. Never fails:
   * if the record cannot be written, the inventory finds and releases the lease after a restart.
   */
  release(key: AttachmentKey): void {
    this.#quarantine.deleted(key);
    const lease = this.leaseOf(key);
    if (!lease) return;
    if (lease.ipamType !== undefined) {
      this.#forget(lease);
      return;
    }
    this.#table.put({ ...lease, state: 'quarantined' });
    this.#journal.keep({ op: 'quarantine', serial: lease.serial });
  }

  /**
   * Records which attachments of a network the runtime considers valid. Their leases in quarantine stay there: a pod that the node has lost
   * may still exist for the runtime.
   */
  keepValid(network: string, attachments: readonly Omit<AttachmentKey, 'network'>[]): void {
    this.#quarantine.keepValid(network, attachments);
  }

  /**
   * Frees addresses in quarantine whose absence is proven. To be called periodically; it is also called when a pool is exhausted.
   *
   * @param need `urgent` if there is no other address: then it suffices that nothing on this node has it
   * @returns number of leases freed
   */
  reclaim(signal: AbortSignal, need: 'none' | 'urgent' = 'none'): Promise<number> {
    return this.#quarantine.reclaim(signal, need);
  }

  /**
   * Records an attachment whose addresses were not allocated here: found on the node but not in the journal, for example after the journal
   * was lost, or allocated by another plugin. Durable when this resolves.
   *
   * @throws SeineError `REFUSED` if one of its addresses is leased to another attachment, `UNAVAILABLE`
   */
  async adopt(found: Omit<Lease, 'serial' | 'state'>): Promise<Lease> {
    const known = this.leaseOf(found);
    if (known && !this.#unwritten.has(known.serial)) return known;
    const lease = known ?? this.#take(found);
    this.#unwritten.add(lease.serial);
    await (await this.#journal.write({ op: 'lease', lease })).durable;
    this.#unwritten.delete(lease.serial);
    return lease;
  }

  #take(found: Omit<Lease, 'serial' | 'state'>): Lease {
    const holder = this.leases().find(({ addresses }) =>
      addresses.some(({ ip }) => found.addresses.some((other) => other.ip.text === ip.text)),
    );
    if (holder) throw new SeineError('REFUSED', `an address of ${attachmentId(found)} is leased to ${attachmentId(holder)}`);
    const lease: Lease = { ...found, serial: this.#table.nextSerial(), state: 'allocated' };
    this.#occupy(lease);
    this.#table.put(lease);
    return lease;
  }

  /** Resolves once all confirmations and releases so far survive the death of this process, or cannot be written at all. */
  async handedOver(): Promise<void> {
    await this.#journal.handedOver();
  }

  /** Waits for writes in progress. */
  async close(): Promise<void> {
    await this.#journal.close();
  }

  async #load(): Promise<void> {
    const { store, log, bootId } = this.#options;
    const text = Buffer.from(await store.load()).toString('utf8');
    const { records, torn, damaged } = decodeJournal(text);
    this.#damaged = damaged;
    if (damaged > 0) log.error('the IPAM journal is damaged', { damaged, records: records.length });
    if (torn) log.info('the IPAM journal ends in the middle of a record', { records: records.length });
    for (const record of records) this.#replay(record);
    for (const lease of this.leases()) this.#occupy(lease);
    const boot = records.find(({ op }) => op === 'open');
    this.#rebooted = boot?.op === 'open' && boot.boot !== bootId;
    try {
      await this.#journal.rewrite();
    } catch (thrown) {
      log.error('no pod can get an address: the IPAM journal cannot be written', {
        cause: String(SeineError.from(thrown, 'rewrite').cause),
      });
    }
  }

  #replay(record: JournalRecord): void {
    if (record.op === 'open') for (const cursor of record.cursors) this.#moveCursors(parseIp(cursor));
    // Leases up to the serial of `open` existed when the file was begun, and the cursors include them.
    if (record.op === 'lease' && record.lease.serial > this.#table.lastSerial)
      for (const { ip } of record.lease.addresses) this.#moveCursors(ip);
    this.#table.replay(record);
  }

  #snapshot(): readonly JournalRecord[] {
    const cursors = this.#pools.map(({ cursor }) => cursor.text);
    const open: JournalRecord = { op: 'open', boot: this.#options.bootId, serial: this.#table.lastSerial, cursors };
    return [open, ...this.leases().map((lease) => ({ op: 'lease', lease }) as const)];
  }

  /**
   * Picks and reserves addresses in one turn of the event loop, so no two requests can pick the same. Returns undefined if a pool is
   * exhausted.
   */
  #reserve(request: LeaseRequest): Lease | undefined {
    const mac = this.#macFor(request);
    const addresses: PodAddress[] = [];
    for (const pool of poolsFor(request, this.#pools)) {
      const wanted = request.addresses.find(({ family }) => family === pool.pool.cidr.family);
      const ip = wanted ? this.#claim(pool, wanted, addresses) : pool.take();
      if (!ip) {
        this.#release(addresses);
        return undefined;
      }
      addresses.push({ ip, prefixLength: pool.pool.cidr.prefixLength, gateway: pool.pool.gateway });
    }
    const { network, containerId, ifName, netns } = request;
    const serial = this.#table.nextSerial();
    const more = askedBesides(request);
    const lease: Lease = { serial, network, containerId, ifName, state: 'allocated', addresses, mac, netns, ...more };
    this.#table.put(lease);
    return lease;
  }

  async #reserveAfterReclaim(request: LeaseRequest, signal: AbortSignal): Promise<Lease> {
    let lease: Lease | undefined;
    const reserved = () => (lease = this.leaseOf(request) ? undefined : this.#reserve(request)) !== undefined;
    await this.#quarantine.reclaimUntil(reserved, signal);
    if (lease) return lease;
    throw new SeineError('REFUSED', `no address is left in ${this.#pools.map(({ pool }) => pool.cidr.text).join(' or ')}`, {
      context: { usage: this.usage() },
    });
  }

  #claim(pool: AddressPool, wanted: Ip, sofar: readonly PodAddress[]): Ip {
    const claim = pool.claim(wanted);
    if (claim === 'claimed') return wanted;
    this.#release(sofar);
    const context = { asked: 'ip', ip: wanted.text };
    if (claim === 'taken') throw new SeineError('REFUSED', `${wanted.text} is in use`, { context });
    const where = claim === 'reserved' ? 'it is reserved in' : 'it is not in';
    throw new SeineError('INVALID_INPUT', `${wanted.text} cannot be requested: ${where} pod CIDR ${pool.pool.cidr.text}`, { context });
  }

  #macFor(request: LeaseRequest): Mac {
    if (request.mac === undefined) return podMac(request, (mac) => this.#table.hasMac(mac));
    const context = { asked: 'mac' };
    if (!isUnicastMac(request.mac))
      throw new SeineError('INVALID_INPUT', `${request.mac} is not a valid MAC for an interface`, { context });
    if (this.#table.hasMac(request.mac)) throw new SeineError('REFUSED', `MAC ${request.mac} is in use`, { context });
    return request.mac;
  }

  #forget(lease: Lease): void {
    this.#table.remove(lease.serial);
    this.#unwritten.delete(lease.serial);
    this.#release(lease.addresses);
    this.#journal.keep({ op: 'free', serial: lease.serial });
  }

  #release(addresses: readonly PodAddress[]): void {
    for (const { ip } of addresses) for (const pool of this.#pools) pool.free(ip);
  }

  #occupy(lease: Lease): void {
    for (const { ip } of lease.addresses) for (const pool of this.#pools) pool.occupy(ip);
  }

  #moveCursors(ip: Ip): void {
    for (const pool of this.#pools) pool.moveCursor(ip);
  }

  #need(key: AttachmentKey): Lease {
    const lease = this.leaseOf(key);
    if (!lease) throw new SeineError('INVARIANT', `${attachmentId(key)} has no lease`);
    return lease;
  }
}

/** Returns the parts of a request, other than addresses, that the lease stores. */
function askedBesides({ pod, egress, ingress, limits, hostPorts }: LeaseRequest): Partial<Lease> {
  return {
    ...(pod ? { pod } : {}),
    ...(egress ? { egress } : {}),
    ...(ingress ? { ingress } : {}),
    ...(limits ? { limits } : {}),
    ...(hostPorts ? { hostPorts } : {}),
  };
}
