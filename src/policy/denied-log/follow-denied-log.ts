import type { Log } from '../../base/log/log.ts';
import { deniedMeters } from '../../dataplane/pipeline/well-known.ts';
import type { OpenFlowConnection } from '../../openflow/connection/connection.ts';
import type { DeniedLog } from './denied-log.ts';
import type { LoggedPods } from './logged-pods.ts';

/** How often what was like earlier lines is written, and the switch asked for what its meters kept back (ms). */
const EVERY_MS = 1_000;

interface FollowedDeniedLog {
  readonly log: Pick<DeniedLog, 'sweep' | 'metered'>;
  readonly pods: Pick<LoggedPods, 'isActive' | 'close'>;
  readonly bridge: Pick<OpenFlowConnection, 'dumpMeterStats'>;
}

/** What is due every second, until the signal. */
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
      // Not connected, or the switch has no meters: the log goes on, and other problems say why.
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

/** What meters of denied packets have kept back since the last look. */
export class DeniedMeterCounts {
  readonly #tell: (meter: number, packets: number) => void;
  #last: ReadonlyMap<number, bigint> | undefined;

  constructor(tell: (meter: number, packets: number) => void) {
    this.#tell = tell;
  }

  /** @param stats of all meters; the first time, what an earlier agent's had kept back by then is not told */
  see(stats: MeterCounts): void {
    const now = new Map(stats.filter(({ id }) => id >= deniedMeters.first).map(({ id, bands }) => [id, bands[0]?.packets ?? 0n]));
    if (this.#last)
      for (const [id, packets] of now) {
        const before = this.#last.get(id) ?? 0n;
        const since = packets < before ? packets : packets - before; // a meter that was made anew counts from 0
        if (since > 0n) this.#tell(id, Number(since));
      }
    this.#last = now;
  }
}
