import { pathNotFound } from './api-error.ts';
import { type ApiRequest, jsonAnswer, type WholeAnswer } from './api-request.ts';
import { mayDo, type Wish } from './authorization.ts';
import type { Core } from './core.ts';
import { at, isObject, type JsonObject, textAt } from './json.ts';
import { parseYamlOrJson } from './patch.ts';
import { decodeProtoBody, protobufType } from './proto-body.ts';

const path = '/apis/authorization.k8s.io/v1/selfsubjectaccessreviews';

/** Answers `kubectl auth can-i`. @returns undefined for other paths */
export async function serveAccessReview(core: Core, request: ApiRequest): Promise<WholeAnswer | undefined> {
  if (request.path !== path) return undefined;
  if (request.method !== 'POST') throw pathNotFound();
  const bytes = await request.body();
  const isProto = request.contentType.startsWith(protobufType);
  const review = isProto ? decodeProtoBody(bytes, reviewModel) : parseYamlOrJson(Buffer.from(bytes).toString('utf8'));
  const allowed = mayDo(core, request.user, wishOf(review));
  return jsonAnswer(201, JSON.stringify({ ...review, status: { allowed } }));
}

function reviewModel(apiVersion: string, kind: string): string | undefined {
  return apiVersion === 'authorization.k8s.io/v1' && kind === 'SelfSubjectAccessReview' ? 'V1SelfSubjectAccessReview' : undefined;
}

function wishOf(review: JsonObject): Wish {
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
