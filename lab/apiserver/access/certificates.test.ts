import { X509Certificate } from 'node:crypto';
import { mkdtempSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { serverCredentials } from './certificates.ts';

let dir: string;

beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'seine-certs-'));
});

afterEach(() => rmSync(dir, { recursive: true }));

it('signs a certificate for every name, and lets only root read the keys', () => {
  const { caPem, certPem } = serverCredentials(dir, ['127.0.0.1', 'fd00::1', 'localhost'], Date.now());
  const [ca, certificate] = [new X509Certificate(caPem), new X509Certificate(certPem)];
  expect(certificate.verify(ca.publicKey)).toBe(true);
  expect([certificate.checkIP('127.0.0.1'), certificate.checkIP('fd00::1'), certificate.checkHost('localhost')]).toEqual([
    '127.0.0.1',
    'fd00::1',
    'localhost',
  ]);
  expect(certificate.checkIP('127.0.0.2')).toBeUndefined();
  expect(statSync(join(dir, 'credentials.json')).mode & 0o777).toBe(0o600);
});

it('stays the same over restarts, and keeps its authority and token when names are added', () => {
  const first = serverCredentials(dir, ['127.0.0.1'], Date.now());
  expect(serverCredentials(dir, ['127.0.0.1'], Date.now())).toEqual(first);
  const more = serverCredentials(dir, ['127.0.0.1', '10.0.0.1'], Date.now());
  expect([more.caPem, more.token]).toEqual([first.caPem, first.token]);
  expect(new X509Certificate(more.certPem).checkIP('10.0.0.1')).toBe('10.0.0.1');
});
