import { abortable } from '../async/abortable.ts';
import type { Doorbell } from '../async/doorbell.ts';
import { publishedCapabilities, readDataPathFacts } from '../datapath/data-path-facts.ts';
import { abilitiesOf, type DataPathAbilities, missingIn } from '../datapath/data-path-features.ts';
import type { Log } from '../log/log.ts';
import type { Agent } from './agent.ts';

/** A switch that takes longer to answer is asked again when it has restarted (ms). */
const ANSWER_WITHIN_MS = 2_000;
/** How long ovs-vswitchd may take to say what its data path can do (ms); one that never says it is taken as it is. */
const SAID_WITHIN_MS = 10_000;

/** Under this name the findings stand among the agent's warnings. */
const WARNING = 'data path';

export interface Followed extends Pick<Agent, 'warnings'> {
  readonly dataPath: 'system' | 'netdev';
  readonly plane: Pick<Agent['plane'], 'database' | 'openflow' | 'dataPathNews'>;
}

/** What the data path of this node can do, as it was found last. */
export class DataPathProbe {
  #abilities: DataPathAbilities | undefined;

  /** Undefined until it was looked at. */
  get abilities(): DataPathAbilities | undefined {
    return this.#abilities;
  }

  /**
   * Looks at the data path whenever ovs-vswitchd has come, until `signal`: another version may have, or another kernel's module. What
   * is new goes to the log; what is needed and missing to the warnings, too.
   */
  async follow({ dataPath, plane, warnings }: Followed, log: Pick<Log, 'info'>, signal: AbortSignal): Promise<void> {
    const { dataPathNews: news } = plane;
    signal.addEventListener('abort', () => news.ring(), { once: true });
    for (;;) {
      await news.wait();
      if (signal.aborted) return;
      await this.#told(() => plane.openflow.isUp && publishedCapabilities(dataPath, plane.database) !== undefined, news, signal);
      const { connects } = plane.openflow.counters;
      const patience = AbortSignal.any([signal, AbortSignal.timeout(ANSWER_WITHIN_MS)]);
      const abilities = abilitiesOf(await readDataPathFacts(dataPath, plane, patience));
      if (signal.aborted) return;
      // Half of it may be of a switch that has gone meanwhile; the next one rings.
      if (!plane.openflow.isUp || plane.openflow.counters.connects !== connects) continue;
      if (JSON.stringify(abilities) === JSON.stringify(this.#abilities)) continue;
      this.#abilities = abilities;
      const missing = missingIn(abilities);
      warnings.set(
        WARNING,
        missing.map(({ feature, consequence }) => `the data path has no ${feature}: ${consequence}`),
      );
      log.info('what the data path can do', { dataPath, ...abilities });
    }
  }

  /** Waits until everybody who is asked can answer, but not for ever. */
  async #told(holds: () => boolean, news: Doorbell, signal: AbortSignal): Promise<void> {
    const patience = AbortSignal.any([signal, AbortSignal.timeout(SAID_WITHIN_MS)]);
    while (!holds() && !patience.aborted) await abortable(news.wait(), patience).catch(() => undefined); // time is up
  }
}
