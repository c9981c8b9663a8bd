import { signal } from '@preact/signals';
import type { SimulatedSummary, SimulatorFile } from '../../answers/simulator.ts';
import { simulatorWorker } from './simulator-worker.ts';

/** Objects of the simulated cluster, and how far they are loaded. */
interface LoadedObjects {
  readonly files: readonly SimulatorFile[];
  readonly state: 'loading' | 'loaded' | 'failed';
  readonly summary?: SimulatedSummary;
  readonly failure?: string;
  /** Distinguishes loads: an answer is about one of them. */
  readonly revision: number;
}

export const loadedObjects = signal<LoadedObjects | undefined>(undefined);

let revision = 0;

/** Loads objects into the simulator. @returns the result; undefined if it was canceled, or if others are loaded meanwhile */
export async function loadObjects(files: readonly SimulatorFile[]): Promise<LoadedObjects | undefined> {
  const own = ++revision;
  loadedObjects.value = { files, state: 'loading', revision: own };
  const result = await simulatorWorker.ask('load', { files });
  if (own !== revision) return undefined;
  const loaded: LoadedObjects =
    'answer' in result
      ? { files, state: 'loaded', summary: result.answer, revision: own }
      : { files, state: 'failed', failure: result.failure, revision: own };
  loadedObjects.value = loaded;
  return loaded;
}

simulatorWorker.ended = (reason) => {
  const files = loadedObjects.value?.files;
  if (files) loadedObjects.value = { files, state: 'failed', failure: reason, revision: ++revision };
};

/** Ends a load that takes too long. */
export function cancelLoad(): void {
  simulatorWorker.stop('canceled');
}
