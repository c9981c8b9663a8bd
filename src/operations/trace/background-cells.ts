import { type LiveSettings, liveSettingsKey } from '../../kubernetes/resources/live-settings.ts';
import { TraceCells, type TraceCellsPort } from './trace-cells.ts';
import { traceInterval } from './trace-interval.ts';

interface BackgroundOptions {
  readonly port: TraceCellsPort;
  /** Settings of all nodes, `seine-live`. */
  readonly settings: { get(key: string): LiveSettings | undefined; subscribe(listener: () => void): unknown };
  /** Interval of the configuration (ms). */
  readonly configuredMs: number;
  readonly warnings: Map<string, readonly string[]>;
}

const WARNING = 'trace.background';

/** Returns the comparison of flows in the background, which follows the ConfigMap of all nodes. */
export function openTraceCells({ port, settings, configuredMs, warnings }: BackgroundOptions): TraceCells {
  const interval = () => traceInterval(settings.get(liveSettingsKey)?.traceBackground, configuredMs);
  const warn = (): void => {
    const { faults } = interval();
    if (faults.length === 0) warnings.delete(WARNING);
    else warnings.set(WARNING, faults);
  };
  settings.subscribe(warn);
  warn();
  return new TraceCells({ port, everyMs: () => interval().everyMs });
}
