import { within } from '../../base/async/time-limit.ts';
import type { Doorbell } from '../../base/async/wake-signal.ts';
import type { Log } from '../../base/log/log.ts';
import { publishedCapabilities, readDatapathFacts } from '../../dataplane/targets/switch/datapath-facts.ts';
import { capabilitiesOf, type DatapathCapabilities, missingIn } from '../../dataplane/targets/switch/datapath-features.ts';
import type { SwitchDatabase } from '../../dataplane/targets/switch/switch-database.ts';
import type { OpenFlowConnection } from '../../openflow/connection/connection.ts';

/** Maximum time for an answer (ms); a slower ovs-vswitchd is queried again when it has restarted. */
const ANSWER_WITHIN_MS = 2_000;
/** Maximum time for ovs-vswitchd to publish the capabilities of its data path (ms); then the published ones are used. */
const REPORTED_WITHIN_MS = 10_000;

/** Name of the findings among the agent's warnings. */
const WARNING = 'data path';

interface FollowDatapathOptions {
  readonly dataPath: 'system' | 'netdev';
  readonly plane: {
    readonly database: SwitchDatabase;
    readonly openflow: OpenFlowConnection;
    /** Rung when ovs-vswitchd has started, or publishes other capabilities. */
    readonly datapathChanged: Doorbell;
  };
  /** Warnings about the node, as sentences, by the part of the agent that found them. */
  readonly warnings: Map<string, readonly string[]>;
}

/** Capabilities of this node's data path, as last read. */
export class DatapathProbe {
  #capabilities: DatapathCapabilities | undefined;

  /** Undefined until they were read. */
  get capabilities(): DatapathCapabilities | undefined {
    return this.#capabilities;
  }

  /**
   * Reads the capabilities whenever ovs-vswitchd has started, until `signal` is aborted: another version, or another kernel module, may
   * have others. Changes are logged; required and missing capabilities are warnings, too.
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
      // Part of it may be of an ovs-vswitchd that has ended meanwhile; the next one rings.
      if (!plane.openflow.isUp || plane.openflow.counters.connects !== connects) continue;
      if (JSON.stringify(abilities) === JSON.stringify(this.#capabilities)) continue;
      this.#capabilities = abilities;
      const missing = missingIn(abilities);
      warnings.set(
        WARNING,
        missing.map(({ feature, consequence }) => `the data path has no ${feature}: ${consequence}`),
      );
      log.info('detected data path capabilities', { dataPath, ...abilities });
    }
  }

  /** Waits until both ovs-vswitchd and OVSDB can answer, for a limited time. */
  async #untilHolds(holds: () => boolean, news: Doorbell, signal: AbortSignal): Promise<void> {
    const patience = within(signal, REPORTED_WITHIN_MS);
    while (!holds() && !patience.aborted) await news.wait(patience);
  }
}
