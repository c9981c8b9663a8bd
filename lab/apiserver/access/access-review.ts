import { decodeProtoBody, protobufType } from '../body/proto-body.ts';
import { parseYamlOrJson } from '../body/text-body.ts';
import { pathNotFound } from '../errors/api-error.ts';
import { type ApiRequest, jsonResponse, type User, type WholeResponse } from '../http/api-request.ts';
import { arrayAt, at, isObject, type JsonRecord, textAt } from '../object/json.ts';
import { type AccessAttributes, mayDo, type RoleStore } from './authorization.ts';

const path = '/apis/authorization.k8s.io/v1/selfsubjectaccessreviews';

/** Answers `kubectl auth can-i`. @returns undefined for other paths */
export async function serveAccessReview(roles: RoleStore, request: ApiRequest): Promise<WholeResponse | undefined> {
  if (request.path !== path) return undefined;
  if (request.method !== 'POST') throw pathNotFound();
  const bytes = await request.body();
  const isProto = request.contentType.startsWith(protobufType);
  const review = isProto ? decodeProtoBody(bytes, reviewModel) : parseYamlOrJson(Buffer.from(bytes).toString('utf8'));
  const allowed = mayDo(roles, request.user, accessOf(review));
  return jsonResponse(201, JSON.stringify({ ...review, status: { allowed } }));
}

function reviewModel(apiVersion: string, kind: string): string | undefined {
  return apiVersion === 'authorization.k8s.io/v1' && kind === 'SelfSubjectAccessReview' ? 'V1SelfSubjectAccessReview' : undefined;
}

function accessOf(review: JsonRecord): AccessAttributes {
  const attributes = at(review, 'spec', 'resourceAttributes');
  if (!isObject(attributes)) {
    const other = at(review, 'spec', 'nonResourceAttributes');
    return { verb: textAt(other, 'verb'), path: textAt(other, 'path'), group: '', resource: '', name: '', namespace: '' };
  }
  const [verb = '', group = '', plural = '', part = '', name = '', namespace = ''] = [
    'verb',
    'group',
    'resource',
    'subresource',
    'name',
    'namespace',
  ].map((field) => textAt(attributes, field));
  return { verb, group, resource: part === '' ? plural : `${plural}/${part}`, name, namespace, path: '' };
}

interface ReviewPorts {
  readonly roles: RoleStore;
  userOf(token: string): User | undefined;
}

/**
 * Answers questions about another user's token or permissions, which require a permission of their own. @returns undefined for other paths
 */
export async function serveReviewOfOthers({ roles, userOf }: ReviewPorts, request: ApiRequest): Promise<WholeResponse | undefined> {
  const ofToken = request.path === '/apis/authentication.k8s.io/v1/tokenreviews';
  if (!ofToken && request.path !== '/apis/authorization.k8s.io/v1/subjectaccessreviews') return undefined;
  if (request.method !== 'POST') throw pathNotFound();
  const review = parseYamlOrJson(Buffer.from(await request.body()).toString('utf8'));
  if (ofToken) return jsonResponse(201, JSON.stringify({ ...review, status: tokenStatus(userOf(textAt(review['spec'], 'token'))) }));
  const groups = arrayAt(review['spec'], 'groups') as readonly string[];
  const allowed = mayDo(roles, { name: textAt(review['spec'], 'user'), groups }, accessOf(review));
  return jsonResponse(201, JSON.stringify({ ...review, status: { allowed } }));
}

function tokenStatus(user: User | undefined): object {
  if (user === undefined) return { authenticated: false, error: 'token not found' };
  const { name, ...rest } = user;
  return { authenticated: true, user: { username: name, ...rest } };
}
