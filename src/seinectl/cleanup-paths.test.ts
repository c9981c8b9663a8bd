import { mkdtempSync, rmSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { AgentClient } from './agent-client.ts';
import { askedFor, cleanupPathsOf, socketOf } from './cleanup-paths.ts';

const usual = '/run/seine/agent.sock';
const labs = '/run/lab/node-1/run/agent.sock';
const reported = {
  stateDir: '/run/lab/node-1/state',
  ovsRunDir: '/run/lab/node-1',
  ovsBridge: 'br-lab',
  hostGateway: 'gw-lab',
  cniSocket: '/run/lab/node-1/run/cni.sock',
  apiSocket: labs,
};

describe('the places of an installation', () => {
  it('are the defaults for the agent at the default socket, except those that are given', () => {
    expect(cleanupPathsOf({}, usual)).toEqual({
      folders: { bin: '/opt/cni/bin', conf: '/etc/cni/net.d', state: '/var/lib/seine' },
      ovsRunFolder: '/run/openvswitch',
      sockets: ['/run/seine/cni.sock', usual],
      bridge: 'br-int',
      gateway: 'antrea-gw0',
    });
    expect(cleanupPathsOf({ stateDir: '/data', bridge: 'br-1' }, '/run/seine/./agent.sock')).toMatchObject({
      folders: { bin: '/opt/cni/bin', state: '/data' },
      bridge: 'br-1',
    });
  });

  it('are those that a running agent reports, wherever it is', () => {
    expect(cleanupPathsOf({}, usual, { stateDir: '/data/seine', ovsBridge: '' })).toMatchObject({
      folders: { conf: '/etc/cni/net.d', state: '/data/seine' },
      bridge: 'br-int',
    });
    expect(cleanupPathsOf({ cniBinDir: '/b', cniConfDir: '/c' }, labs, reported)).toEqual({
      folders: { bin: '/b', conf: '/c', state: reported.stateDir },
      ovsRunFolder: reported.ovsRunDir,
      sockets: [reported.cniSocket, labs],
      bridge: 'br-lab',
      gateway: 'gw-lab',
    });
  });

  it('are never the defaults for an agent elsewhere', () => {
    expect(() => cleanupPathsOf({}, labs, reported)).toThrow(/not the default one of the host: specify its --cni-bin-dir, --cni-conf-dir$/);
    expect(() => cleanupPathsOf({ stateDir: '/s' }, labs)).toThrow(/specify its --cni-bin-dir, --cni-conf-dir, --ovs-run-dir$/);
    const named = { cniBinDir: '/b', cniConfDir: '/c', stateDir: '/s', ovsRunDir: '/o' };
    expect(cleanupPathsOf(named, labs)).toMatchObject({ folders: { bin: '/b', conf: '/c', state: '/s' }, ovsRunFolder: '/o' });
  });
});

describe('the agent', () => {
  let folder = '';
  let server: Server | undefined;
  beforeEach(() => (folder = mkdtempSync(join(tmpdir(), 'seine-cleanup-'))));
  afterEach(() => {
    server?.close();
    rmSync(folder, { recursive: true });
  });

  it('is that of the given folder, else that of the socket', () => {
    expect(socketOf({}, labs)).toBe(labs);
    expect(socketOf({ runDir: '/run/other' }, usual)).toBe('/run/other/agent.sock');
  });

  it('is called, if it runs', async () => {
    const socket = join(folder, 'agent.sock');
    expect(await askedFor(new AgentClient(socket))).toBeUndefined();
    let status = 200;
    server = createServer((_, response) => response.writeHead(status).end(JSON.stringify(reported)));
    await new Promise<void>((resolve) => server?.listen(socket, resolve));
    expect(await askedFor(new AgentClient(socket))).toEqual(reported);
    status = 500; // its folders are unknown, and it runs
    await expect(askedFor(new AgentClient(socket))).rejects.toMatchObject({ code: 'REFUSED' });
  });
});
