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
import { OpenedByHand } from './operator-overrides.ts';

/** Offset of the command in a group-mod message, and the command "add or modify" of Open vSwitch. */
const GROUP_COMMAND = { offset: 8, addOrModify: 0x8000 } as const;

/** What is not more than this goes in one round trip. Open vSwitch reads fifty messages in a turn of its loop. */
const atOnceMost = 256;

/** Flows, groups and meters of one bridge, and that nothing else of OpenFlow is set. A plan is one ordered atomic bundle, with meters made before it and removed after it. */
export class BridgeTarget implements Target<BridgeKey, BridgeValue> {
  readonly #connection: OpenFlowConnection;
  readonly #learned: Pick<LearnedFlows, 'covers' | 'wasTaught'> | undefined;
  readonly #packings: readonly Packing<BridgeKey, BridgeValue>[];
  /** By which root has opened pods: left alone until their time is over. */
  readonly openedByHand = new OpenedByHand();
  /** Once the switch has refused a message and made the rest of its bundle: it is asked about each bundle before that is committed. */
  #isAsked = false;

  /** @param learned which flows the switch may have added itself; left out: none @param packings entries of these kinds are shown packed */
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

  /** Learned flows are the switch's own and wanted by no owner, so they are not shown: those that a wanted step teaches, and no others. */
  async visit(see: (key: BridgeKey, value: BridgeValue) => void, signal: AbortSignal): Promise<void> {
    await this.#connection.untilUp(signal);
    for (const meter of await this.#connection.dumpMeters(signal)) if (isOrdinaryMeter(meter)) see(...observedMeter(meter));
    await this.#connection.visitGroups((id, message) => see(...observedGroupMod(id, message)), signal);
    await visitSettings(this.#connection, see, signal);
    await this.#connection.dumpFlows(
      {},
      (flow) => this.#learned?.covers(flow) || this.openedByHand.note(flow) || see(...observedFlow(flow)),
      signal,
    );
    this.openedByHand.looked();
  }

  /** What a step taught that is not wanted any more. */
  isLeftover(key: BridgeKey, value: BridgeValue): boolean {
    return isFlowKey(key) && this.#learned?.wasTaught(decodeFlowEntry(key, value)) === true;
  }

  /**
   * Make before break: groups and meters before the flows that use them, additions before removals, later tables before those that lead
   * to them, and after them when they go; and a group or meter goes last, because deleting it deletes the flows that use it (OpenFlow
   * 1.5.1 sections 6.5, 6.6). A refused plan leaves nothing behind but changed rates of existing meters.
   *
   * A small plan is committed with its messages, in one round trip. The first time that the switch refuses one of these, what is left of the plan is there:
   * `UNAVAILABLE`, so the bridge is looked at anew; and from then on the switch is asked before it is told to commit. So it always is about what has to come as a
   * whole.
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

/** In the order in which they are made. Each is valid until the next one is asked for. */
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
