import { existsSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { connect } from 'node:http2';
import { join, resolve } from 'node:path';
import { CoreV1Api, DiscoveryV1Api, KubeConfig, KubernetesObjectApi, type V1ConfigMap, Watch } from '@kubernetes/client-node';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { LoneApiServer } from '../support/lone-api-server.ts';
import { type Ran, runProgram } from '../support/run-program.ts';

/** Waits for what comes soon, and long enough for a busy host. */
const eventually = (check: () => unknown) => vi.waitFor(check, { timeout: 10_000 });

/** The host's own kubectl, and Debian's if set-up unpacked it because both cannot be installed. */
const kubectls = ['kubectl', resolve('.cache/kubectl-debian/usr/bin/kubectl')].filter((path) => path === 'kubectl' || existsSync(path));

let server: LoneApiServer;

beforeAll(async () => {
  server = await LoneApiServer.start();
});

afterAll(() => server.remove());

function run(program: string, args: readonly string[], stdin = ''): Promise<Ran> {
  const { kubeconfig, dir } = server;
  return runProgram(program, args, { stdin, env: { ...process.env, KUBECONFIG: kubeconfig, HOME: dir }, timeoutMs: 30_000 });
}

describe.each(kubectls)('%s', (kubectl) => {
  const namespace = `test-${kubectls.indexOf(kubectl)}`;
  const k = async (...args: string[]): Promise<string> => {
    const { code, stdout, stderr } = await run(kubectl, ['-n', namespace, ...args]);
    expect({ code, stderr: code === 0 ? '' : stderr }).toEqual({ code: 0, stderr: '' });
    return stdout.trim();
  };
  const fails = async (args: readonly string[], input = ''): Promise<string> => {
    const { code, stderr } = await run(kubectl, ['-n', namespace, ...args], input);
    expect(code).not.toBe(0);
    return stderr.trim();
  };
  const apply = (yaml: string, ...more: string[]) => run(kubectl, ['-n', namespace, 'apply', '-f', '-', ...more], yaml);

  const service = `
apiVersion: v1
kind: Service
metadata: {name: web, labels: {app: web}}
spec:
  type: NodePort
  ipFamilyPolicy: PreferDualStack
  selector: {app: web}
  ports: [{name: http, port: 80, targetPort: web}, {name: dns, port: 53, protocol: UDP}]
---
apiVersion: v1
kind: Pod
metadata: {name: p1, labels: {app: web}}
spec:
  containers:
  - {name: c, image: none, resources: {limits: {cpu: 1, memory: 64Mi}}, ports: [{name: web, containerPort: 8080}]}
`;

  it('creates a namespace, which gets its default objects', async () => {
    expect(await k('create', 'namespace', namespace)).toBe(`namespace/${namespace} created`);
    await eventually(async () =>
      expect(await k('get', 'serviceaccounts,configmaps', '-o', 'name')).toBe('serviceaccount/default\nconfigmap/kube-root-ca.crt'),
    );
  });

  it('applies with validation, then finds nothing to change', async () => {
    expect((await apply(service)).stdout).toBe('service/web created\npod/p1 created\n');
    expect((await apply(service)).stdout).toBe('service/web unchanged\npod/p1 unchanged\n');
    expect((await apply(service.replace('port: 80,', 'port: 81,'))).stdout).toBe('service/web configured\npod/p1 unchanged\n');
    expect(await k('get', 'service', 'web', '-o', 'jsonpath={.spec.ports[*].port}')).toBe('81 53');
    expect((await apply(service)).stdout).toContain('service/web configured');
  });

  it('reports a misspelt field before it is lost', async () => {
    const { code, stderr } = await apply(service.replaceAll('selector:', 'selektor:'));
    expect(code).not.toBe(0);
    expect(stderr).toContain('unknown field');
    expect(stderr).toContain('selektor');
  });

  it('prints tables, wide and watched', async () => {
    const [head, row] = (await k('get', 'services', '-o', 'wide')).split('\n');
    expect(head?.split(/\s+/)).toEqual(['NAME', 'TYPE', 'CLUSTER-IP', 'EXTERNAL-IP', 'PORT(S)', 'AGE', 'SELECTOR']);
    expect(row).toMatch(/^web +NodePort +10\.96\.\d+\.\d+ +<none> +80:3\d{4}\/TCP,53:3\d{4}\/UDP +\d+s +app=web$/);
    const { stdout } = await run(kubectl, ['-n', namespace, 'get', 'pods', '-w', '--request-timeout=2s']);
    expect(stdout).toMatch(/^NAME +READY +STATUS +RESTARTS +AGE\np1 +0\/1 +Pending/);
  });

  it('describes', async () => {
    const text = await k('describe', 'service', 'web');
    expect(text).toMatch(/IP Families: +IPv4,IPv6/);
    expect(await k('describe', 'pod', 'p1')).toMatch(/QoS Class: +Guaranteed/);
    expect(await k('describe', 'namespace', namespace)).toMatch(/Status: +Active/);
  });

  it('patches in all three ways', async () => {
    await k('patch', 'service', 'web', '-p', '{"spec":{"ports":[{"port":80,"targetPort":9090}]}}');
    await k('patch', 'service', 'web', '--type=merge', '-p', '{"metadata":{"annotations":{"a":"b"}}}');
    await k('patch', 'service', 'web', '--type=json', '-p', '[{"op":"add","path":"/metadata/labels/x","value":"y"}]');
    expect(
      await k('get', 'service', 'web', '-o', 'jsonpath={.spec.ports[*].targetPort} {.metadata.annotations.a} {.metadata.labels.x}'),
    ).toBe('9090 53 b y');
  });

  it('labels, annotates and selects', async () => {
    await k('label', 'pod', 'p1', 'tier=front');
    await k('annotate', 'pod', 'p1', 'note=hello');
    expect(await k('get', 'pods', '-l', 'tier in (front,back)', '-o', 'name')).toBe('pod/p1');
    expect(await k('get', 'pods', '--field-selector', 'status.phase=Pending', '-o', 'name')).toBe('pod/p1');
    expect(await k('get', 'pods', '-l', 'tier!=front', '-o', 'name')).toBe('');
  });

  it('words errors like the real server', async () => {
    expect(await fails(['create', 'service', 'nodeport', 'x', '--tcp=80', '--node-port=99'])).toContain(
      'The range of valid ports is 30000-32767',
    );
    expect(await fails(['get', 'service', 'none'])).toBe('Error from server (NotFound): services "none" not found');
    expect(await fails(['create', 'configmap', 'Not_A_Name'])).toContain('a lowercase RFC 1123 subdomain must consist of');
    expect(
      await fails(
        ['replace', '-f', '-'],
        JSON.stringify({ apiVersion: 'v1', kind: 'Service', metadata: { name: 'web', resourceVersion: '1' }, spec: {} }),
      ),
    ).toContain('the object has been modified');
  });

  it('applies on the server, and reports conflicts', async () => {
    const config = (value: string) =>
      JSON.stringify({ apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'shared' }, data: { key: value } });
    expect(
      (await run(kubectl, ['-n', namespace, 'apply', '--server-side', '--field-manager=one', '-f', '-'], config('a'))).stdout,
    ).toContain('serverside-applied');
    expect(await fails(['apply', '--server-side', '--field-manager=two', '-f', '-'], config('b'))).toContain(
      'conflict with "one" using v1: .data.key',
    );
    await run(kubectl, ['-n', namespace, 'apply', '--server-side', '--field-manager=two', '--force-conflicts', '-f', '-'], config('b'));
    expect(await k('get', 'configmap', 'shared', '-o', 'jsonpath={.data.key}')).toBe('b');
  });

  it('creates what its generators send', async () => {
    await k('create', 'configmap', 'generated', '--from-literal=a=b');
    await k('create', 'secret', 'generic', 'generated', '--from-literal=a=b');
    await k('create', 'serviceaccount', 'generated');
    await k('create', 'deployment', 'generated', '--image=none');
    await k('create', 'role', 'generated', '--verb=get', '--resource=pods');
    await k('create', 'rolebinding', 'generated', '--role=generated', '--serviceaccount=default:x');
    await k('create', 'service', 'clusterip', 'generated', '--tcp=80:8080');
    expect(await k('get', 'configmap,secret,serviceaccount,deployment,role,rolebinding,service', 'generated', '-o', 'name')).toBe(
      [
        'configmap/generated',
        'secret/generated',
        'serviceaccount/generated',
        'deployment.apps/generated',
        'role.rbac.authorization.k8s.io/generated',
        'rolebinding.rbac.authorization.k8s.io/generated',
        'service/generated',
      ].join('\n'),
    );
    expect(await k('get', 'service', 'generated', '-o', 'jsonpath={.spec.ports[0].targetPort}')).toBe('8080');
  });

  it('changes nothing in a dry run on the server', async () => {
    const tried = await k('create', 'service', 'clusterip', 'dry', '--tcp=80', '--dry-run=server', '-o', 'jsonpath={.spec.clusterIP}');
    expect(tried).toMatch(/^10\.96\./);
    expect(await fails(['get', 'service', 'dry'])).toContain('not found');
  });

  it('defines kinds and uses them', async () => {
    const group = `k${kubectls.indexOf(kubectl)}.example.com`;
    const definition = {
      apiVersion: 'apiextensions.k8s.io/v1',
      kind: 'CustomResourceDefinition',
      metadata: { name: `widgets.${group}` },
      spec: {
        group,
        scope: 'Namespaced',
        names: { plural: 'widgets', kind: 'Widget', shortNames: ['wd'] },
        versions: [
          {
            name: 'v1',
            served: true,
            storage: true,
            subresources: { status: {} },
            additionalPrinterColumns: [{ name: 'Size', type: 'integer', jsonPath: '.spec.size' }],
            schema: {
              openAPIV3Schema: {
                type: 'object',
                properties: {
                  spec: {
                    type: 'object',
                    required: ['size'],
                    properties: { size: { type: 'integer', maximum: 5 }, color: { type: 'string', default: 'red' } },
                  },
                },
              },
            },
          },
        ],
      },
    };
    const widget = (size: unknown) =>
      JSON.stringify({ apiVersion: `${group}/v1`, kind: 'Widget', metadata: { name: 'w' }, spec: { size } });
    expect((await apply(JSON.stringify(definition))).code).toBe(0);
    await k('wait', '--for', 'condition=established', `crd/widgets.${group}`);
    expect((await apply(widget(9), '--validate=false')).stderr).toContain('spec.size in body should be less than or equal to 5');
    expect((await apply(widget(3))).stdout).toContain('created');
    expect(await k('get', `widgets.${group}`)).toMatch(/^NAME +SIZE\nw +3$/);
    expect(await k('get', `widgets.${group}`, 'w', '-o', 'jsonpath={.spec.color}')).toBe('red');
    expect(await k('delete', 'crd', `widgets.${group}`)).toContain('deleted');
  });

  it('explains and lists kinds', async () => {
    expect(await k('explain', 'service.spec.ports')).toContain('nodePort');
    expect(await k('api-resources')).toMatch(/networkpolicies +netpol +networking\.k8s\.io\/v1 +true +NetworkPolicy/);
    expect(await k('api-versions')).toContain('discovery.k8s.io/v1');
  });

  it('evaluates access', async () => {
    await k('create', 'role', 'reader', '--verb=get,list', '--resource=pods');
    await k('create', 'rolebinding', 'reader', '--role=reader', `--serviceaccount=${namespace}:reader`);
    const as = `--as=system:serviceaccount:${namespace}:reader`;
    expect(await k('get', 'pods', '-o', 'name', as)).toBe('pod/p1');
    expect(await fails(['get', 'services', as])).toContain('cannot list resource "services"');
    expect(await k('auth', 'can-i', 'list', 'pods', as)).toBe('yes');
  });

  it('waits for a condition and for deletion', async () => {
    const waiting = k('wait', '--for=condition=Ready', 'pod/p1', '--timeout=20s');
    const status = { status: { phase: 'Running', podIPs: [{ ip: '10.10.0.2' }], conditions: [{ type: 'Ready', status: 'True' }] } };
    await run('curl', [
      '-sf',
      '--cacert',
      await caFile(),
      '-XPATCH',
      '-H',
      `Authorization: Bearer ${server.api.token}`,
      '-H',
      'Content-Type: application/merge-patch+json',
      '-d',
      JSON.stringify(status),
      `${server.url}/api/v1/namespaces/${namespace}/pods/p1/status`,
    ]);
    expect(await waiting).toBe('pod/p1 condition met');
    await eventually(async () =>
      expect(await k('get', 'endpointslices', '-o', 'jsonpath={.items[*].endpoints[*].addresses[0]}')).toBe('10.10.0.2'),
    );
    expect(await k('delete', 'pod', 'p1', '--timeout=20s')).toContain('deleted');
  });

  it('deletes a namespace with all that is in it', async () => {
    await k('delete', 'namespace', namespace, '--timeout=25s');
    expect(await fails(['get', 'namespace', namespace])).toContain('not found');
  });
});

async function caFile(): Promise<string> {
  const path = join(server.dir, 'ca.pem');
  await writeFile(path, server.api.caPem);
  return path;
}

describe('client-node', () => {
  const config = (): KubeConfig => {
    const loaded = new KubeConfig();
    loaded.loadFromString(server.api.kubeconfig(server.url));
    return loaded;
  };

  it('creates, lists and deletes with types', async () => {
    const core = config().makeApiClient(CoreV1Api);
    const made = await core.createNamespacedService({
      namespace: 'default',
      body: { metadata: { name: 'typed' }, spec: { ports: [{ port: 80 }] } },
    });
    expect(made.spec?.clusterIPs).toHaveLength(1);
    const { items } = await core.listNamespacedService({ namespace: 'default' });
    expect(items.map(({ metadata }) => metadata?.name)).toEqual(['typed']);
    await core.deleteNamespacedService({ name: 'typed', namespace: 'default' });
    expect((await config().makeApiClient(DiscoveryV1Api).listEndpointSliceForAllNamespaces()).items).toEqual([]);
  });

  it('applies by server-side apply', async () => {
    const objects = KubernetesObjectApi.makeApiClient(config());
    const body: V1ConfigMap = {
      apiVersion: 'v1',
      kind: 'ConfigMap',
      metadata: { name: 'applied', namespace: 'default' },
      data: { a: 'b' },
    };
    const applied = await objects.patch(body, undefined, undefined, 'test', true, 'application/apply-patch+yaml');
    expect(applied.metadata?.managedFields?.[0]).toMatchObject({ manager: 'test', operation: 'Apply' });
  });

  it('watches through a restart of the server', async () => {
    const core = config().makeApiClient(CoreV1Api);
    const seen: string[] = [];
    const watchFrom = (resourceVersion: string) =>
      new Promise<AbortController>((started, failed) => {
        const onEvent = (type: string, object: { metadata: { name: string } }) => seen.push(`${type} ${object.metadata.name}`);
        new Watch(config()).watch('/api/v1/namespaces/default/configmaps', { resourceVersion }, onEvent, () => {}).then(started, failed);
      });
    const { metadata } = await core.listNamespacedConfigMap({ namespace: 'default' });
    const version = metadata?.resourceVersion ?? '';
    const first = await watchFrom(version);
    await core.createNamespacedConfigMap({ namespace: 'default', body: { metadata: { name: 'one' } } });
    await eventually(() => expect(seen).toEqual(['ADDED one']));
    first.abort();
    await server.restart();
    await core.createNamespacedConfigMap({ namespace: 'default', body: { metadata: { name: 'two' } } });
    seen.length = 0;
    const second = await watchFrom(version);
    await eventually(() => expect(seen).toEqual(['ADDED one', 'ADDED two']));
    second.abort();
  });
});

it('rejects clients without a token, and answers probes of all', async () => {
  const get = async (path: string) => (await run('curl', ['-s', '--cacert', await caFile(), `${server.url}${path}`])).stdout;
  expect(JSON.parse(await get('/api/v1/pods'))).toMatchObject({ kind: 'Status', reason: 'Unauthorized', code: 401 });
  expect(await get('/readyz')).toBe('ok');
});

it('speaks HTTP/1.1 as well, on every listener', async () => {
  for (const port of server.api.ports) {
    const { stdout } = await run('curl', [
      '-s',
      '--http1.1',
      '--cacert',
      await caFile(),
      '-H',
      `Authorization: Bearer ${server.api.token}`,
      `https://127.0.0.1:${port}/api/v1/namespaces/default`,
    ]);
    expect(JSON.parse(stdout)).toMatchObject({ kind: 'Namespace' });
  }
});

it('keeps a slow watcher synced without buffering its events in memory', async () => {
  const { registry, store, writer } = server.api;
  const resource = registry.find('', 'v1', 'configmaps');
  if (resource === undefined) throw new Error('configmaps are served');
  const session = connect(server.url, { ca: server.api.caPem });
  const stream = session.request({
    ':path': `/api/v1/namespaces/default/configmaps?watch=true&resourceVersion=${store.revision}`,
    authorization: `Bearer ${server.api.token}`,
  });
  await new Promise((responded) => stream.once('response', responded));
  stream.pause();
  const metadata = { name: 'busy', namespace: 'default', uid: 'u', resourceVersion: '', creationTimestamp: '2026-01-01T00:00:00Z' };
  for (let count = 0; count < 5000; count++)
    store.put('configmaps', {
      apiVersion: 'v1',
      kind: 'ConfigMap',
      metadata,
      data: { count: String(count), padding: 'x'.repeat(2000) },
    });
  let text = '';
  stream.on('data', (chunk: Uint8Array) => (text += Buffer.from(chunk).toString()));
  stream.resume();
  await vi.waitFor(() => expect(text.trim().split('\n')).toHaveLength(5000), { timeout: 20_000 });
  expect(text.trim().split('\n').at(-1)).toContain('"count":"4999"');
  stream.close();
  session.close();
  writer.delete(resource, 'default', 'busy', {});
});
