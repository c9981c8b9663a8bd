import { mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
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

  function start() {
    const { config, text, warnings } = configInForce(file, environment);
    if (text !== undefined) keepConfig(config.stateDir, text);
    return { tunnelType: config.tunnelType, warnings };
  }

  it('is the file, without what this release does not know', () => {
    write('tunnelType: vxlan\nfastPath: true\nproxy: { proxyAll: true, later: 1 }\n');
    expect(start()).toEqual({
      tunnelType: 'vxlan',
      warnings: [expect.stringContaining('no field "proxy.later"'), expect.stringContaining('no field "fastPath"')],
    });
  });

  it('is the last that could be used, when the file cannot be', () => {
    write('tunnelType: vxlan');
    expect(start().warnings).toEqual([]);
    for (const wrong of ['tunnelType: gneve', 'tunnelType: [', 'later: *none']) {
      write(wrong);
      expect(start()).toEqual({ tunnelType: 'vxlan', warnings: [expect.stringContaining('is not in force')] });
    }
    write('tunnelType: gre');
    expect(start()).toEqual({ tunnelType: 'gre', warnings: [] });
  });

  it('names every fault when there was none before', () => {
    write('tunnelType: gneve\nlater: 1\nlogLevel: loud');
    expect(() => start()).toThrow(/unknown field "later"; tunnelType: "gneve" is unknown.*; logLevel: /);
  });

  it('reads no more than a configuration has, and says that it cannot read it', () => {
    write('x'.repeat(2_000_000));
    expect(start).toThrow('more than 1048576 bytes');
    rmSync(file);
    expect(start).toThrow('cannot be read');
  });

  it('keeps what it keeps for root alone', () => {
    write('');
    start();
    expect(statSync(join(folder, 'agent.yaml')).mode & 0o777).toBe(0o600);
  });
});
