import { Doorbell } from '../../base/async/wake-signal.ts';
import { SeineError } from '../../base/errors/seine-error.ts';
import type { Log } from '../../base/log/log.ts';
import type { NodeEnvironment } from '../../dataplane/compile/environment.ts';
import { ownerOf } from '../../dataplane/pipeline/cookie.ts';
import type { NodeState } from '../../dataplane/targets/node-state.ts';
import { type WireGuardEntry, type WireGuardKey, wantedDevice } from '../../dataplane/targets/wireguard/wireguard-entry.ts';
import { wireGuardKeyAnnotation, wireGuardNextKeyAnnotation } from '../../kubernetes/resources/node-annotations.ts';
import type { WireGuardDevice } from '../../netlink/wireguard/wireguard.ts';
import { WireGuardPrivateKey, type WireGuardPublicKey } from '../../netlink/wireguard/wireguard-key.ts';
import { clearOwner } from '../local/node-desired-state.ts';
import type { OwnAnnotations } from '../modes/own-annotations.ts';
import { Encryption } from './encryption.ts';
import type { NodeKeys, WireGuardKeyFile } from './key-file.ts';
import { announcedForMs, nextKeyText, rotationStep } from './rotation.ts';

/** Time between the removal of the annotation with the key and that of the device (ms): peers have ceased to encrypt by then. */
const endingMs = 10_000;

/** Interval between checks of a device that the node refuses (ms). */
const REFUSED_RETRY_MS = 5_000;

const deviceOwner = ownerOf('node', 'wireguard');

/** Parts of the node with which encryption is kept. */
interface EncryptionParts {
  readonly nodeState: Pick<NodeState, 'wantWireGuard' | 'reconcilers' | 'firewall' | 'wireguard'>;
  readonly environment: () => NodeEnvironment;
  readonly annotations: OwnAnnotations;
  /** Called when the modes of peers may have changed. */
  readonly modesChanged: () => void;
  /** Called with peers whose keys have changed. */
  readonly keysChanged: (names: readonly string[]) => void;
  /** Called when the device is there, and before peers know its key: the kernel's settings of it are not those of the agent yet. */
  readonly deviceReady: () => void;
  /** Called when encryption has ended. */
  readonly ended: () => void;
  readonly log: Log;
}

interface OpenOptions {
  readonly isEnabled: boolean;
  readonly file: Pick<WireGuardKeyFile, 'open' | 'write' | 'exists'>;
  /** Reads the WireGuard device of this node with its peers. */
  readonly observe: () => Promise<ReadonlyMap<WireGuardKey, WireGuardEntry>>;
  /** Reads the same with the handshakes; undefined if there is no device. */
  readonly read: () => Promise<WireGuardDevice | undefined>;
  readonly now?: () => number;
  readonly monotonic?: () => number;
}

/**
 * Encryption on this node: its keys, the WireGuard device, and the announcement of the key. Three states: `off`, `on`, and `ending` after
 * the configuration has turned it off: the device accepts packets until no peer sends encrypted ones.
 */
export class NodeEncryption {
  readonly peers: Encryption;
  readonly #options: Required<OpenOptions>;
  readonly #bell = new Doorbell();
  #state: 'off' | 'on' | 'ending';
  #keys: NodeKeys | undefined;
  #parts: EncryptionParts | undefined;
  #hasDevice = false;
  #checkedAt: number;

  private constructor(
    options: Required<OpenOptions>,
    state: 'off' | 'on' | 'ending',
    keys: NodeKeys | undefined,
    inherited: ReadonlySet<WireGuardPublicKey>,
  ) {
    this.#options = options;
    this.#state = state;
    this.#keys = keys;
    this.#checkedAt = options.now();
    this.peers = new Encryption({
      environment: () => this.#part.environment(),
      isOwnKey: (key) => this.#publicKeys().includes(key),
      announcedSince: () => this.#parts?.annotations.writtenSince(wireGuardKeyAnnotation),
      inherited,
      announced: () => this.#bell.ring(),
      now: options.now,
      monotonic: options.monotonic,
    });
  }

  /**
   * Reads the key of this node, or generates one, and what a previous agent has left.
   *
   * @throws SeineError `INVALID_INPUT` if the key file is invalid; `UNAVAILABLE`
   */
  static async open({ now = () => Date.now(), monotonic = () => performance.now(), ...given }: OpenOptions): Promise<NodeEncryption> {
    const options = { ...given, now, monotonic };
    const observed = await options.observe();
    const device = observed.get('device');
    const isLeft = observed.size > 0 && options.file.exists();
    if (!options.isEnabled && !isLeft) return new NodeEncryption(options, 'off', undefined, new Set());
    const keys = await options.file.open();
    const isSame = device?.kind === 'device' && device.publicKey === keys.current.publicKey;
    const peers = ((await options.read())?.peers ?? []).filter(({ handshakeAt }) => handshakeAt !== undefined);
    return new NodeEncryption(
      options,
      options.isEnabled ? 'on' : 'ending',
      keys,
      new Set(isSame ? peers.map(({ publicKey }) => publicKey) : []),
    );
  }

  /** Reports whether peers may still send encrypted packets although encryption is turned off. */
  get isEnding(): boolean {
    return this.#state === 'ending';
  }

  get publicKey(): WireGuardPublicKey | undefined {
    return this.#keys?.current.publicKey;
  }

  /** Returns the time (Unix, ms) at which the key changes; undefined if none is announced. */
  get changesAt(): number | undefined {
    return this.#keys?.next?.at;
  }

  /**
   * Announces a new key, with which this node and its peers replace the present one shortly after.
   *
   * @returns the time of the change (Unix, ms): that of a change that is announced already
   * @throws SeineError `REFUSED` if encryption is off; `UNAVAILABLE` if the key cannot be stored
   */
  async rotate(): Promise<number> {
    if (this.#state !== 'on' || this.#keys === undefined) throw new SeineError('REFUSED', 'trafficEncryptionMode is not wireGuard');
    const { current, next } = this.#keys;
    if (next) return next.at;
    const at = this.#options.now() + announcedForMs;
    const keys = { current, next: { key: WireGuardPrivateKey.generate(), at } };
    await this.#options.file.write(keys);
    this.#keys = keys;
    this.#bell.ring();
    return at;
  }

  /** Sets the parts of the node; before the first peer is handled. */
  use(parts: EncryptionParts): void {
    this.#parts = parts;
  }

  /** Rings when the environment of the node has changed. */
  check(): void {
    this.#bell.ring();
  }

  /** Keeps device and announcement until the signal is aborted. */
  async run(signal: AbortSignal): Promise<void> {
    const { annotations } = this.#part;
    if (this.#state === 'off') return this.#announceNothing();
    const end = annotations.subscribe(() => this.#bell.ring());
    try {
      // No packet may leave around the device once there is one.
      while (this.#state === 'on' && !(await this.#isTableReady(signal))) await this.#wait(REFUSED_RETRY_MS, signal);
      while (!signal.aborted && this.#isActive()) {
        await this.#wait(await this.#step(signal), signal);
      }
    } catch (thrown) {
      if (!signal.aborted) throw thrown;
    } finally {
      end();
    }
  }

  /** Waits for an event, or at most for a time (ms). */
  async #wait(waitMs: number | undefined, signal: AbortSignal): Promise<void> {
    const timer = waitMs === undefined ? undefined : setTimeout(() => this.#bell.ring(), Math.ceil(waitMs) + 1);
    await this.#bell.wait(signal);
    clearTimeout(timer);
  }

  /** Sets what is desired now. @returns the time until the next step (ms); undefined: none without an event */
  async #step(signal: AbortSignal): Promise<number | undefined> {
    if (this.#state === 'ending') return this.#end();
    const rotation = await this.#rotate();
    this.#wantDevice();
    const isReady = await this.#isDeviceReady(signal);
    if (isReady && !this.#hasDevice) this.#part.deviceReady();
    this.#hasDevice = isReady;
    if (isReady) this.#announce();
    if (this.peers.awaitsHandshakes()) this.peers.noteHandshakes(await this.#read());
    this.#checkPeers();
    if (!isReady) return REFUSED_RETRY_MS;
    const peers = this.peers.nextChangeIn();
    return rotation === undefined || peers === undefined ? (rotation ?? peers) : Math.min(rotation, peers);
  }

  #isActive(): boolean {
    return this.#state !== 'off';
  }

  #wantDevice(): void {
    const { nodeState, environment } = this.#part;
    const { wireGuard, gateway } = environment();
    if (wireGuard && this.#keys)
      nodeState.wantWireGuard(deviceOwner, new Map([['device', wantedDevice(this.#keys.current, wireGuard.port, gateway.mtu)]]));
  }

  /** Announces the key once the device accepts packets for it. */
  #announce(): void {
    const { annotations } = this.#part;
    const { current, next } = this.#keys ?? {};
    annotations.want(wireGuardKeyAnnotation, current?.publicKey);
    annotations.want(wireGuardNextKeyAnnotation, next && nextKeyText(next));
  }

  #isTableReady(signal: AbortSignal): Promise<boolean> {
    const { reconcilers, firewall } = this.#part.nodeState;
    return this.#succeeds('table against cleartext', 'cannot be set up', () =>
      reconcilers.firewall.realizedFor(clearOwner, firewall.revision, signal),
    );
  }

  #isDeviceReady(signal: AbortSignal): Promise<boolean> {
    const { reconcilers, wireguard } = this.#part.nodeState;
    return this.#succeeds('WireGuard device', 'cannot be set up', () =>
      reconcilers.wireguard.realizedFor(deviceOwner, wireguard.revision, signal),
    );
  }

  /** Awaits a step that the node may refuse, or not be able to do now. @returns false after such a failure, which is logged */
  async #succeeds(what: string, failure: string, step: () => Promise<void>): Promise<boolean> {
    const { log } = this.#part;
    try {
      await step();
      log.working(what);
      return true;
    } catch (thrown) {
      const error = SeineError.from(thrown, what);
      if (error.code !== 'REFUSED' && error.code !== 'UNAVAILABLE') throw error;
      log.failing(what, `the ${what} ${failure}`, { cause: error.message });
      return false;
    }
  }

  /** Reads the device. A reading that fails is repeated. */
  async #read(): Promise<WireGuardDevice | undefined> {
    try {
      return await this.#options.read();
    } catch (thrown) {
      const error = SeineError.from(thrown, 'read the WireGuard device');
      if (error.code === 'INVARIANT') throw error;
      return undefined;
    }
  }

  #announceNothing(): void {
    const { annotations } = this.#part;
    annotations.want(wireGuardKeyAnnotation, undefined);
    annotations.want(wireGuardNextKeyAnnotation, undefined);
  }

  /** Tells peers to cease to encrypt, and removes the device after they have. */
  #end(): number | undefined {
    const { annotations, nodeState, ended, log } = this.#part;
    this.#wantDevice();
    this.#announceNothing();
    const since = annotations.writtenSince(wireGuardKeyAnnotation);
    if (since === undefined) return undefined;
    const leftMs = since + endingMs - this.#options.monotonic();
    if (leftMs > 0) return leftMs;
    this.#state = 'off';
    nodeState.wantWireGuard(deviceOwner, new Map());
    ended();
    log.info('encryption between nodes has ended');
    return undefined;
  }

  async #rotate(): Promise<number | undefined> {
    const { now, file } = this.#options;
    if (this.#keys === undefined) return undefined;
    const isAnnounced = this.#part.annotations.writtenSince(wireGuardNextKeyAnnotation) !== undefined;
    const step = rotationStep(this.#keys, isAnnounced, now());
    if (step.do === 'wait') return step.until - now();
    if (step.do !== 'change') return undefined;
    if (!(await this.#succeeds('WireGuard key file', 'cannot be written', () => file.write(step.keys)))) return REFUSED_RETRY_MS;
    this.#keys = step.keys;
    this.#part.log.info('the WireGuard key of this node has changed', { publicKey: step.keys.current.publicKey });
    return undefined;
  }

  #checkPeers(): void {
    const now = this.#options.now();
    const changed = this.peers.changedBetween(this.#checkedAt, now);
    this.#checkedAt = now;
    if (changed.length > 0) this.#part.keysChanged(changed);
    this.#part.modesChanged();
  }

  #publicKeys(): readonly WireGuardPublicKey[] {
    const { current, next } = this.#keys ?? {};
    return [...(current ? [current.publicKey] : []), ...(next ? [next.key.publicKey] : [])];
  }

  get #part(): EncryptionParts {
    if (this.#parts === undefined) throw new SeineError('INVARIANT', 'encryption was not given the parts of the node');
    return this.#parts;
  }
}
