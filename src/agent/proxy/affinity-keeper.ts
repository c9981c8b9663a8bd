import { setTimeout as sleep } from 'node:timers/promises';
import { idle } from '../../async/pause.ts';
import { SeineError } from '../../errors/seine-error.ts';
import type { Log } from '../../log/log.ts';
import { ipFromValue } from '../../net/ip.ts';
import type { Action } from '../../openflow/action.ts';
import type { OpenFlowConnection } from '../../openflow/connection.ts';
import { writeFlowMod } from '../../openflow/flow-mod.ts';
import type { FlowEntry } from '../../openflow/flow-stats.ts';
import { decodeInstructions } from '../../openflow/instructions.ts';
import { learnedCookieOf, type Owner } from '../../pipeline/cookie.ts';
import { tables } from '../../pipeline/tables.ts';
import { longestSwitchTimeout } from '../../proxy/compile-service.ts';
import { endpointKey, reachableEndpoints, type ServiceIntent } from '../../proxy/service-intent.ts';
import { ByteWriter } from '../../wire/bytes.ts';

/**
 * When learned choices are looked at after a change, in ms after the acknowledgement: a packet under way through what the data path
 * remembers of the old flows learns the old choice once more.
 */
const AFTER_MS = [0, 40, 600] as const;
/** How often choices that the switch cannot let expire are looked at (ms). */
const LONG_LOOK_MS = 60_000;
const WHOLE_COOKIE = 0xffff_ffff_ffff_ffffn;

export interface AffinityKeeperOptions {
  readonly bridge: Pick<OpenFlowConnection, 'dumpFlows' | 'bundle' | 'untilUp'>;
  readonly log: Log;
  readonly signal: AbortSignal;
  readonly nowMs?: () => number;
}

interface Use {
  readonly packets: bigint;
  readonly sinceMs: number;
}

/**
 * Takes learned choices of endpoints away where the switch does not do it by itself: the endpoint is gone, the Service has no
 * affinity any more, or its timeout is longer than a flow's can be.
 */
export class AffinityKeeper {
  readonly #options: AffinityKeeperOptions;
  readonly #nowMs: () => number;
  /** Seconds, of those that are ours to let expire. */
  readonly #long = new Map<Owner, number>();
  /** Since when each of their choices has seen no packet; by match. */
  #uses = new Map<string, Use>();
  #removed = 0;

  constructor(options: AffinityKeeperOptions) {
    this.#options = options;
    this.#nowMs = options.nowMs ?? (() => performance.now());
  }

  /** Choices taken away. */
  get removed(): number {
    return this.#removed;
  }

  /** @param before undefined if the port is new */
  changed(owner: Owner, before: ServiceIntent | undefined, after: ServiceIntent | undefined, acknowledged: Promise<void>): void {
    const seconds = after?.affinitySeconds ?? 0;
    if (seconds > longestSwitchTimeout) this.#long.set(owner, seconds);
    else this.#long.delete(owner);
    if (before?.affinitySeconds === undefined || !losesEndpoints(before, after)) return;
    const there = new Set(after?.affinitySeconds === undefined ? [] : reachableEndpoints(after).map(endpointKey));
    this.#clean(owner, there, acknowledged).catch((thrown: unknown) => this.#failed(thrown));
  }

  /** Lets long choices expire until the signal. */
  async run(): Promise<void> {
    const { signal } = this.#options;
    while (!signal.aborted) {
      await idle(LONG_LOOK_MS, signal);
      if (!signal.aborted) await this.expire().catch((thrown: unknown) => this.#failed(thrown));
    }
  }

  /** Takes away long choices that no new connection has used for their Service's time, as far as this agent has seen it. */
  async expire(): Promise<void> {
    const uses = new Map<string, Use>();
    for (const [owner, seconds] of this.#long) {
      await this.#remove(owner, (flow) => {
        const key = Buffer.from(flow.match).toString('latin1');
        const known = this.#uses.get(key);
        const sinceMs = known?.packets === flow.packets ? known.sinceMs : this.#nowMs();
        uses.set(key, { packets: flow.packets, sinceMs });
        return this.#nowMs() - sinceMs >= seconds * 1_000;
      });
    }
    this.#uses = uses;
  }

  async #clean(owner: Owner, there: ReadonlySet<string>, acknowledged: Promise<void>): Promise<void> {
    const { signal } = this.#options;
    await acknowledged;
    let passedMs = 0;
    for (const atMs of AFTER_MS) {
      if (atMs > passedMs) await sleep(atMs - passedMs, undefined, { signal, ref: false });
      passedMs = atMs;
      await this.#remove(owner, (flow) => !there.has(chosenEndpoint(flow) ?? ''));
    }
  }

  async #remove(owner: Owner, which: (flow: FlowEntry) => boolean): Promise<void> {
    const { bridge, signal } = this.#options;
    await bridge.untilUp(signal);
    const gone: Uint8Array[] = [];
    const learned = { table: tables.affinity.id, cookie: learnedCookieOf(owner), cookieMask: WHOLE_COOKIE };
    await bridge.dumpFlows(learned, (flow) => void (which(flow) && gone.push(strictDelete(flow))), signal);
    if (gone.length > 0) await bridge.bundle(gone, signal);
    this.#removed += gone.length;
  }

  #failed(thrown: unknown): void {
    if (this.#options.signal.aborted) return;
    this.#options.log.failing('affinity', 'choices of gone endpoints were not all taken away', {
      cause: SeineError.from(thrown, 'session affinity').message,
    });
  }
}

/** Also true where the port goes, or its affinity. */
function losesEndpoints(before: ServiceIntent, after: ServiceIntent | undefined): boolean {
  if (after?.affinitySeconds === undefined) return true;
  const there = new Set(reachableEndpoints(after).map(endpointKey));
  return reachableEndpoints(before).some((endpoint) => !there.has(endpointKey(endpoint)));
}

function strictDelete({ table, priority, match }: FlowEntry): Uint8Array {
  const w = new ByteWriter(128);
  writeFlowMod(w, { command: 'deleteStrict', table, priority, match, instructions: new Uint8Array(0) });
  return w.finish();
}

/** As `endpointKey` has it: what a learned flow loads into the registers of the chosen endpoint. */
function chosenEndpoint({ instructions }: Pick<FlowEntry, 'instructions'>): string | undefined {
  const { apply: actions = [] } = decodeInstructions(instructions);
  const value = (field: string, mask?: number): bigint | undefined => {
    const found = actions.findLast((action) => isLoad(action, field, mask));
    return found?.kind === 'setField' && !(found.value instanceof Uint8Array) ? BigInt(found.value) : undefined;
  };
  const [ipv4, ipv6, port] = [value('reg3'), value('xxreg3'), value('reg4', 0xffff)];
  if (port === undefined || (ipv4 === undefined && ipv6 === undefined)) return undefined;
  const ip = ipv6 === undefined ? ipFromValue('ipv4', ipv4 ?? 0n) : ipFromValue('ipv6', ipv6);
  return endpointKey({ ip, port: Number(port) });
}

function isLoad(action: Action, field: string, mask: number | undefined): boolean {
  return action.kind === 'setField' && action.field === field && (mask === undefined || Number(action.mask) === mask);
}
