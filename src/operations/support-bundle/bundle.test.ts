import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { afterAll, describe, expect, it } from 'vitest';
import { SeineError } from '../../base/errors/seine-error.ts';
import { ArchiveWriter, readArchive } from './archive.ts';
import { type BundlePart, collect, type Limits } from './collect.ts';
import { parseManifest } from './manifest.ts';
import { fileParts } from './node-files.ts';
import { plainLine } from './plain-json.ts';
import { redact } from './redact.ts';

const folder = mkdtempSync(join(tmpdir(), 'seine-bundle-'));
afterAll(() => rmSync(folder, { recursive: true }));
const signal = new AbortController().signal;
const limits: Limits = { bytes: 1_000, partMs: 200, wholeMs: 5_000 };

async function collected(parts: readonly BundlePart[], more: Partial<Limits> = {}) {
  const files = new Map<string, string>();
  const archive = { add: async (name: string, bytes: Uint8Array) => void files.set(name, Buffer.from(bytes).toString()) };
  const manifest = await collect(parts, { node: 'n1', archive, limits: { ...limits, ...more }, onPart: () => {} }, signal);
  return { files, manifest };
}

describe('collecting', () => {
  it('records sources that fail, hang or are too long, and has the rest', async () => {
    const { files, manifest } = await collected([
      { name: 'good', gather: () => 'text' },
      { name: 'late', gather: async () => 'later' },
      {
        name: 'bad',
        gather: () => {
          throw new SeineError('UNAVAILABLE', 'no agent answers');
        },
      },
      { name: 'deaf', gather: () => new Promise<never>(() => {}) },
      { name: 'long', gather: () => 'ä'.repeat(10_000) },
      { name: 'gone', gather: () => Promise.reject(Object.assign(new Error('ENOENT: no such file'), { code: 'ENOENT', syscall: 'open' })) },
    ]);
    expect(manifest.parts.map(({ name, state }) => `${name} ${state}`)).toEqual([
      'good whole',
      'late whole',
      'bad failed',
      'deaf failed',
      'long cut',
      'gone absent',
    ]);
    expect(manifest.parts.map(({ reason }) => reason ?? '')).toEqual([
      '',
      '',
      expect.stringContaining('no agent answers'),
      expect.stringContaining('not there within'),
      'cut after 1000 bytes',
      expect.stringContaining('no such file'),
    ]);
    expect([...files.keys()]).toEqual(['good', 'late', 'long', 'manifest.json']);
    expect(Buffer.byteLength(files.get('long') ?? '')).toBeLessThanOrEqual(1_000);
    expect(parseManifest(files.get('manifest.json') ?? '')).toEqual(manifest);
  });

  it('aborts a part at its deadline, and omits the rest when time is over', async () => {
    let reported = false;
    const slow: BundlePart = {
      name: 'slow',
      gather: (patience) =>
        new Promise((_, reject) =>
          patience.addEventListener('abort', () => {
            reported = true;
            reject(new Error('late'));
          }),
        ),
    };
    const { manifest } = await collected([slow, { name: 'next', gather: () => 'x' }], { wholeMs: 100 });
    expect(reported).toBe(true);
    expect(manifest.parts[1]?.reason).toBe('there was no time left');
  });

  it('gives less time to a source that has used up its time once', async () => {
    const deaf = (name: string): BundlePart => ({ name, gather: () => new Promise<never>(() => {}) });
    const parts = [...['a', 'b', 'c', 'd'].map((name) => deaf(`switch/${name}`)), { name: 'kernel/links', gather: () => 'x' }];
    const { manifest } = await collected(parts, { partMs: 1_500, wholeMs: 30_000 });
    expect(manifest.parts.map(({ state }) => state)).toEqual(['failed', 'failed', 'failed', 'failed', 'whole']);
    const [first = 0, ...others] = manifest.parts.slice(0, 4).map(({ tookMs }) => tookMs);
    expect([first >= 1_490, others.every((tookMs) => tookMs < 1_200)]).toEqual([true, true]);
  });

  it("ends on its caller's signal", async () => {
    const archive = { add: async () => {} };
    const gone = AbortSignal.abort(new SeineError('CANCELLED', 'enough'));
    await expect(collect([{ name: 'x', gather: () => '' }], { node: 'n1', archive, limits, onPart: () => {} }, gone)).rejects.toThrow(
      'enough',
    );
  });

  it('takes the files of a node, the end of a log, and only regular files', async () => {
    writeFileSync(join(folder, '10-seine.conflist'), '{"name":"seine"}');
    writeFileSync(join(folder, 'other-kubeconfig'), 'client-key-data: LS0tLS1CRUdJTg==');
    execFileSync('mkfifo', [join(folder, 'pipe')]);
    writeFileSync(join(folder, 'kubelet.log'), `${'old\n'.repeat(200_000)}the end`);
    const places = {
      configFile: '/nowhere/agent.yaml',
      stateDir: folder,
      ovsRunDir: folder,
      ovsLogDir: '/nowhere',
      cniConfDir: folder,
      logs: [join(folder, 'kubelet.log'), '/dev/zero', '/nowhere/../odd name;.log', join(folder, 'pipe')],
    };
    const { files, manifest } = await collected(fileParts(places), { bytes: 10_000_000, partMs: 30_000, wholeMs: 60_000 });
    expect(files.get('files/log-1-kubelet.log')).toMatch(/the end$/);
    expect(files.get('files/log-1-kubelet.log')?.length).toBe(512 * 1024);
    for (const part of ['files/log-2-zero', 'files/log-4-pipe'])
      expect(manifest.parts.find(({ name }) => name === part)).toMatchObject({
        state: 'failed',
        reason: expect.stringContaining('is not a file'),
      });
    expect(manifest.parts.map(({ name }) => name)).toContain('files/log-3-odd_name_.log');
    expect(files.get('files/state-dir.json')).toContain('kubelet.log');
    expect(JSON.parse(files.get('files/cni-net.d.json') ?? '')).toMatchObject({
      files: { '10-seine.conflist': '{"name":"seine"}' },
      others: expect.arrayContaining(['other-kubeconfig']),
    });
    expect(JSON.stringify([...files])).not.toContain('LS0tLS1');
  });
});

describe('the archive', () => {
  it('is read back as it was written, for root alone, and never overwrites another file', async () => {
    const path = join(folder, 'a.tar.gz');
    const archive = new ArchiveWriter(path, 'seine-n1');
    await archive.add('agent/inputs.ndjson', Buffer.from('{}\n'.repeat(100_000)));
    await archive.add('empty', Buffer.alloc(0));
    await archive.close();
    expect(statSync(path).mode & 0o777).toBe(0o600);
    const files = await readArchive(path, (name) => name !== 'other');
    expect([...files].map(([name, bytes]) => [name, bytes.length])).toEqual([
      ['agent/inputs.ndjson', 300_000],
      ['empty', 0],
    ]);
    expect((await readArchive(path, (name) => name === 'empty')).size).toBe(1);
    expect(() => new ArchiveWriter(path, 'x')).toThrow('EEXIST');
    expect((await readArchive(path, () => true)).size).toBe(2);
  });

  it.each([
    ['no file', undefined],
    ['no gzip', Buffer.from('root:x:0:0')],
    ['no tar', gzipSync(Buffer.alloc(2_048, 7))],
    ['broken off', gzipSync(Buffer.alloc(1_000_000, 1)).subarray(0, 400)],
    ['empty', Buffer.alloc(0)],
  ])('that is %s is refused', async (name, bytes) => {
    const path = join(folder, `bad-${name.replace(' ', '-')}`);
    if (bytes) writeFileSync(path, bytes);
    await expect(readArchive(path, () => true)).rejects.toMatchObject({ code: 'INVALID_INPUT' });
  });

  it('that unpacks to more than the limit is rejected before it does', async () => {
    const path = join(folder, 'bomb');
    const archive = new ArchiveWriter(path, 'b');
    for (let at = 0; at < 5; at++) await archive.add(`${at}`, Buffer.alloc(1_000_000));
    await archive.close();
    expect(readFileSync(path).length).toBeLessThan(100_000);
    await expect(readArchive(path, () => false, 4_000_000)).rejects.toThrow('unpacks to more than 4000000');
    expect((await readArchive(path, () => true, 6_000_000)).size).toBe(5);
  });
});

describe('secrets', () => {
  const jwt = 'eyJhbGciOiJSUzI1NiIsImtpZCI6IjEifQ.eyJpc3MiOiJrdWJlcm5ldGVzIiwic3ViIjoieCJ9.c2lnbmF0dXJlLXNpZ25hdHVyZQ';
  const key = `-----BEGIN EC PRIVATE KEY-----\nMHcCAQEEIDq1x\nAbCd==\n-----END EC PRIVATE KEY-----`;
  it.each([
    ['a private key', key, 'MHcCAQEE'],
    ['a private key in JSON', JSON.stringify({ x: key }), 'MHcCAQEE'],
    ['a service account’s token', `log: ${jwt} was refused`, 'c2lnbmF0dXJl'],
    ['a header', 'Authorization: Bearer abcdef.123456-xyz', 'abcdef'],
    ['a password in a URL', 'https://admin:hunter2@10.0.0.1:6443/', 'hunter2'],
    ['a field of a kubeconfig', 'users:\n- user:\n    client-key-data: LS0tLS1CRUdJTg==\n    token: sesame123', /LS0tLS|sesame/],
    ['a quoted field', `  password: 'pa ss'`, 'pa ss'],
    ['a member of JSON', '{"token": "sesame", "a": 1, "apiKey":"k\\"ey"}', /sesame|ey"\}/],
    ['an option of the switch', '["map",[["remote_ip","10.0.0.2"],["psk","swordfish"]]]', 'swordfish'],
    ['one of them over several lines', '[\n  "psk",\n  "swordfish"\n]', 'swordfish'],
    [
      'an annotation that has all of an object',
      '"kubectl.kubernetes.io/last-applied-configuration":"{\\"data\\":{\\"a\\":\\"b\\"}}"',
      'data',
    ],
  ])('are removed: %s', (_, text, secret) => {
    expect(redact(text)).not.toMatch(secret);
    expect(redact(text)).toContain('[REDACTED]');
    expect(redact(redact(text))).toBe(redact(text));
  });

  it('leave JSON as JSON', () => {
    const value = { token: 'a"b', list: [{ 'x-secret': 'y' }], key, url: 'http://u:p@h/' };
    for (const space of [undefined, 2]) expect(() => JSON.parse(redact(JSON.stringify(value, undefined, space)))).not.toThrow();
  });

  it.each([
    'cookie=0x101b1c14e0d4d, table=12, priority=200,ip,in_port=32769 actions=set_field:0x2/0xf->reg0,goto_table:12',
    '["map",[["key","flow"],["remote_ip","flow"]]]',
    'seine_agent_ip_addresses{cidr="10.244.1.0/24",state="free"} 253',
    '-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----',
    'kubeconfig: /etc/seine/kubeconfig',
    '{"level":"info","msg":"ready","tookMs":12}',
  ])('are not found if there are none: %s', (text) => expect(redact(text)).toBe(text));
});

it('writes addresses as text, and large numbers and bytes without loss', () => {
  expect(
    plainLine({ ip: { family: 'ipv4', text: '10.0.0.1', value: 1n }, n: 2n ** 60n, b: Uint8Array.of(1, 255), m: new Map([['a', 1]]) }),
  ).toBe('{"ip":"10.0.0.1","n":"1152921504606846976","b":"01ff","m":{"a":1}}');
});

it('refuses manifests of another format', () => {
  expect(() => parseManifest('{"format":2,"parts":[]}')).toThrow('this program reads 1');
  expect(() => parseManifest('{"format":1}')).toThrow('the manifest: seine');
  expect(() => parseManifest('[]')).toThrow('has format none');
  expect(() => parseManifest('x')).toThrow('is not JSON');
});
