import { addTo, removeFrom } from './kinds.ts';
import { labelText, type PodLabels } from './selector.ts';

/** PodLabels of the namespaces that are known, and which namespaces have a label. */
export class NamespaceLabels {
  readonly #labels = new Map<string, PodLabels>();
  readonly #byLabel = new Map<string, Set<string>>();

  put(name: string, labels: PodLabels): void {
    this.remove(name);
    this.#labels.set(name, labels);
    for (const [key, value] of Object.entries(labels)) addTo(this.#byLabel, labelText(key, value), name);
  }

  remove(name: string): void {
    for (const [key, value] of Object.entries(this.#labels.get(name) ?? {})) removeFrom(this.#byLabel, labelText(key, value), name);
    this.#labels.delete(name);
  }

  /** Undefined: the namespace is not known. */
  get(name: string): PodLabels | undefined {
    return this.#labels.get(name);
  }

  withLabel(text: string): ReadonlySet<string> {
    return this.#byLabel.get(text) ?? none;
  }
}

const none: ReadonlySet<string> = new Set();
