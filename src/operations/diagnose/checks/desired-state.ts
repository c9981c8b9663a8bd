import { setTimeout as sleep } from 'node:timers/promises';
import type { Finding } from '../../../api/check.ts';
import type { Entry, EntryKind } from '../../../api/entry.ts';
import { withoutCode } from '../../../base/errors/seine-error.ts';
import type { NodeReader } from '../entries/node-reader.ts';
import { type Check, fine, reportAll, trouble } from './check.ts';

/** Time after which repairable entries are repaired (ms). */
const REPAIR_MS = 1_500;
/** Maximum number of entries that are named. */
const NAMED_MAX = 3;
/** Maximum number of entries that are kept for counting and naming; a bridge that was emptied lacks hundreds of thousands. */
const KEPT_MAX = 100_000;

/** Targets that are kept in sync, with the kinds of their entries. */
const parts = [
  { check: 'node.ports', kinds: ['bridge', 'port'], effect: 'the affected pods or nodes have no network' },
  {
    check: 'node.flows',
    kinds: ['flow', 'group', 'meter'],
    effect: 'packets that need missing entries are dropped; unexpected entries may allow packets that must be denied',
  },
  {
    check: 'node.routes',
    kinds: ['route', 'rule', 'neighbour', 'address', 'link'],
    effect: 'this node itself does not reach pods or Services by them: probes, host-network pods, node ports',
  },
  {
    check: 'node.firewall',
    kinds: ['firewall'],
    effect: 'pods reach the outside with their own addresses and get no answer; node ports do not answer',
  },
  { check: 'node.interfaces', kinds: ['interface'], effect: 'the pods that have them lose packets, or have no network' },
] as const;

export interface NodePartsPort {
  readonly reader: Pick<NodeReader, 'differences'>;
  readonly repair: { readonly secondsLeft: number };
}

/** Checks that flows, ports, interfaces, routes and our nftables tables are in sync. */
export function wanted({ reader, repair }: NodePartsPort): Check {
  return {
    name: 'node',
    run: async (_, reporter, signal) => {
      let entries = await collect(reader.differences(signal));
      const paused = repair.secondsLeft;
      if (entries.length > 0 && paused === 0) {
        await sleep(REPAIR_MS, undefined, { signal });
        entries = await collect(reader.differences(signal));
      }
      reportAll(reporter, assessEntries(entries, paused));
    },
  };
}

async function collect(entries: Promise<AsyncIterable<Entry>>): Promise<readonly Entry[]> {
  const kept: Entry[] = [];
  for await (const entry of await entries) if (kept.push(entry) >= KEPT_MAX) break;
  return kept;
}

/** @param pausedSeconds remaining time of the repair pause; 0 if it is not paused */
export function assessEntries(entries: readonly Entry[], pausedSeconds: number): readonly Finding[] {
  return parts.map(({ check, kinds, effect }) => {
    const found = entries.filter(({ kind }) => (kinds as readonly EntryKind[]).includes(kind));
    if (found.length === 0) return fine(check, 'in sync');
    const named = found.slice(0, NAMED_MAX).map(({ kind, name, state }) => `${kind} ${name} ${state}`);
    const more = found.length > NAMED_MAX ? ` and ${found.length - NAMED_MAX} more` : '';
    const error = found.find((entry) => entry.error)?.error;
    const why = error && withoutCode(error.message);
    const reason = pausedSeconds > 0 ? `; repair is paused for another ${pausedSeconds} s` : why === undefined ? '' : `; ${why}`;
    return trouble(check, 'problem', {
      what: `${named.join(', ')}${more}${reason}`,
      effect,
      remedy: pausedSeconds > 0 ? 'seinectl resume' : 'seinectl diff',
    });
  });
}
