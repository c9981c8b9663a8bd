import { type FollowedSettings, followSetting, type SettingWarnings } from '../../kubernetes/resources/live-settings.ts';
import { TraceCells, type TraceCellsPort } from './trace-cells.ts';
import { traceInterval } from './trace-interval.ts';

interface BackgroundOptions {
  readonly port: TraceCellsPort;
  /** Settings of all nodes, `seine-live`. */
  readonly settings: FollowedSettings;
  /** Interval of the configuration (ms). */
  readonly configuredMs: number;
  readonly warnings: SettingWarnings;
}

/** Returns the comparison of flows in the background, which follows the ConfigMap of all nodes. */
export function openTraceCells({ port, settings, configuredMs, warnings }: BackgroundOptions): TraceCells {
  const named = { name: 'trace.background', warnings };
  const everyMs = followSetting(settings, named, (live) => traceInterval(live?.traceBackground, configuredMs));
  const cells = new TraceCells({ port, everyMs });
  settings.subscribe(() => cells.settingsChanged());
  return cells;
}
