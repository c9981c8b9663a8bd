import type { Log } from '../../base/log/log.ts';
import { deniedMeters, openedMeters } from '../../dataplane/pipeline/well-known.ts';
import type { OpenFlowConnection } from '../../openflow/connection/connection.ts';
import type { DeniedLog } from './denied-log.ts';
import type { LoggedPods } from './logged-pods.ts';

/** Period for writing repeated lines and reading the drop counters of meters (ms). */
const EVERY_MS = 1_000;

interface FollowedDeniedLog {
  readonly log: Pick<DeniedLog, 'sweep' | 'metered'>;
  readonly pods: Pick<LoggedPods, 'isActive' | 'close'>;
  readonly bridge: Pick<OpenFlowConnection, 'dumpMeterStats'>;
}

/** Does the periodic work of the denied log until the signal aborts. */
export function followDeniedLog({ log, pods, bridge }: FollowedDeniedLog, agentLog: Log, signal: AbortSignal): void {
  const counts = new DeniedMeterCounts((meter, packets) => log.metered(meter, packets));
  let isAsking = false;
  const timer = setInterval(() => {
    log.sweep();
    if (isAsking || !pods.isActive) return;
    isAsking = true;
    bridge
      .dumpMeterStats(signal)
      .then((stats) => counts.see(stats))
      // OVS is not connected, or has no meters: the log continues, and other problems report the cause.
      .catch((thrown: unknown) => agentLog.debug('meters of denied packets were not read', { cause: String(thrown) }))
      .finally(() => (isAsking = false));
  }, EVERY_MS).unref();
  const end = (): void => {
    clearInterval(timer);
    pods.close();
  };
  signal.addEventListener('abort', end, { once: true });
}

type MeterCounts = Awaited<ReturnType<OpenFlowConnection['dumpMeterStats']>>;

/** Number of packets that the meters of denied packets have dropped since the last reading. */
export class DeniedMeterCounts {
  readonly #tell: (meter: number, packets: number) => void;
  #last: ReadonlyMap<number, bigint> | undefined;

  constructor(tell: (meter: number, packets: number) => void) {
    this.#tell = tell;
  }

  /**
   * Reads the counters.
   *
   * @param stats statistics of all meters; the first reading, which includes drops from a previous agent's time, is not reported
   */
  see(stats: MeterCounts): void {
    const now = new Map(
      stats.filter(({ id }) => id >= deniedMeters.first && id < openedMeters.first).map(({ id, bands }) => [id, bands[0]?.packets ?? 0n]),
    );
    if (this.#last)
      for (const [id, packets] of now) {
        const before = this.#last.get(id) ?? 0n;
        const since = packets < before ? packets : packets - before; // a recreated meter counts from 0
        if (since > 0n) this.#tell(id, Number(since));
      }
    this.#last = now;
  }
}
