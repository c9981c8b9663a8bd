import { createHmac, timingSafeEqual } from 'node:crypto';
import { notFound } from './api-error.ts';
import { type ApiRequest, jsonAnswer, parseResourcePath, type User, type WholeAnswer } from './api-request.ts';
import type { Core } from './core.ts';
import { isObject } from './json.ts';
import { kubeTime } from './kube-object.ts';
import { parseYamlOrJson } from './patch.ts';

const prefix = 'seine-lab-account';
const defaultSeconds = 3_600;
/** What the real server allows: ten minutes to 2³² seconds. */
const leastSeconds = 600;
const mostSeconds = 2 ** 32;

/** The user that pods with this service account are to the server. */
function accountUser(namespace: string, name: string): User {
  return {
    name: `system:serviceaccount:${namespace}:${name}`,
    groups: ['system:serviceaccounts', `system:serviceaccounts:${namespace}`, 'system:authenticated'],
  };
}

/** A bearer token that says who it is for and until when, signed. `key` stays the same over restarts of the server. */
export function makeAccountToken(key: string, { namespace, name, expiresMs }: AccountToken): string {
  const claims = Buffer.from(JSON.stringify({ namespace, name, expiresMs })).toString('base64url');
  return `${prefix}.${claims}.${signature(key, claims)}`;
}

export interface AccountToken {
  readonly namespace: string;
  readonly name: string;
  readonly expiresMs: number;
}

/** @returns undefined for what is no such token, not ours, or past its time */
export function readAccountToken(key: string, token: string, nowMs: number): User | undefined {
  const [kind, claims = '', signed = '', ...more] = token.split('.');
  if (kind !== prefix || more.length > 0) return undefined;
  const [wanted, given] = [Buffer.from(signature(key, claims)), Buffer.from(signed)];
  if (wanted.length !== given.length || !timingSafeEqual(wanted, given)) return undefined;
  const { namespace, name, expiresMs } = JSON.parse(Buffer.from(claims, 'base64url').toString('utf8')) as AccountToken;
  return nowMs < expiresMs ? accountUser(namespace, name) : undefined;
}

/**
 * Answers `kubectl create token`: POST to `serviceaccounts/NAME/token`. @returns undefined for other requests
 * @throws ApiError 404 if there is no such account
 */
export async function serveTokenRequest(core: Core, request: ApiRequest, key: string): Promise<WholeAnswer | undefined> {
  const path = parseResourcePath(request.path);
  if (request.method !== 'POST' || path?.plural !== 'serviceaccounts' || path.subresource !== 'token') return undefined;
  const { namespace = '', name = '' } = path;
  if (core.store.get('serviceaccounts', `${namespace}/${name}`) === undefined)
    throw notFound({ group: '', plural: 'serviceaccounts', kind: 'ServiceAccount' }, name);
  const seconds = Math.min(Math.max(wantedSeconds(await request.body()), leastSeconds), mostSeconds);
  const expiresMs = core.now() + seconds * 1_000;
  const answer = {
    kind: 'TokenRequest',
    apiVersion: 'authentication.k8s.io/v1',
    metadata: { name, namespace },
    spec: { audiences: [], expirationSeconds: seconds },
    status: { token: makeAccountToken(key, { namespace, name, expiresMs }), expirationTimestamp: kubeTime(expiresMs) },
  };
  return jsonAnswer(201, JSON.stringify(answer));
}

/** A body that cannot be read, kubectl's protocol buffer among them, asks for nothing special. */
function wantedSeconds(body: Uint8Array): number {
  try {
    const { spec } = parseYamlOrJson(Buffer.from(body).toString('utf8'));
    const seconds = isObject(spec) ? spec['expirationSeconds'] : undefined;
    return typeof seconds === 'number' ? seconds : defaultSeconds;
  } catch {
    return defaultSeconds;
  }
}

function signature(key: string, claims: string): string {
  return createHmac('sha256', key).update(claims).digest('base64url');
}
