import * as z from 'zod';
import { SeineError } from '../../base/errors/seine-error.ts';
import { parseObject } from '../../kubernetes/client/resource.ts';
import { type AdminPolicyKind, draftOfAdminPolicy } from './admin-policy.ts';
import { AntreaGroups } from './antrea-groups.ts';
import { draftOfAntreaPolicy } from './antrea-policy.ts';
import { AntreaTiers } from './antrea-tiers.ts';
import { type DraftPolicy, metadataSchema } from './drafts.ts';
import { type ConversionLoss, LossList, ReadObject } from './losses.ts';
import { type ConvertedPolicy, ranked } from './ranks.ts';

/** Object with the place that it comes from, such as `policies/db.yaml document 2`. */
interface PlacedObject {
  readonly place: string;
  readonly object: unknown;
}

interface Conversion {
  readonly policies: readonly ConvertedPolicy[];
  readonly losses: readonly ConversionLoss[];
  /** Number of policies that were read. */
  readonly read: number;
  /** Objects that are not policies, by kind. */
  readonly ignored: ReadonlyMap<string, number>;
}

const antreaGroup = 'crd.antrea.io';
const upstreamGroup = 'policy.networking.k8s.io';
/** Objects of one run: what a large cluster has, and a program can hold. */
const OBJECTS_MAX = 50_000;

const identity = z.looseObject({ apiVersion: z.string(), kind: z.string(), metadata: metadataSchema });
const listSchema = z.looseObject({ kind: z.string().endsWith('List'), items: z.array(z.unknown()) });
const tierSpec = z.looseObject({ priority: z.int().min(0).max(255) });

type IdentifiedObject = z.output<typeof identity> & { readonly place: string };

/**
 * Converts AdminNetworkPolicies, BaselineAdminNetworkPolicies and Antrea's policies to ClusterNetworkPolicies.
 *
 * @throws SeineError `INVALID_INPUT` for an object that cannot be read, with its place
 */
export function convertPolicies(documents: readonly PlacedObject[]): Conversion {
  const reader = new PolicyConverter();
  for (const { place, object } of documents.flatMap((document) => itemsOf(document))) {
    const named = at(place, () => ({ ...parseObject(identity, object), place }));
    at(`${place}: ${named.kind} ${named.metadata.name}`, () => reader.add(named, object));
  }
  return reader.converted();
}

function itemsOf({ place, object }: PlacedObject, depth = 0): readonly PlacedObject[] {
  if (object === null || object === undefined) return [];
  const list = listSchema.safeParse(object);
  if (!list.success) return [{ place, object }];
  if (depth > 1) throw new SeineError('INVALID_INPUT', `${place}: lists are nested`);
  return list.data.items.flatMap((item, index) => itemsOf({ place: `${place} items[${index}]`, object: item }, depth + 1));
}

class PolicyConverter {
  readonly #groups = new AntreaGroups();
  readonly #tiers = new AntreaTiers();
  readonly #losses = new LossList();
  readonly #ignored = new Map<string, number>();
  /** Policies by name, to be converted when all groups and tiers are known. */
  readonly #policies = new Map<string, { readonly named: IdentifiedObject; readonly draft: () => DraftPolicy | undefined }>();
  #objects = 0;

  add(named: IdentifiedObject, object: unknown): void {
    this.#objects++;
    if (this.#objects > OBJECTS_MAX) throw new SeineError('INVALID_INPUT', `more than ${OBJECTS_MAX} objects`);
    const { apiVersion, kind, metadata } = named;
    const namespace = metadata.namespace || 'default';
    if (apiVersion === `${upstreamGroup}/v1alpha1` && isAdminKind(kind))
      this.#addPolicy(named, metadata.name, (into) => draftOfAdminPolicy(kind, object, into));
    else if (apiVersion === `${antreaGroup}/v1beta1` && (kind === 'ClusterNetworkPolicy' || kind === 'NetworkPolicy'))
      this.#addAntreaPolicy(named, kind === 'NetworkPolicy' ? namespace : undefined, object);
    else if (apiVersion === `${antreaGroup}/v1beta1` && (kind === 'ClusterGroup' || kind === 'Group')) {
      if (!this.#groups.add(kind === 'Group' ? namespace : undefined, metadata.name, named['spec'])) throw twice();
    } else if (apiVersion.startsWith(`${antreaGroup}/`) && kind === 'Tier')
      this.#tiers.add(metadata.name, parseObject(tierSpec, named['spec']).priority);
    else this.#leaveOut(named);
  }

  #addAntreaPolicy(named: IdentifiedObject, namespace: string | undefined, object: unknown): void {
    const name = namespace === undefined ? named.metadata.name : `${namespace}/${named.metadata.name}`;
    const context = { namespace, groups: this.#groups, tiers: this.#tiers };
    this.#addPolicy(named, name, (into) => draftOfAntreaPolicy(object, { ...context, into }));
  }

  #addPolicy(named: IdentifiedObject, name: string, draft: (into: ReadObject) => DraftPolicy | undefined): void {
    const text = `${named.apiVersion.split('/', 1)[0]} ${named.kind} ${name}`;
    if (this.#policies.has(text)) throw twice();
    this.#policies.set(text, { named, draft: () => draft(new ReadObject(text, this.#losses)) });
  }

  /** Policies of these groups that are not known are lost; other objects are none of the policies. */
  #leaveOut({ apiVersion, kind, metadata }: IdentifiedObject): void {
    const [group = ''] = apiVersion.split('/', 1);
    const isPolicy = (group === antreaGroup && /NetworkPolicy$|Group$/.test(kind)) || (group === upstreamGroup && isAdminKind(kind));
    if (isPolicy) {
      const object = `${group} ${kind} ${metadata.name}`;
      this.#losses.add({ object, field: ['apiVersion'], value: apiVersion, reason: 'a version that is not read', leftOut: [] });
    } else this.#ignored.set(`${apiVersion} ${kind}`, (this.#ignored.get(`${apiVersion} ${kind}`) ?? 0) + 1);
  }

  converted(): Conversion {
    const drafts = [...this.#policies.values()].flatMap(({ named, draft }) =>
      at(`${named.place}: ${named.kind} ${named.metadata.name}`, () => draft() ?? []),
    );
    const policies = ranked(drafts, this.#losses);
    return { policies, losses: this.#losses.all, read: this.#policies.size, ignored: this.#ignored };
  }
}

function isAdminKind(kind: string): kind is AdminPolicyKind {
  return kind === 'AdminNetworkPolicy' || kind === 'BaselineAdminNetworkPolicy';
}

function twice(): SeineError {
  return new SeineError('INVALID_INPUT', 'another document has the same object');
}

function at<T>(place: string, work: () => T): T {
  try {
    return work();
  } catch (thrown) {
    throw new SeineError('INVALID_INPUT', `${place}: ${SeineError.from(thrown, 'parse').rawMessage}`, { cause: thrown });
  }
}
