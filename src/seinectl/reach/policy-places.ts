import { relative, sep } from 'node:path';
import { pathToFileURL } from 'node:url';
import { type Document, isNode, isSeq, LineCounter, parseAllDocuments } from 'yaml';
import type { LintFinding } from '../../policy/lint/findings.ts';
import { filesOf, textOf } from './sources.ts';

/** Position of a field in a file of manifests. */
export interface PolicyPlace {
  /** Relative to the current folder, or a `file:` URL for a file outside of it. */
  readonly uri: string;
  readonly line: number;
  readonly column: number;
}

/** One policy of a file: path to it inside its document, e.g. `items`, 2 in a list. */
interface PlacedPolicy {
  readonly uri: string;
  readonly document: Document;
  readonly at: readonly (string | number)[];
  readonly lines: LineCounter;
}

const policyKinds: ReadonlySet<unknown> = new Set(['NetworkPolicy', 'ClusterNetworkPolicy']);

/** Positions of the policies of manifests. Standard input has none: it is no file that a reader could open. */
export class PolicyPlaces {
  readonly #nodes = new Map<string, PlacedPolicy>();

  /** @param paths files and folders of manifests, which have been read without an error */
  constructor(paths: readonly string[]) {
    for (const file of paths.flatMap((path) => filesOf(path, 0))) if (file !== '-') this.#read(file);
  }

  /** Returns the place of a finding: of its field, or of the next field around it that is written. */
  placeOf({ policy, field }: Pick<LintFinding, 'policy' | 'field'>): PolicyPlace | undefined {
    const found = this.#nodes.get(policy);
    if (!found) return undefined;
    const { uri, document, at, lines } = found;
    for (let inside = stepsOf(field); ; inside = inside.slice(0, -1)) {
      const node = document.getIn([...at, ...inside], true);
      if (isNode(node) && node.range) {
        const { line, col } = lines.linePos(node.range[0]);
        return { uri, line, column: col };
      }
      if (inside.length === 0) return undefined;
    }
  }

  #read(file: string): void {
    const lines = new LineCounter();
    for (const document of parseAllDocuments(textOf(file), { lineCounter: lines }))
      if ('contents' in document) this.#add(document as Document, [], { uri: uriOf(file), lines });
  }

  #add(document: Document, at: readonly (string | number)[], from: Pick<PlacedPolicy, 'uri' | 'lines'>): void {
    const items = document.getIn([...at, 'items']);
    if (isSeq(items)) for (const index of items.items.keys()) this.#add(document, [...at, 'items', index], from);
    const kind = document.getIn([...at, 'kind']);
    const name = document.getIn([...at, 'metadata', 'name']);
    if (!policyKinds.has(kind) || typeof name !== 'string') return;
    const namespace = document.getIn([...at, 'metadata', 'namespace']) ?? 'default';
    this.#nodes.set(kind === 'NetworkPolicy' ? `${namespace}/${name}` : name, { ...from, document, at });
  }
}

/** Returns the steps of a field's path: `spec.ingress[0].from` is `spec`, `ingress`, 0, `from`. */
function stepsOf(field: string): readonly (string | number)[] {
  return [...field.matchAll(/\[(\d+)\]|[^.[\]]+/g)].map(([text, index]) => (index === undefined ? text : Number(index)));
}

function uriOf(file: string): string {
  const path = relative('', file);
  const isInside = path !== '' && path !== '..' && !path.startsWith(`..${sep}`);
  return isInside ? path.split(sep).map(encodeURIComponent).join('/') : pathToFileURL(file).href;
}
