import * as z from 'zod';
import { SeineError } from '../../base/errors/seine-error.ts';
import { canonicalIp, type Family, isMappedIpv4, readCidr } from '../../base/net/ip.ts';

/**
 * Resource of the Kubernetes API as the agent watches it: its path, and the projection of each object.
 * `project` is the border: it returns a narrow immutable value, `undefined` for an object that the agent does not use, or throws SeineError
 * `INVALID_INPUT` that names the field. It must copy what it keeps and be a pure function, because values are compared and stored.
 */
export interface Resource<T> {
  readonly kind: string;
  /** Collection path, e.g. `/apis/discovery.k8s.io/v1/endpointslices`. */
  readonly path: string;
  readonly fieldSelector?: string;
  readonly labelSelector?: string;
  /** Incremented whenever `T` changes its meaning, so that values stored by an older agent are not used. */
  readonly revision: number;
  project(raw: unknown): T | undefined;
}

/** Members that every object has, read before anything else so that even an invalid object has a name. */
export interface ObjectIdentity {
  /** `namespace/name`, or `name` where the resource has no namespaces. */
  readonly key: string;
  readonly version: string;
}

const identitySchema = z.object({
  metadata: z.object({ name: z.string().min(1), namespace: z.string().nullish(), resourceVersion: z.string().nullish() }),
});

/** @throws SeineError `INVALID_INPUT` if the value is not a Kubernetes object with a name */
export function identityOf(raw: unknown): ObjectIdentity {
  const { metadata } = parseObject(identitySchema, raw);
  return { key: objectKey(metadata.namespace ?? '', metadata.name), version: metadata.resourceVersion ?? '' };
}

/** Like `identityOf`, but faster; `undefined` where that would throw. */
export function identityIn(raw: unknown): ObjectIdentity | undefined {
  const metadata = memberOf(raw, 'metadata');
  const [name, namespace, version] = ['name', 'namespace', 'resourceVersion'].map((member) => memberOf(metadata, member));
  if (typeof name !== 'string' || name === '' || typeof version !== 'string') return undefined;
  if (namespace !== undefined && typeof namespace !== 'string') return undefined;
  return { key: objectKey(namespace ?? '', name), version };
}

function memberOf(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null && Object.hasOwn(value, name) ? (value as Record<string, unknown>)[name] : undefined;
}

export function objectKey(namespace: string, name: string): string {
  return namespace === '' ? name : `${namespace}/${name}`;
}

/** @throws SeineError `INVALID_INPUT` whose message has the path of each wrong field, e.g. `spec.ports[1].port: …` */
export function parseObject<S extends z.ZodType>(schema: S, raw: unknown): z.output<S> {
  const parsed = schema.safeParse(raw);
  if (parsed.success) return parsed.data;
  const wrong = parsed.error.issues.slice(0, MAX_ISSUES).map((issue) => `${formatPath(issue.path)}: ${issue.message}`);
  throw new SeineError('INVALID_INPUT', wrong.join('; '));
}

const MAX_ISSUES = 5;

export function formatPath(path: readonly PropertyKey[]): string {
  return path.map((part, index) => (typeof part === 'number' ? `[${part}]` : `${index === 0 ? '' : '.'}${String(part)}`)).join('');
}

/** IP address in canonical text; Kubernetes accepts others, e.g. `FD00::01`. */
export const ipText = z.string().transform((text, context) => {
  const canonical = canonicalIp(text);
  if (canonical !== undefined) return canonical;
  context.issues.push({ code: 'custom', message: `${JSON.stringify(text)} is not an IP address`, input: text });
  return z.NEVER;
});

/** Networks of an object: those that can be used, and those that Kubernetes accepts and the agent ignores. */
export interface Networks {
  /** Canonical text. */
  readonly cidrs: readonly string[];
  readonly refused: readonly RefusedNetwork[];
  /** Networks of `cidrs` that were written with host bits; absent if there is none. */
  readonly cleared?: readonly RefusedNetwork[];
}

export interface RefusedNetwork {
  readonly family: Family;
  /** Reason, including the text. */
  readonly why: string;
}

/** List of networks. A string that is not a network is a wrong field; spaces around one are removed, as by Kubernetes. */
export const networkList = listOf(z.string()).transform((texts, context): Networks => readNetworks(texts, context, 'refused'));

/** The same, where an address with a prefix length means the network that contains it: its host bits are cleared. */
export const networkListWithHostBits = listOf(z.string()).transform((texts, context): Networks => readNetworks(texts, context, 'cleared'));

function readNetworks(texts: readonly string[], context: z.RefinementCtx, hostBits: 'refused' | 'cleared'): Networks {
  const cidrs: string[] = [];
  const refused: RefusedNetwork[] = [];
  const cleared: RefusedNetwork[] = [];
  for (const [index, text] of texts.entries()) {
    try {
      const { cidr, fault, hasHostBits = false } = readCidr(text.trim());
      const family = isMappedIpv4(cidr) ? 'ipv4' : cidr.family;
      const isCleared = hasHostBits && hostBits === 'cleared';
      if (fault === undefined || isCleared) cidrs.push(cidr.text);
      if (fault !== undefined) (isCleared ? cleared : refused).push({ family, why: fault });
    } catch (thrown) {
      context.issues.push({ code: 'custom', message: SeineError.from(thrown, 'parse').message, input: text, path: [index] });
    }
  }
  return { cidrs, refused, ...(cleared.length > 0 ? { cleared } : {}) };
}

export const portNumber = z.int().min(1).max(65_535);

export const protocol = z.enum(['TCP', 'UDP', 'SCTP']);
export type Protocol = z.output<typeof protocol>;

/** List that may be null or absent: Go prints a nil slice as `null` and leaves an empty one out; both mean an empty list. */
export function listOf<S extends z.ZodType>(element: S) {
  return z
    .array(element)
    .nullish()
    .transform((list): readonly z.output<S>[] => list ?? []);
}

/**
 * List of which at most `most` elements are read: the event loop is blocked while an object is read. `others` is the number of elements after
 * these.
 */
export function firstOf<S extends z.ZodType>(list: S, most: number) {
  return z
    .unknown()
    .optional()
    .transform((raw, context): { readonly first: z.output<S>; readonly others: number } => {
      const isLong = Array.isArray(raw) && raw.length > most;
      const parsed = list.safeParse(isLong ? raw.slice(0, most) : raw);
      if (parsed.success) return { first: parsed.data, others: isLong ? raw.length - most : 0 };
      context.issues.push(...parsed.error.issues.map(({ message, path }) => ({ code: 'custom' as const, message, path, input: raw })));
      return z.NEVER;
    });
}

/** Returns the value of a label or annotation; keys like `__proto__` cannot reach a prototype this way. */
export function ownValue(map: Readonly<Record<string, string>> | null | undefined, key: string): string | undefined {
  return map && Object.hasOwn(map, key) ? map[key] : undefined;
}

/** Maximum length of a stored annotation: longer than any valid value. */
const logShownMax = 16;

/** Returns the annotation `seine.dev/log` of a Namespace or a Pod. */
export function logAnnotation(annotations: Readonly<Record<string, string>> | null | undefined): { readonly log?: string } {
  const log = ownValue(annotations, 'seine.dev/log');
  return log === undefined ? {} : { log: log.slice(0, logShownMax) };
}

/** Labels, annotations. A record of zod has no `__proto__`: an object with that label would be treated as one without it. */
export const stringMap = z
  .unknown()
  .transform((raw, context): Readonly<Record<string, string>> | null | undefined => {
    if (raw === null || raw === undefined) return raw;
    const issue = (message: string, path: readonly string[] = []) =>
      void context.issues.push({ code: 'custom', message, input: raw, path: [...path] });
    if (typeof raw !== 'object' || Array.isArray(raw)) issue('expected an object');
    const members = Object.entries(raw);
    for (const [key, value] of members) if (typeof value !== 'string') issue('expected a string', [key]);
    return Object.fromEntries(members);
  })
  .optional();
