import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type LabApiServer, startApiServer } from '../../lab/apiserver/api-server.ts';
import { ApiError } from '../../lab/apiserver/errors/api-error.ts';
import { loadKubeAccess } from '../../src/kubernetes/client/config.ts';
import { PodExec } from '../../src/kubernetes/client/pod-exec.ts';

/* `exec` of the lab's API server, with the client of seinectl. */

const folder = mkdtempSync(join(tmpdir(), 'seine-lab-exec-'));
const signal = new AbortController().signal;
let server: LabApiServer;
let exec: PodExec;

beforeAll(async () => {
  server = await startApiServer({
    dataDir: folder,
    listeners: [{ host: '127.0.0.1', port: 0 }],
    sans: ['127.0.0.1'],
    serviceCidrs: ['10.96.0.0/16'],
    podCidrs: ['10.244.0.0/16'],
    exec: ({ pod, command: [program = '', ...args] }) => {
      if (pod !== 'agent') throw new ApiError(404, 'NotFound', `pods "${pod}" not found`);
      return spawn(program, args);
    },
  });
  const path = join(folder, 'kubeconfig');
  writeFileSync(path, server.kubeconfig(`https://127.0.0.1:${server.ports[0]}`));
  exec = new PodExec(loadKubeAccess({ from: 'file', path }), 'test');
});
afterAll(async () => {
  await server.close();
  rmSync(folder, { recursive: true });
});

const asked = (...command: readonly string[]) => ({ namespace: 'seine-system', pod: 'agent', container: 'agent', command });

it('runs a program, and reports its output and exit code', async () => {
  expect(await exec.run(asked('sh', '-c', 'echo out; echo err >&2; exit 3'), signal)).toEqual({
    stdout: 'out\n',
    stderr: 'err\n',
    exitCode: 3,
  });
});

it('copies standard input and output', async () => {
  const stream = await exec.open(asked('head', '-c', '5'), signal);
  stream.write('hello');
  expect(await text(stream)).toBe('hello');
});

it('reports a program that does not exist, and a pod that it does not have', async () => {
  await expect(exec.run(asked('/no/program'), signal)).rejects.toThrow('the program was not run');
  await expect(exec.run({ ...asked('true'), pod: 'web' }, signal)).rejects.toThrow('pods "web" not found');
});
