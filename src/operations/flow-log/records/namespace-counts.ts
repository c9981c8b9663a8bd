import type { FlowRecord, RecordedEnd } from './flow-record.ts';

/** Maximum number of series; further namespaces are counted together. */
const seriesMax = 100;
/** Name for further namespaces, which no namespace of Kubernetes can have. */
const otherNamespaces = '(other)';

/** Number of connections by namespace of either end and by verdict, of a bounded number of series. */
export class NamespaceCounts {
  readonly #counts = new Map<string, number>();

  add(record: FlowRecord): void {
    const { event, verdict, source, destination } = record;
    if (event !== 'opened' && event !== 'denied' && event !== 'refused') return;
    for (const namespace of new Set([namespaceOf(source), namespaceOf(destination)])) {
      if (namespace === undefined) continue;
      const own = `${namespace} ${verdict}`;
      const key = this.#counts.has(own) || this.#counts.size < seriesMax ? own : `${otherNamespaces} ${verdict}`;
      this.#counts.set(key, (this.#counts.get(key) ?? 0) + 1);
    }
  }

  /** Returns the counts with namespace and verdict. */
  get all(): readonly (readonly [namespace: string, verdict: string, count: number])[] {
    return [...this.#counts].map(([key, count]) => {
      const [namespace = '', verdict = ''] = key.split(' ');
      return [namespace, verdict, count];
    });
  }
}

function namespaceOf({ kind, name }: RecordedEnd): string | undefined {
  return kind === 'pod' ? name?.split('/', 1)[0] : undefined;
}
