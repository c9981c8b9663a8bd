import { type ApiResource, apiVersionOf } from './resource.ts';

/** The kinds served now; custom resource definitions add and remove some. */
export class Registry {
  readonly #resources = new Map<string, ApiResource>();
  #sorted: readonly ApiResource[] | undefined;
  /** Grows with every kind that is added or removed; data derived from the kinds may be cached by it. */
  generation = 0;

  constructor(resources: readonly ApiResource[]) {
    for (const resource of resources) this.add(resource);
  }

  add(resource: ApiResource): void {
    this.#resources.set(idOf(resource.group, resource.version, resource.plural), resource);
    this.#sorted = undefined;
    this.generation++;
  }

  remove({ group, version, plural }: Pick<ApiResource, 'group' | 'version' | 'plural'>): void {
    this.#resources.delete(idOf(group, version, plural));
    this.#sorted = undefined;
    this.generation++;
  }

  find(group: string, version: string, plural: string): ApiResource | undefined {
    return this.#resources.get(idOf(group, version, plural));
  }

  /** The resource of an object's `apiVersion` and `kind`. */
  findKind(apiVersion: string, kind: string): ApiResource | undefined {
    return this.all().find((resource) => resource.kind === kind && apiVersionOf(resource) === apiVersion);
  }

  /** All resources in the order of group, version, plural. */
  all(): readonly ApiResource[] {
    this.#sorted ??= Array.from(this.#resources.values()).toSorted((a, b) => order(a) - order(b) || compare(a, b));
    return this.#sorted;
  }

  /** One resource for each stored kind: events are served twice and stored once. */
  stored(): readonly ApiResource[] {
    return Array.from(
      new Map(
        this.all()
          .toReversed()
          .map((resource) => [resource.storage, resource]),
      ).values(),
    );
  }

  /** Groups with their versions, the preferred first. */
  groups(): readonly { readonly group: string; readonly versions: readonly string[] }[] {
    const versions = new Map<string, Set<string>>();
    for (const { group, version } of this.all()) versions.set(group, (versions.get(group) ?? new Set()).add(version));
    return Array.from(versions, ([group, all]) => ({ group, versions: Array.from(all).toSorted(newestFirst) }));
  }
}

function idOf(group: string, version: string, plural: string): string {
  return `${group}/${version}/${plural}`;
}

/** kubectl resolves a short name to the first kind that has it, so built-in kinds precede custom ones. */
function order({ group, custom }: ApiResource): number {
  return group === '' ? 0 : custom ? 2 : 1;
}

function compare(a: ApiResource, b: ApiResource): number {
  return a.group.localeCompare(b.group) || newestFirst(a.version, b.version) || a.plural.localeCompare(b.plural);
}

/** Stable before beta before alpha, then the higher number: v2, v1, v2beta1, v1alpha1. */
function newestFirst(a: string, b: string): number {
  const rank = (version: string) => {
    const [, major = '0', stage, minor = '0'] = /^v(\d+)(?:(alpha|beta)(\d+))?$/.exec(version) ?? [];
    return [stage === undefined ? 2 : stage === 'beta' ? 1 : 0, Number(major), Number(minor)] as const;
  };
  const [left, right] = [rank(a), rank(b)];
  return right[0] - left[0] || right[1] - left[1] || right[2] - left[2];
}
