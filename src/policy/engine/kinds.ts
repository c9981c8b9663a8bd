import { type Steps, tinyWork } from '../../base/async/steps.ts';
import { type Ip, parseIp } from '../../base/net/ip.ts';
import type { PolicyPod } from '../../kubernetes/resources/policy-pod.ts';
import { labelText, type PodLabels } from './selector.ts';

/** Pods of one namespace that no policy can tell apart. */
export interface Kind {
  readonly text: string;
  readonly namespace: string;
  /** Labels that a policy mentions. The other labels, which often differ for each pod, would make each pod a kind. */
  readonly labels: PodLabels;
  /** Ports that a policy mentions, as in `PolicyPod`. */
  readonly ports: Readonly<Record<string, number>>;
  readonly pods: Set<IndexedPod>;
}

export interface IndexedPod {
  /** `namespace/name`. */
  readonly key: string;
  readonly pod: PolicyPod;
  readonly addresses: readonly Ip[];
  kind: Kind;
}

/** Pod whose kind has changed. */
interface MovedPod {
  readonly known: IndexedPod;
  readonly from: Kind;
}

/** Kinds that were added, and kinds that no longer have pods. */
export interface KindChanges {
  readonly added: ReadonlySet<Kind>;
  readonly removed: ReadonlySet<Kind>;
}

/** Labels and named ports by which a policy selects peers. */
export interface MentionedNames {
  readonly labels: ReadonlySet<string>;
  /** Port names, such as `http/TCP`. */
  readonly ports: ReadonlySet<string>;
}

/** Counts uses of keys. Unused keys are kept until there are many of them, because forgetting one requires a pass over every pod. */
class UsedNames {
  readonly #uses = new Map<string, number>();
  projected: ReadonlySet<string> = new Set();

  change(name: string, by: 1 | -1): void {
    const uses = (this.#uses.get(name) ?? 0) + by;
    if (uses === 0) this.#uses.delete(name);
    else this.#uses.set(name, uses);
  }

  /** Returns the keys that have come into use. */
  missing(): readonly string[] {
    return [...this.#uses.keys()].filter((name) => !this.projected.has(name));
  }

  get isBehind(): boolean {
    return this.isStale || this.missing().length > 0;
  }

  get isStale(): boolean {
    return this.projected.size > 2 * this.#uses.size + STALE_MIN;
  }

  renew(): void {
    this.projected = new Set([...this.#uses.keys()].sort());
  }
}

const STALE_MIN = 64;

/** All pods of the cluster, interned to kinds, with indexes of kinds by namespace and by label. */
export class PodKinds {
  readonly #pods = new Map<string, IndexedPod>();
  readonly #kinds = new Map<string, Kind>();
  readonly #byNamespace = new Map<string, Set<Kind>>();
  readonly #byLabel = new Map<string, Set<Kind>>();
  readonly #labels = new UsedNames();
  readonly #ports = new UsedNames();
  /** Kinds added since `takeChanges`. */
  #added = new Set<Kind>();
  #emptied = new Set<Kind>();

  /** Adds a pod. @param key key of a pod that is not known yet */
  put(key: string, pod: PolicyPod): IndexedPod {
    if (this.#pods.size === 0) this.#renewNames();
    const known: IndexedPod = { key, pod, addresses: pod.podIps.map(parseIp), kind: this.#kindOf(pod) };
    known.kind.pods.add(known);
    this.#pods.set(key, known);
    return known;
  }

  remove(key: string): IndexedPod | undefined {
    const known = this.#pods.get(key);
    if (!known) return undefined;
    this.#pods.delete(key);
    this.#leave(known);
    return known;
  }

  get(key: string): IndexedPod | undefined {
    return this.#pods.get(key);
  }

  /** Namespaces that have pods. */
  namespaces(): Iterable<string> {
    return this.#byNamespace.keys();
  }

  ofNamespace(name: string): ReadonlySet<Kind> {
    return this.#byNamespace.get(name) ?? none;
  }

  /** Returns the kinds with a label, `key=value`, that a policy mentions. */
  withLabel(text: string): ReadonlySet<Kind> {
    return this.#byLabel.get(text) ?? none;
  }

  all(): Iterable<Kind> {
    return this.#kinds.values();
  }

  /** Reports whether kinds are out of date, or were added or removed. */
  get isBehind(): boolean {
    return this.#added.size > 0 || this.#emptied.size > 0 || this.#labels.isBehind || this.#ports.isBehind;
  }

  /**
   * Counts the names of a policy that is added or removed. All policies of the cluster count: a policy that starts to apply here later then
   * splits no kinds.
   */
  mention({ labels, ports }: MentionedNames, by: 1 | -1): void {
    for (const key of labels) this.#labels.change(key, by);
    for (const name of ports) this.#ports.change(name, by);
  }

  /** Splits kinds by the names that policies mention. @returns pods whose kind has changed */
  *project(): Steps<readonly MovedPod[]> {
    const labels = this.#labels.missing();
    const ports = this.#ports.missing();
    const areNamesStale = this.#labels.isStale || this.#ports.isStale;
    if (labels.length === 0 && ports.length === 0 && !areNamesStale) return [];
    if (areNamesStale) this.#renewNames();
    else {
      this.#labels.projected = new Set([...this.#labels.projected, ...labels].sort());
      this.#ports.projected = new Set([...this.#ports.projected, ...ports].sort());
    }
    const concerns = ({ pod }: IndexedPod): boolean =>
      areNamesStale || labels.some((key) => Object.hasOwn(pod.labels, key)) || ports.some((name) => Object.hasOwn(pod.ports, name));
    const moved: MovedPod[] = [];
    let work = 0;
    for (const known of this.#pods.values()) {
      if (concerns(known)) this.#intern(known, moved);
      if (++work % tinyWork === 0) yield;
    }
    return moved;
  }

  #intern(known: IndexedPod, moved: MovedPod[]): void {
    const kind = this.#kindOf(known.pod);
    const { kind: from } = known;
    if (kind === from) return;
    this.#leave(known);
    known.kind = kind;
    kind.pods.add(known);
    moved.push({ known, from });
  }

  /** Returns the changes since the last call. */
  *takeChanges(): Steps<KindChanges> {
    const removed = new Set<Kind>();
    for (const kind of this.#emptied) {
      if (kind.pods.size === 0) {
        this.#forget(kind);
        if (!this.#added.delete(kind)) removed.add(kind);
      }
      yield;
    }
    const added = this.#added;
    this.#added = new Set();
    this.#emptied = new Set();
    return { added, removed };
  }

  /** Takes over the names in use. Without pods this costs nothing, and the first pods get their final kinds at once. */
  #renewNames(): void {
    for (const names of [this.#labels, this.#ports]) names.renew();
  }

  #kindOf(pod: PolicyPod): Kind {
    let text = pod.namespace;
    for (const key of this.#labels.projected) {
      const value = Object.hasOwn(pod.labels, key) ? pod.labels[key] : undefined;
      if (value !== undefined) text += `\n${key.length},${value.length} ${key}=${value}`;
    }
    for (const name of this.#ports.projected) if (Object.hasOwn(pod.ports, name)) text += `\n:${name}=${pod.ports[name]}`;
    const known = this.#kinds.get(text);
    if (known) return known;
    const pick = <T>(all: Readonly<Record<string, T>>, names: ReadonlySet<string>): Record<string, T> =>
      Object.fromEntries(Object.entries(all).filter(([name]) => names.has(name)));
    const kind: Kind = {
      text,
      namespace: pod.namespace,
      labels: pick(pod.labels, this.#labels.projected),
      ports: pick(pod.ports, this.#ports.projected),
      pods: new Set(),
    };
    this.#kinds.set(text, kind);
    addTo(this.#byNamespace, kind.namespace, kind);
    for (const [key, value] of Object.entries(kind.labels)) addTo(this.#byLabel, labelText(key, value), kind);
    this.#added.add(kind);
    return kind;
  }

  #leave(known: IndexedPod): void {
    known.kind.pods.delete(known);
    if (known.kind.pods.size === 0) this.#emptied.add(known.kind);
  }

  #forget(kind: Kind): void {
    this.#kinds.delete(kind.text);
    removeFrom(this.#byNamespace, kind.namespace, kind);
    for (const [key, value] of Object.entries(kind.labels)) removeFrom(this.#byLabel, labelText(key, value), kind);
  }
}

/** Labels of the known namespaces, with an index of namespaces by label. */
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

  /** Returns the labels of a namespace; undefined if the namespace is not known. */
  get(name: string): PodLabels | undefined {
    return this.#labels.get(name);
  }

  withLabel(text: string): ReadonlySet<string> {
    return this.#byLabel.get(text) ?? noNames;
  }
}

const none: ReadonlySet<Kind> = new Set();
const noNames: ReadonlySet<string> = new Set();

export function addTo<K, V>(index: Map<K, Set<V>>, key: K, value: V): void {
  const held = index.get(key);
  if (held) held.add(value);
  else index.set(key, new Set([value]));
}

export function removeFrom<K, V>(index: Map<K, Set<V>>, key: K, value: V): void {
  const held = index.get(key);
  held?.delete(value);
  if (held?.size === 0) index.delete(key);
}
