import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { configInForce, keepConfig } from './config-file.ts';

describe('configInForce', () => {
  let folder: string;
  let file: string;
  const environment = { NODE_NAME: 'n1' };
  const write = (text: string) => writeFileSync(file, `stateDir: ${folder}\n${text}`);
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'seine-config-file-'));
    file = join(folder, 'given.yaml');
  });
  afterEach(() => rmSync(folder, { recursive: true }));

  async function start() {
    const { config, text, warnings } = configInForce(file, environment);
    if (text !== undefined) await keepConfig(config.stateDir, text);
    return { tunnelType: config.tunnelType, warnings };
  }

  it('is the file, without keys unknown to this release', async () => {
    write('tunnelType: vxlan\nfastPath: true\nproxy: { proxyAll: true, later: 1 }\n');
    expect(await start()).toEqual({
      tunnelType: 'vxlan',
      warnings: [expect.stringContaining('unknown field "proxy.later"'), expect.stringContaining('unknown field "fastPath"')],
    });
  });

  it('is the last valid one, if the file is not valid', async () => {
    write('tunnelType: vxlan');
    expect((await start()).warnings).toEqual([]);
    for (const wrong of ['tunnelType: gneve', 'tunnelType: [', 'later: *none']) {
      write(wrong);
      expect(await start()).toEqual({ tunnelType: 'vxlan', warnings: [expect.stringContaining('is not in force')] });
    }
    write('tunnelType: gre');
    expect(await start()).toEqual({ tunnelType: 'gre', warnings: [] });
  });

  it('names every error if there was none before', async () => {
    write('tunnelType: gneve\nlater: 1\nlogLevel: loud');
    await expect(start()).rejects.toThrow(/unknown field "later"; tunnelType: "gneve" is unknown.*; logLevel: /);
  });

  it('reads at most the maximum size of a configuration, and reports unreadable files', async () => {
    write('x'.repeat(2_000_000));
    await expect(start()).rejects.toThrow('more than 1048576 bytes');
    rmSync(file);
    await expect(start()).rejects.toThrow('cannot be read');
  });

  it('is not written if it is stored already', async () => {
    const inode = () => statSync(join(folder, 'agent.yaml')).ino;
    write('tunnelType: vxlan');
    await start();
    const first = inode();
    await start();
    expect(inode()).toBe(first);
    write('tunnelType: gre');
    await start();
    expect([inode() === first, readFileSync(join(folder, 'agent.yaml'), 'utf8')]).toEqual([false, expect.stringContaining('gre')]);
  });

  it('stores the copy for root alone', async () => {
    write('');
    await start();
    expect(statSync(join(folder, 'agent.yaml')).mode & 0o777).toBe(0o600);
  });
});
