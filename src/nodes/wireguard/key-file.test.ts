import { chmodSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { WireGuardPrivateKey } from '../../netlink/wireguard/wireguard-key.ts';
import { WireGuardKeyFile } from './key-file.ts';

let folder = '';
beforeEach(() => void (folder = mkdtempSync(join(tmpdir(), 'seine-key-'))));
afterEach(() => rmSync(folder, { recursive: true }));

describe('the key file of a node', () => {
  it('is created with mode 0600, and has the same key for the next agent', async () => {
    const first = await new WireGuardKeyFile(folder).open();
    const path = join(folder, 'wireguard.key');
    expect(statSync(path).mode & 0o777).toBe(0o600);
    const content = readFileSync(path, 'utf8');
    const second = await new WireGuardKeyFile(folder).open();
    expect(second.current.publicKey).toBe(first.current.publicKey);
    expect(second.next).toBeUndefined();
    expect(readFileSync(path, 'utf8')).toBe(content);
  });

  it('has another key on each node', async () => {
    const other = mkdtempSync(join(tmpdir(), 'seine-key-'));
    const keys = await Promise.all([folder, other].map((each) => new WireGuardKeyFile(each).open()));
    expect(keys[0]?.current.publicKey).not.toBe(keys[1]?.current.publicKey);
    rmSync(other, { recursive: true });
  });

  it('stores the next key and its time during a rotation', async () => {
    const file = new WireGuardKeyFile(folder);
    const { current } = await file.open();
    const key = WireGuardPrivateKey.generate();
    await file.write({ current, next: { key, at: 1_800_000_000_000 } });
    const stored = await new WireGuardKeyFile(folder).open();
    expect([stored.current.publicKey, stored.next?.key.publicKey, stored.next?.at]).toEqual([
      current.publicKey,
      key.publicKey,
      1_800_000_000_000,
    ]);
  });

  it.each([
    ['an empty file', ''],
    ['half a key', `${WireGuardPrivateKey.generate().toBase64().slice(0, 20)}\n`],
    ['three lines', 'x\n'.repeat(3)],
    ['a next key without a time', `${WireGuardPrivateKey.generate().toBase64()}\n${WireGuardPrivateKey.generate().toBase64()}\n`],
  ])('is not replaced if it is %s, and the text is not shown', async (_, text) => {
    const path = join(folder, 'wireguard.key');
    writeFileSync(path, text);
    chmodSync(path, 0o600);
    const error = await new WireGuardKeyFile(folder).open().catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({
      code: 'INVALID_INPUT',
      message: `[INVALID_INPUT] ${path} has no WireGuard key; delete it to generate a new one`,
    });
    expect(readFileSync(path, 'utf8')).toBe(text);
  });
});
