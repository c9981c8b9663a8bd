import { within } from '../../base/async/time-limit.ts';
import type { Doorbell } from '../../base/async/wake-signal.ts';
import type { Log } from '../../base/log/log.ts';
import { publishedCapabilities, readDatapathFacts } from '../../dataplane/targets/switch/datapath-facts.ts';
import { capabilitiesOf, type DatapathCapabilities, missingIn } from '../../dataplane/targets/switch/datapath-features.ts';
import type { SwitchDatabase } from '../../dataplane/targets/switch/switch-database.ts';
import type { OpenFlowConnection } from '../../openflow/connection/connection.ts';

/** A switch that takes longer to answer is asked again when it has restarted (ms). */
const ANSWER_WITHIN_MS = 2_000;
/** How long ovs-vswitchd may take to say what its data path can do (ms); one that never says it is taken as it is. */
const SAID_WITHIN_MS = 10_000;

/** Under this name the findings stand among the agent's warnings. */
const WARNING = 'data path';

interface FollowDatapathOptions {
  readonly dataPath: 'system' | 'netdev';
  readonly plane: {
    readonly database: SwitchDatabase;
    readonly openflow: OpenFlowConnection;
    /** Rings when ovs-vswitchd has come, or publishes other capabilities. */
    readonly datapathChanged: Doorbell;
  };
  /** Of the node, in sentences, by the part of the agent that found them. */
  readonly warnings: Map<string, readonly string[]>;
}

/** What the data path of this node can do, as it was found last. */
export class DatapathProbe {
  #capabilities: DatapathCapabilities | undefined;

  /** Undefined until it was looked at. */
  get capabilities(): DatapathCapabilities | undefined {
    return this.#capabilities;
  }

  /**
   * Looks at the data path whenever ovs-vswitchd has come, until `signal`: another version may have, or another kernel's module. What
   * is new goes to the log; what is needed and missing to the warnings, too.
   */
  async follow({ dataPath, plane, warnings }: FollowDatapathOptions, log: Pick<Log, 'info'>, signal: AbortSignal): Promise<void> {
    const { datapathChanged: news } = plane;
    for (;;) {
      await news.wait(signal);
      if (signal.aborted) return;
      await this.#untilHolds(() => plane.openflow.isUp && publishedCapabilities(dataPath, plane.database) !== undefined, news, signal);
      const { connects } = plane.openflow.counters;
      const patience = within(signal, ANSWER_WITHIN_MS);
      const abilities = capabilitiesOf(await readDatapathFacts(dataPath, plane, patience));
      if (signal.aborted) return;
      // Half of it may be of a switch that has gone meanwhile; the next one rings.
      if (!plane.openflow.isUp || plane.openflow.counters.connects !== connects) continue;
      if (JSON.stringify(abilities) === JSON.stringify(this.#capabilities)) continue;
      this.#capabilities = abilities;
      const missing = missingIn(abilities);
      warnings.set(
        WARNING,
        missing.map(({ feature, consequence }) => `the data path has no ${feature}: ${consequence}`),
      );
      log.info('capabilities of the data path', { dataPath, ...abilities });
    }
  }

  /** Waits until both switch and database can answer, but not for ever. */
  async #untilHolds(holds: () => boolean, news: Doorbell, signal: AbortSignal): Promise<void> {
    const patience = within(signal, SAID_WITHIN_MS);
    while (!holds() && !patience.aborted) await news.wait(patience);
  }
}
