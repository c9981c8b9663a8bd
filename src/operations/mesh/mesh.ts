import type { FoundProblem } from '../../api/problem.ts';
import { idle } from '../../base/async/pause.ts';
import type { Family, Ip } from '../../base/net/ip.ts';
import type { EchoOutcome } from '../../netlink/packets/icmp-echo.ts';
import type { EventRecorder } from '../history/event-stream.ts';
import { fixedPeers } from './fixed-peers.ts';
import { type MeshEcho, MeshPath, type MeshState } from './mesh-path.ts';
import type { MeshSettings } from './mesh-settings.ts';

/** Addresses of a path: gateways, and nodes outside the tunnel. */
export interface MeshEnds {
  readonly family: Family;
  readonly from: Ip;
  readonly to: Ip;
  readonly outside?: { readonly from: Ip; readonly to: Ip };
}

export interface MeshOptions {
  readonly own: string;
  /** Current settings, which may change at any time. */
  readonly settings: () => MeshSettings;
  /** Names of all nodes, sorted. */
  readonly names: () => readonly string[];
  /** Paths to a peer; none while it has no pod network, or this node has no flows for it. */
  readonly ends: (peer: string) => readonly MeshEnds[];
  /** Sends one echo of this size of the IP packet. Never rejects, except after an abort. */
  readonly echo: (
    ends: { readonly from: Ip; readonly to: Ip },
    bytes: number,
    signal: AbortSignal,
  ) => Promise<{ readonly outcome: EchoOutcome; readonly rttMs: number }>;
  /** Longest packet that pods send. */
  readonly mtu: () => number;
  readonly events: EventRecorder;
  /** Receives each round trip in seconds. */
  readonly observe: (seconds: number) => void;
  readonly now: () => number;
  /** 0 to 1. */
  readonly random: () => number;
}

const SMALL_BYTES = 100;
const SECOND_MS = 1_000;
/** Interval of echoes of full size on one path, and on all paths of this node together (ms): each path has its turn. */
const FULL_EVERY_MS = 15_000;
const FULL_OF_ALL_EVERY_MS = 5_000;
/** Maximum number of echoes at once, and of paths to peers that are not fixed. */
const AT_ONCE = 64;
const OTHERS_MAX = 64;
const NAMED_MAX = 10;
/** Interval at which fixed peers are computed again (ms). */
const CHOOSE_EVERY_MS = 5_000;
const TICK_MS = 200;

/** Path in `GET /v1/mesh`. */
interface MeshPathView {
  readonly peer: string;
  readonly family: Family;
  readonly state: MeshState;
  /** True if it is one of the fixed peers. */
  readonly fixed: boolean;
  readonly rttMs: number | null;
  /** Losses in a row. */
  readonly losses: number;
  /** Seconds in this state. */
  readonly seconds: number;
  /** True if the peer answers outside the tunnel while it is lost; null if unknown. */
  readonly outside: boolean | null;
}

interface ObservedPath {
  readonly path: MeshPath;
  dueMs: number;
  /** Time of the last echo of full size. */
  fullMs: number;
  isAsked: boolean;
}

/** Observes the paths to some peers with ICMP echoes, at a cost that does not depend on the size of the cluster. */
export class Mesh {
  readonly #options: MeshOptions;
  readonly #paths = new Map<string, ObservedPath>();
  #fixed: ReadonlySet<string> = new Set();
  #chosenMs: number | undefined;
  #randomMs: number;
  #asking = 0;
  #failure: { readonly thrown: unknown } | undefined;
  readonly counters = { sent: 0, lost: 0 };

  constructor(options: MeshOptions) {
    this.#options = options;
    this.#randomMs = options.now();
  }

  /** Settings in force. */
  get settings(): MeshSettings {
    return this.#options.settings();
  }

  get isEnabled(): boolean {
    const { intervalMs, peers } = this.#options.settings();
    return intervalMs > 0 && peers > 0;
  }

  /** Observes until the signal is aborted. @throws what `echo` or `ends` threw, which only a fault of this program does */
  async run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      if (this.#failure) throw this.#failure.thrown;
      this.step(signal);
      await idle(this.isEnabled ? TICK_MS : SECOND_MS, signal);
    }
  }

  /** Sends what is due; forgets everything while the settings disable echoes. */
  step(signal: AbortSignal): void {
    const { now } = this.#options;
    if (!this.isEnabled) {
      this.#paths.clear();
      this.#fixed = new Set();
      this.#chosenMs = undefined;
      return;
    }
    if (this.#chosenMs === undefined || now() - this.#chosenMs >= CHOOSE_EVERY_MS) this.#choose();
    if (now() - this.#randomMs >= SECOND_MS) this.#observeRandom();
    for (const observed of this.#paths.values())
      if (observed.dueMs <= now() && !observed.isAsked && this.#asking < AT_ONCE) void this.#ask(observed, signal);
  }

  #choose(): void {
    const { names, own, now, settings, random } = this.#options;
    const { intervalMs, peers } = settings();
    // After a shorter interval, no echo waits for the end of the one before.
    for (const observed of this.#paths.values()) observed.dueMs = Math.min(observed.dueMs, now() + intervalMs * 1.1);
    const all = names();
    this.#chosenMs = now();
    this.#fixed = new Set(fixedPeers(all, own, peers));
    const present = new Set(all);
    for (const [key, { path }] of this.#paths) if (!present.has(path.peer) || !this.#isKept(path)) this.#paths.delete(key);
    for (const peer of this.#fixed) this.#observe(peer, () => now() + random() * Math.min(intervalMs, SECOND_MS * 5));
  }

  /** A path to a peer that is not fixed is observed while it is not decided, or not well. */
  #isKept(path: MeshPath): boolean {
    return this.#fixed.has(path.peer) || path.isUrgent || path.state === 'slow' || path.state === 'mtu' || path.state === 'lost';
  }

  #observeRandom(): void {
    const { names, own, now, random } = this.#options;
    this.#randomMs = now();
    const all = names();
    const peer = all[Math.floor(random() * all.length)];
    if (peer !== undefined && peer !== own && !this.#fixed.has(peer) && this.#paths.size < this.#fixed.size * 2 + OTHERS_MAX)
      this.#observe(peer, now);
  }

  #observe(peer: string, dueMs: () => number): void {
    for (const { family } of this.#options.ends(peer)) {
      const key = `${family} ${peer}`;
      if (this.#paths.has(key)) continue;
      const { now, random } = this.#options;
      // Paths that begin together do not send full size at one time.
      const fullMs = now() - random() * this.#fullEveryMs;
      this.#paths.set(key, { path: new MeshPath(peer, family, now()), dueMs: dueMs(), fullMs, isAsked: false });
    }
  }

  /** Never rejects. */
  async #ask(observed: ObservedPath, signal: AbortSignal): Promise<void> {
    const { ends: endsOf } = this.#options;
    const { path } = observed;
    observed.isAsked = true;
    this.#asking++;
    try {
      const ends = endsOf(path.peer).find(({ family }) => family === path.family);
      if (ends) await this.#askPath(observed, ends, signal);
    } catch (thrown) {
      if (!signal.aborted) this.#failure ??= { thrown };
    } finally {
      this.#asking--;
      observed.isAsked = false;
      observed.dueMs = this.#nextMs(observed);
    }
  }

  #nextMs({ path, fullMs }: ObservedPath): number {
    const { now, settings, random } = this.#options;
    const { intervalMs } = settings();
    if (path.isUrgent) return now() + SECOND_MS;
    const nextMs = now() + intervalMs * (0.9 + random() * 0.2);
    // With few paths the turn of full size comes soon, and does not wait for the interval.
    const isSoon = this.#fullEveryMs <= 2 * intervalMs;
    return isSoon ? Math.min(nextMs, Math.max(fullMs + this.#fullEveryMs, now() + SECOND_MS)) : nextMs;
  }

  async #askPath(observed: ObservedPath, ends: MeshEnds, signal: AbortSignal): Promise<void> {
    const { echo, observe, mtu, now } = this.#options;
    const { path } = observed;
    const isWatched = path.losses >= 2 && ends.outside !== undefined;
    const [small, outside] = await Promise.all([
      this.#counted(() => echo(ends, SMALL_BYTES, signal)),
      isWatched && ends.outside ? echo(ends.outside, SMALL_BYTES, signal) : undefined,
    ]);
    if (outside) path.outside = outside.outcome === 'answered';
    if (small.outcome === 'answered') observe(small.rttMs / 1_000);
    this.#note(path, { size: 'small', ...small });
    const isFullDue = now() - observed.fullMs >= this.#fullEveryMs;
    if (small.outcome !== 'answered' || !(path.needsFull || isFullDue)) return;
    observed.fullMs = now();
    const full = await this.#counted(() => echo(ends, mtu(), signal));
    this.#note(path, { size: 'full', ...full });
  }

  get #fullEveryMs(): number {
    return Math.max(FULL_EVERY_MS, this.#paths.size * FULL_OF_ALL_EVERY_MS);
  }

  async #counted<T extends { readonly outcome: EchoOutcome }>(send: () => Promise<T>): Promise<T> {
    this.counters.sent++;
    const result = await send();
    if (result.outcome !== 'answered') this.counters.lost++;
    return result;
  }

  #note(path: MeshPath, echo: Omit<MeshEcho, 'atMs'>): void {
    const { events, mtu, now } = this.#options;
    const { peer, family, state: before } = path;
    const state = path.note({ ...echo, atMs: now() });
    const subjects = [`node/${peer}`];
    if (state === 'lost') events.note('mesh.lost', subjects, { peer, family });
    else if (state === 'slow') events.note('mesh.slow', subjects, { peer, family, rttMs: path.rttMs ?? 0 });
    else if (state === 'mtu') events.note('mesh.mtu', subjects, { peer, family, bytes: mtu() });
    else if (state === 'reached' && before !== 'unknown') events.note('mesh.reached', subjects, { peer, family });
  }

  /** Number of fixed peers by their worst state. */
  states(): Readonly<Record<MeshState, number>> {
    const counts = { unknown: 0, reached: 0, slow: 0, lost: 0, mtu: 0 };
    for (const peer of this.#fixed) {
      const states = [...this.#paths.values()].filter(({ path }) => path.peer === peer).map(({ path }) => path.state);
      const worst = (['lost', 'mtu', 'slow', 'reached'] as const).find((state) => states.includes(state)) ?? 'unknown';
      counts[worst]++;
    }
    return counts;
  }

  /** All observed paths, by peer. */
  paths(): readonly MeshPathView[] {
    const nowMs = this.#options.now();
    return [...this.#paths.values()]
      .map(({ path: { peer, family, state, rttMs, losses, stateMs, outside } }) => ({
        peer,
        family,
        state,
        fixed: this.#fixed.has(peer),
        rttMs: rttMs === undefined ? null : Math.round(rttMs * 100) / 100,
        losses,
        seconds: Math.round((nowMs - stateMs) / 1_000),
        outside: outside ?? null,
      }))
      .toSorted((a, b) => (a.peer === b.peer ? (a.family < b.family ? -1 : 1) : a.peer < b.peer ? -1 : 1));
  }

  /** Peers that are lost, slow, or do not answer long packets: ten, then a count. If most are slow, this node is. */
  problems(): readonly FoundProblem[] {
    const found = [...this.#paths.values()].filter(({ path: { state } }) => state === 'lost' || state === 'mtu' || state === 'slow');
    const slow = found.filter(({ path }) => path.state === 'slow').length;
    const isSlowItself = this.#paths.size > 3 && slow > this.#paths.size / 2;
    const shown = isSlowItself ? found.filter(({ path }) => path.state !== 'slow') : found;
    const byPeer = [
      ...Map.groupBy(
        shown.map(({ path }) => path),
        ({ peer }) => peer,
      ),
    ];
    const more = byPeer.length - NAMED_MAX;
    return [
      ...byPeer.slice(0, NAMED_MAX).map(([peer, paths]): FoundProblem => {
        return { kind: 'mesh.peer', about: peer, message: this.#messageOf(peer, paths), remedy: `seinectl check --peer ${peer}` };
      }),
      ...(more > 0
        ? [{ kind: 'mesh.peer', about: 'more', message: `${more} more nodes are lost, slow, or do not answer long packets` } as const]
        : []),
    ];
  }

  #messageOf(peer: string, paths: readonly MeshPath[]): string {
    const sentences = paths.map(({ family, state, rttMs = 0, outside }) => {
      if (state === 'slow') return `answers over ${family} after ${Math.round(rttMs)} ms, much later than usual`;
      if (state === 'mtu') return `answers over ${family}, but not to packets of ${this.#options.mtu()} bytes`;
      const cause = outside === undefined ? '' : outside ? '; its own address answers' : '; nor does its own address';
      return `does not answer over ${family}${cause}`;
    });
    return `node ${peer} ${sentences.join(', and ')}`;
  }
}
