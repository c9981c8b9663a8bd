import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parseAllDocuments } from 'yaml';
import { parseNetworkConf } from '../../lab/kubelet/cni-conf.ts';
import { parseConfig } from '../../src/agent/config/agent-config.ts';
import type { JsonObject } from '../../src/cni/json.ts';
import { parseAddConf } from '../../src/cni/network-conf.ts';
import { loadKubeAccess } from '../../src/kubernetes/client/config.ts';
import { KubeHttp } from '../../src/kubernetes/client/http-client.ts';
import type { NetworkPolicyObject } from '../../src/policy/verify/reference/objects.ts';
import { judge } from '../../src/policy/verify/reference/reference-verdict.ts';
import { LoneApiServer } from '../support/lone-api-server.ts';
import { exampleAddresses, exampleCluster } from '../support/policy-cluster.ts';

/*
 * Examples of the task pages: the API server of the lab accepts the objects, the agent its settings, the plugin the CNI lists, and the
 * policies allow what their sentences say.
 */

const pages = [
  'getting-started.md',
  'services.md',
  'network-policy.md',
  'host-ports-and-bandwidth.md',
  'cni.md',
  'configuration.md',
  'data-paths.md',
  'traffic-modes.md',
  'encryption.md',
];

interface ExampleObject {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly namespace: string };
}

function blocksOf(page: string, language: 'yaml' | 'json'): readonly string[] {
  const text = readFileSync(join(import.meta.dirname, '..', '..', 'docs', page), 'utf8');
  return Array.from(text.matchAll(new RegExp(`^\`\`\`${language}\\n(.*?)^\`\`\``, 'gms')), ([, block = '']) => block);
}

const isObject = (value: unknown): value is ExampleObject => typeof value === 'object' && value !== null && 'kind' in value;
const yamlOf = (page: string): readonly { readonly text: string; readonly value: unknown }[] =>
  blocksOf(page, 'yaml').flatMap((text) =>
    parseAllDocuments(text, { strict: true }).map((document) => ({ text, value: document.toJS() as unknown })),
  );
const objects = pages.flatMap((page) =>
  yamlOf(page).flatMap(({ value }) => (isObject(value) ? [{ page, kind: value.kind, name: value.metadata.name, object: value }] : [])),
);
const settings = pages.flatMap((page) => yamlOf(page).flatMap(({ text, value }) => (isObject(value) ? [] : [{ page, text }])));
const lists = pages.flatMap((page) => blocksOf(page, 'json').flatMap((text) => (text.includes('"plugins"') ? [{ page, text }] : [])));

const paths: Readonly<Record<string, string>> = {
  Pod: '/api/v1/namespaces/shop/pods',
  Service: '/api/v1/namespaces/shop/services',
  NetworkPolicy: '/apis/networking.k8s.io/v1/namespaces/shop/networkpolicies',
};

describe('the API server', () => {
  let server: LoneApiServer;
  let admin: KubeHttp;
  const limit = () => AbortSignal.timeout(10_000);
  beforeAll(async () => {
    server = await LoneApiServer.start();
    admin = new KubeHttp(loadKubeAccess({ from: 'file', path: server.kubeconfig }), 'seine-test');
    await admin.json({ method: 'POST', path: '/api/v1/namespaces', body: { metadata: { name: 'shop' } } }, limit());
  });
  afterAll(async () => {
    admin?.close();
    await server?.remove();
  });

  it.each(objects)('accepts $kind $name of $page', async ({ kind, object }) => {
    const path = paths[kind];
    if (path === undefined) throw new Error(`no path for ${kind}`);
    const created = await admin.json({ method: 'POST', path, query: { fieldValidation: 'Strict' }, body: object }, limit());
    expect(created).toMatchObject(object);
  });
});

it.each(settings)('the agent accepts the settings of $page', ({ text }) => {
  expect(() => parseConfig(text, { NODE_NAME: 'n1' })).not.toThrow();
});

it.each(lists)('the plugin accepts the CNI list of $page', ({ text }) => {
  const chain = parseNetworkConf(text);
  expect(chain.plugins[0]?.type).toBe('seine');
  for (const each of chain.plugins) expect(() => parseAddConf(each as JsonObject)).not.toThrow();
});

it('the plugin ignores and refuses the keys that cni.md names', () => {
  const page = readFileSync(join(import.meta.dirname, '..', '..', 'docs', 'cni.md'), 'utf8');
  const section = page.split('### Unsupported keys')[1]?.split('\n## ')[0] ?? '';
  const keysOf = (answer: string): readonly string[] =>
    section.split('\n').flatMap((line) => (line.includes(answer) ? Array.from(line.matchAll(/`([\w.]+)`/g), ([, key = '']) => key) : []));
  const confWith = (key: string): JsonObject =>
    key.split('.').reduceRight<JsonObject>((value, part) => ({ [part]: value }), { any: 'value' });
  const ignored = keysOf('ignored without a message');
  expect(ignored).toHaveLength(4);
  for (const key of ignored) expect([key, parseAddConf(confWith(key))]).toEqual([key, parseAddConf({})]);
  const refused = keysOf('ADD fails with code 2');
  expect(refused).toHaveLength(3);
  for (const key of refused) expect(() => parseAddConf(confWith(key)), key).toThrow('is not supported');
});

it('has examples of each kind', () => {
  expect([objects.length >= 9, settings.length >= 2, lists.length >= 3]).toEqual([true, true, true]);
});

/** Objects of the example cluster, with all policies of the page but those of the other names. */
const verdicts = [
  { policies: ['default-deny'], allowed: ['db > external TCP 443'], denied: ['api > db TCP 5432', 'external > db TCP 80'] },
  { policies: ['default-deny', 'db-from-api'], allowed: ['api > db TCP 5432'], denied: ['web > db TCP 5432', 'api > db TCP 80'] },
  {
    policies: ['db-from-ops'],
    allowed: ['agent > db TCP 5432', 'scraper > db TCP 5432'],
    denied: ['toy > db TCP 5432', 'api > db TCP 5432', 'agent > db TCP 80'],
  },
  { policies: ['metrics-from-ops'], allowed: ['scraper > db TCP 9100'], denied: ['agent > db TCP 9100', 'scraper > db TCP 5432'] },
  {
    policies: ['api-egress'],
    allowed: ['api > external TCP 443', 'external > api TCP 80'],
    denied: ['api > external TCP 80', 'api > 203.0.113.7 TCP 443', 'api > db TCP 5432'],
  },
  {
    policies: ['shop-web-from-shop'],
    allowed: ['api > web TCP 80', 'db > web TCP 80'],
    denied: ['scraper > web TCP 80', 'api > web TCP 81'],
  },
];

it.each(verdicts)('policies $policies allow what the page says', ({ policies, allowed, denied }) => {
  const networkPolicies = objects.flatMap(({ name, object }) =>
    policies.includes(name) ? [object as unknown as NetworkPolicyObject] : [],
  );
  expect(networkPolicies).toHaveLength(policies.length);
  const verdictOf = (connection: string) => {
    const [from = '', , to = '', protocol = '', port] = connection.split(' ');
    const address = (name: string): string => exampleAddresses[name]?.[0] ?? name;
    const parts = { from: address(from), to: address(to), protocol, port: Number(port) };
    return `${connection}: ${judge({ ...exampleCluster, networkPolicies }, parts).verdict}`;
  };
  expect(allowed.map(verdictOf)).toEqual(allowed.map((each) => `${each}: allow`));
  expect(denied.map(verdictOf)).toEqual(denied.map((each) => `${each}: deny`));
});
