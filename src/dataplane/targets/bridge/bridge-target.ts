import { ByteWriter } from '../../../base/bytes/bytes.ts';
import { SeineError } from '../../../base/errors/seine-error.ts';
import type { OpenFlowConnection } from '../../../openflow/connection/connection.ts';
import { writeFlowMod } from '../../../openflow/flows/flow-mod.ts';
import { writeGroupMod } from '../../../openflow/groups/group.ts';
import type { BundleMessages } from '../../../openflow/runs/bundle-run.ts';
import { PackedMap, type Packing } from '../../reconcile/packed-entries.ts';
import type { Plan, Target } from '../../reconcile/target.ts';
import {
  type BridgeKey,
  type BridgeValue,
  decodeFlowEntry,
  deleteFlow,
  depthOfKey,
  groupMessage,
  isFlowKey,
  isGroupKey,
  isMeterKey,
  isOpenFlowSetting,
  isOrdinaryMeter,
  numberOf,
  observedFlow,
  observedGroupMod,
  observedMeter,
} from './bridge-entry.ts';
import { addFlowMessage } from './flow-message.ts';
import type { LearnedFlows } from './learned-flows.ts';
import { deleteMeters, putMeters } from './meter-changes.ts';
import { restoreSettings, visitSettings } from './openflow-settings.ts';
import { OperatorOverrides } from './operator-overrides.ts';

/** Offset of the command in a group-mod message, and Open vSwitch's command "add or modify". */
const GROUP_COMMAND = { offset: 8, addOrModify: 0x8000 } as const;

/** Maximum number of messages sent in one round trip with their commit. Open vSwitch reads fifty messages in one turn of its loop. */
const atOnceMost = 256;

/**
 * Target for the flows, groups and meters of one bridge, and for the absence of other OpenFlow settings. A plan is one ordered atomic
 * bundle, with meters created before it and removed after it.
 */
export class BridgeTarget implements Target<BridgeKey, BridgeValue> {
  readonly #connection: OpenFlowConnection;
  readonly #learned: Pick<LearnedFlows, 'covers' | 'wasTaught'> | undefined;
  readonly #packings: readonly Packing<BridgeKey, BridgeValue>[];
  /** Flows with which root has opened pods: ignored until they expire. */
  readonly operatorOverrides = new OperatorOverrides();
  /**
   * Set once OVS has refused a message but applied the rest of its bundle: from then on the answers to all messages are awaited before the
   * commit.
   */
  #isAsked = false;

  /** @param learned flows that OVS may have added itself; none if omitted @param packings kinds of entries that are returned packed */
  constructor(
    connection: OpenFlowConnection,
    learned?: Pick<LearnedFlows, 'covers' | 'wasTaught'>,
    packings: readonly Packing<BridgeKey, BridgeValue>[] = [],
  ) {
    this.#connection = connection;
    this.#learned = learned;
    this.#packings = packings;
  }

  async ready(signal: AbortSignal): Promise<void> {
    await this.#connection.untilUp(signal);
  }

  async observe(signal: AbortSignal): Promise<Map<BridgeKey, BridgeValue>> {
    const entries = new PackedMap<BridgeKey, BridgeValue>(this.#packings);
    await this.visit((key, value) => entries.set(key, value), signal);
    return entries;
  }

  /**
   * Visits all entries. Leaves out learned flows, which OVS adds itself and no owner wants: those, and only those, that a desired learn
   * step creates.
   */
  async visit(see: (key: BridgeKey, value: BridgeValue) => void, signal: AbortSignal): Promise<void> {
    await this.#connection.untilUp(signal);
    for (const meter of await this.#connection.dumpMeters(signal)) if (isOrdinaryMeter(meter)) see(...observedMeter(meter));
    await this.#connection.visitGroups((id, message) => see(...observedGroupMod(id, message)), signal);
    await visitSettings(this.#connection, see, signal);
    await this.#connection.dumpFlows(
      {},
      (flow) => this.#learned?.covers(flow) || this.operatorOverrides.note(flow) || see(...observedFlow(flow)),
      signal,
    );
    this.operatorOverrides.looked();
  }

  /** Reports whether the entry was learned by a step that is no longer desired. */
  isLeftover(key: BridgeKey, value: BridgeValue): boolean {
    return isFlowKey(key) && this.#learned?.wasTaught(decodeFlowEntry(key, value)) === true;
  }

  /**
   * Applies make before break: groups and meters before the flows that use them; additions before removals; later tables before those that
   * forward to them, and removed after them. A group or meter is removed last, because deleting it deletes the flows that use it (OpenFlow
   * 1.5.1 sections 6.5, 6.6). A refused plan leaves no change except changed rates of existing meters.
   *
   * A small plan is sent with its commit, in one round trip. The first time that OVS refuses one of its messages, the rest of the plan is
   * applied: the result is `UNAVAILABLE`, so the bridge is observed again, and from then on the commit is sent after the answers to the
   * messages. Plans that have to be atomic are always sent this way.
   */
  async apply({ put, remove, isWhole }: Plan<BridgeKey, BridgeValue>, signal: AbortSignal): Promise<void> {
    const groups = [...put].filter(([key]) => isGroupKey(key));
    const puts = [...put].filter(([key]) => isFlowKey(key)).sort(([a], [b]) => depthOfKey(b) - depthOfKey(a));
    const removals = [...remove].filter(isFlowKey).sort((a, b) => depthOfKey(a) - depthOfKey(b));
    const without = [...remove].filter(isGroupKey);
    const length = groups.length + puts.length + removals.length + without.length;
    const messages = { length, [Symbol.iterator]: () => messagesOf({ groups, puts, removals, without }) };
    const meters = [...put].filter(([key]) => isMeterKey(key));
    const made = await putMeters(this.#connection, meters, signal);
    await this.#bundle(messages, isWhole === true, made, signal);
    await deleteMeters(this.#connection, [...remove].filter(isMeterKey), signal);
    await restoreSettings(this.#connection, [...remove].filter(isOpenFlowSetting), signal);
  }

  async #bundle(messages: BundleMessages, isWhole: boolean, made: readonly BridgeKey[], signal: AbortSignal): Promise<void> {
    const isAtOnce = !this.#isAsked && !isWhole && messages.length <= atOnceMost;
    try {
      if (isAtOnce)
        await this.#connection.bundleAtOnce(
          Array.from(messages, (message) => message.slice()),
          signal,
        );
      else await this.#connection.bundle(messages, signal);
    } catch (thrown) {
      if (thrown instanceof SeineError && thrown.context['inPart'] === true) this.#isAsked = true;
      if (thrown instanceof SeineError && thrown.code === 'REFUSED') await deleteMeters(this.#connection, made, signal);
      throw thrown;
    }
  }
}

interface BridgeMessages {
  readonly groups: readonly (readonly [BridgeKey, BridgeValue])[];
  readonly puts: readonly (readonly [BridgeKey, BridgeValue])[];
  readonly removals: readonly BridgeKey[];
  readonly without: readonly BridgeKey[];
}

/** Messages in the order in which they are sent. Each is valid until the next one is read. */
function* messagesOf({ groups, puts, removals, without }: BridgeMessages): Generator<Uint8Array> {
  for (const [, value] of groups) yield putGroup(value);
  for (const [key, value] of puts) yield addFlowMessage(key, value);
  for (const key of removals) yield deletion(key);
  for (const key of without) yield deleteGroup(numberOf(key));
}

function putGroup(value: BridgeValue): Uint8Array {
  const message = groupMessage(value);
  new DataView(message.buffer, message.byteOffset).setUint16(GROUP_COMMAND.offset, GROUP_COMMAND.addOrModify);
  return message;
}

function deleteGroup(id: number): Uint8Array {
  const w = new ByteWriter();
  writeGroupMod(w, { command: 'delete', id, type: 'select', buckets: [] });
  return w.finish();
}

const scratch = new ByteWriter(1024);

function deletion(key: BridgeKey): Uint8Array {
  writeFlowMod(scratch.truncate(0), deleteFlow(key));
  return scratch.written();
}
