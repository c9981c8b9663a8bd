import { createHmac, timingSafeEqual } from 'node:crypto';
import { decodeProtoBody, protobufType } from '../body/proto-body.ts';
import { parseYamlOrJson } from '../body/text-body.ts';
import { badRequest, notFound } from '../errors/api-error.ts';
import { type ApiRequest, jsonResponse, type User, type WholeResponse } from '../http/api-request.ts';
import { parseResourcePath } from '../http/resource-path.ts';
import { kubeTime } from '../object/api-object.ts';
import { isObject, type JsonRecord, textAt } from '../object/json.ts';
import type { Store } from '../store/store.ts';

const prefix = 'seine-lab-account';
const defaultSeconds = 3_600;
/** Limits of the real server: ten minutes to 2³² seconds. */
const leastSeconds = 600;
const mostSeconds = 2 ** 32;

/** User of a service account's token. */
function accountUser({ namespace, name, bound }: AccountToken): User {
  return {
    name: `system:serviceaccount:${namespace}:${name}`,
    groups: ['system:serviceaccounts', `system:serviceaccounts:${namespace}`, 'system:authenticated'],
    ...(bound === undefined ? {} : { extra: extraOf(bound) }),
  };
}

/** Source: Kubernetes documentation, "Managing Service Accounts", additional metadata in pod bound tokens. */
function extraOf({ pod, node }: Bound): Record<string, readonly string[]> {
  const about = (kind: string, object: Bound['pod']): [string, readonly string[]][] =>
    object === undefined
      ? []
      : [
          [`authentication.kubernetes.io/${kind}-name`, [object.name]],
          [`authentication.kubernetes.io/${kind}-uid`, [object.uid]],
        ];
  return Object.fromEntries([...about('pod', pod), ...about('node', node)]);
}

/** A signed bearer token with its subject and expiry. `key` stays the same over restarts of the server. */
export function makeAccountToken(key: string, account: AccountToken): string {
  const claims = Buffer.from(JSON.stringify(account)).toString('base64url');
  return `${prefix}.${claims}.${signature(key, claims)}`;
}

interface AccountToken {
  readonly namespace: string;
  readonly name: string;
  readonly expiresMs: number;
  readonly bound?: Bound;
}

/** Objects that a token is bound to. A pod that is not scheduled yet has no node. */
interface Bound {
  readonly pod?: { readonly name: string; readonly uid: string };
  readonly node?: { readonly name: string; readonly uid: string };
}

/** @returns undefined if the token is malformed, has another signature, or is expired */
export function readAccountToken(key: string, token: string, nowMs: number): User | undefined {
  const [kind, claims = '', signed = '', ...more] = token.split('.');
  if (kind !== prefix || more.length > 0) return undefined;
  const [wanted, given] = [Buffer.from(signature(key, claims)), Buffer.from(signed)];
  if (wanted.length !== given.length || !timingSafeEqual(wanted, given)) return undefined;
  const account = JSON.parse(Buffer.from(claims, 'base64url').toString('utf8')) as AccountToken;
  return nowMs < account.expiresMs ? accountUser(account) : undefined;
}

export interface TokenPorts {
  /** Access to accounts, pods and nodes. */
  readonly store: Pick<Store, 'get'>;
  /** Signing key; the same over restarts of the server. */
  readonly key: string;
  /** Milliseconds since 1970. */
  now(): number;
}

/**
 * Answers `kubectl create token`: POST to `serviceaccounts/NAME/token`. @returns undefined for other requests
 * @throws ApiError 404 if there is no such account
 */
export async function serveTokenRequest({ store, key, now }: TokenPorts, request: ApiRequest): Promise<WholeResponse | undefined> {
  const path = parseResourcePath(request.path);
  if (request.method !== 'POST' || path?.plural !== 'serviceaccounts' || path.subresource !== 'token') return undefined;
  const { namespace = '', name = '' } = path;
  if (store.get('serviceaccounts', `${namespace}/${name}`) === undefined)
    throw notFound({ group: '', plural: 'serviceaccounts', kind: 'ServiceAccount' }, name);
  const spec = specOf(await request.body(), request.contentType);
  const wanted = spec['expirationSeconds'];
  const seconds = Math.min(Math.max(typeof wanted === 'number' ? wanted : defaultSeconds, leastSeconds), mostSeconds);
  const expiresMs = now() + seconds * 1_000;
  const bound = isObject(spec['boundObjectRef']) ? boundTo(store, namespace, spec['boundObjectRef']) : undefined;
  const answer = {
    kind: 'TokenRequest',
    apiVersion: 'authentication.k8s.io/v1',
    metadata: { name, namespace },
    spec: { ...spec, audiences: [], expirationSeconds: seconds },
    status: {
      token: makeAccountToken(key, { namespace, name, expiresMs, ...(bound === undefined ? {} : { bound }) }),
      expirationTimestamp: kubeTime(expiresMs),
    },
  };
  return jsonResponse(201, JSON.stringify(answer));
}

function specOf(body: Uint8Array, contentType: string): JsonRecord {
  const isProto = contentType.startsWith(protobufType);
  const { spec } = isProto ? decodeProtoBody(body, tokenModel) : parseYamlOrJson(Buffer.from(body).toString('utf8'));
  return isObject(spec) ? spec : {};
}

function tokenModel(apiVersion: string, kind: string): string | undefined {
  return apiVersion === 'authentication.k8s.io/v1' && kind === 'TokenRequest' ? 'AuthenticationV1TokenRequest' : undefined;
}

/** @throws ApiError 400 or 404 if a token cannot be bound to it */
function boundTo(store: TokenPorts['store'], namespace: string, reference: JsonRecord): Bound {
  const [kind, name] = [textAt(reference, 'kind'), textAt(reference, 'name')];
  if (kind !== 'Pod' && kind !== 'Node') throw badRequest(`cannot bind token for serviceaccount to object of kind ${JSON.stringify(kind)}`);
  const plural = kind === 'Pod' ? 'pods' : 'nodes';
  const object = store.get(plural, kind === 'Pod' ? `${namespace}/${name}` : name)?.object;
  if (object === undefined) throw notFound({ group: '', plural, kind }, name);
  const self = { name, uid: object.metadata.uid ?? '' };
  if (kind === 'Node') return { node: self };
  const nodeName = textAt(object.spec, 'nodeName');
  const uid = store.get('nodes', nodeName)?.object.metadata.uid ?? '';
  return { pod: self, ...(nodeName === '' ? {} : { node: { name: nodeName, uid } }) };
}

function signature(key: string, claims: string): string {
  return createHmac('sha256', key).update(claims).digest('base64url');
}
