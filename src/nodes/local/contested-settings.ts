import { idle } from '../../base/async/pause.ts';
import type { Log } from '../../base/log/log.ts';
import { settingText } from '../../dataplane/targets/host/setting-key.ts';
import type { NodeState } from '../../dataplane/targets/node-state.ts';
import { filesThatSet } from './setting-files.ts';

/** Interval between checks of repeatedly repaired settings (ms). */
const CHECK_MS = 5_000;

interface ContestedSettingsOptions {
  readonly nodeState: Pick<NodeState, 'settings' | 'reconcilers'>;
  /** Warnings about the node, by their source. */
  readonly warnings: Map<string, readonly string[]>;
  readonly log: Log;
}

/** Reports kernel settings that another program changes repeatedly, and names files that set them, until the signal. */
export async function watchContestedSettings({ nodeState, warnings, log }: ContestedSettingsOptions, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    const sentences = contestedSettings(nodeState);
    if (sentences.length > 0) {
      warnings.set('settings', sentences);
      log.failing('contested settings', 'another program keeps changing kernel settings', { cause: sentences.join('; ') });
    } else if (warnings.delete('settings')) log.working('contested settings');
    await idle(CHECK_MS, signal);
  }
}

export function contestedSettings({ settings, reconcilers }: ContestedSettingsOptions['nodeState']): readonly string[] {
  return Array.from(reconcilers.settings.contested(), ([key, { repairs }]) => {
    const wanted = settings.wanted(key) ?? '';
    const files = filesThatSet(key, wanted);
    const where = files.length === 0 ? '' : `; ${files.join(', ')} ${files.length === 1 ? 'sets' : 'set'} it`;
    return `${settingText(key)} must be ${wanted}, and another program keeps changing it (${repairs} times): it is restored with growing delays${where}`;
  });
}
