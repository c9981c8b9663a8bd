import { readFileSync } from 'node:fs';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { CniBench, type PluginRun } from '../../test/support/cni-bench.ts';

interface RecordedCall {
  readonly plugin: string;
  readonly env: Readonly<Record<string, string>>;
  readonly stdin: Readonly<Record<string, unknown>>;
}

/** Calls of a runtime to the first plugin of its chain, in order. */
function recorded(runtime: string): readonly RecordedCall[] {
  const text = readFileSync(new URL(`../../test/fixtures/cni/${runtime}.jsonl`, import.meta.url), 'utf8');
  const calls = text
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as RecordedCall);
  return calls.filter(({ plugin }) => plugin === 'ptp');
}

describe.each(['podman', 'containerd-ctr', 'containerd-cri'])('calls recorded from %s', (runtime) => {
  let bench: CniBench;
  beforeEach(async () => {
    bench = await new CniBench(['10.97.0.0/24']).start();
  });
  afterEach(() => bench.remove());

  async function replay(ipam: 'as recorded' | 'our own'): Promise<readonly { call: RecordedCall; run: PluginRun; wired: number }[]> {
    const replayed = [];
    for (const call of recorded(runtime)) {
      const { ipam: recordedIpam, ...conf } = call.stdin;
      const stdin = ipam === 'our own' ? conf : { ...conf, ...(recordedIpam ? { ipam: recordedIpam } : {}) };
      const run = await bench.run(call.env, bench.aim(JSON.stringify(stdin)));
      replayed.push({ call, run, wired: bench.network.wired.size });
    }
    return replayed;
  }

  it.each(['as recorded', 'our own'] as const)('all succeed, with the IPAM %s', async (ipam) => {
    for (const { call, run } of await replay(ipam)) expect(run, JSON.stringify(call)).toMatchObject({ exit: 0, stderr: '' });
  });

  it('ADD attaches and answers in the requested version', async () => {
    for (const { call, run, wired } of await replay('our own')) {
      if (call.env['CNI_COMMAND'] !== 'ADD') continue;
      expect(wired).toBeGreaterThan(0);
      expect(JSON.parse(run.stdout)).toMatchObject({
        cniVersion: '0.4.0',
        interfaces: [{}, { name: 'eth0', sandbox: call.env['CNI_NETNS'] }],
        ips: [{ version: '4', interface: 1, address: expect.stringMatching(/^10\.97\.0\.\d+\/24$/), gateway: '10.97.0.1' }],
      });
    }
  });

  it('DEL detaches, and a second one with an empty namespace succeeds', async () => {
    await replay('as recorded');
    const deleted = new Set(recorded(runtime).flatMap(({ env }) => (env['CNI_COMMAND'] === 'DEL' ? [env['CNI_CONTAINERID'] ?? ''] : [])));
    expect(deleted.size).toBeGreaterThan(0);
    for (const id of deleted) expect([...bench.network.wired.keys()].filter((key) => key.includes(id))).toEqual([]);
    for (const id of deleted) expect([...bench.delegatedIpam.allocated.keys()].filter((key) => key.includes(id))).toEqual([]);
  });
});

describe('names of pods in the recorded runtimes', () => {
  let bench: CniBench;
  beforeEach(async () => {
    bench = await new CniBench(['10.97.0.0/24']).start();
  });
  afterEach(() => bench.remove());

  const first = (runtime: string) => {
    const call = recorded(runtime).find(({ env }) => env['CNI_COMMAND'] === 'ADD');
    if (!call) throw new Error(`no ADD of ${runtime}`);
    return call;
  };

  it('containerd names it in CNI_ARGS, in any order', async () => {
    const { env, stdin } = first('containerd-cri');
    await bench.run(env, bench.aim(JSON.stringify(stdin)));
    expect([...bench.network.wired.values()]).toMatchObject([{ pod: { namespace: 'ns1', name: 'pod1', uid: 'uid-1' } }]);
  });

  it('podman names a container, which is not a pod, and requests a MAC', async () => {
    const { env, stdin } = first('podman');
    await bench.run(env, bench.aim(JSON.stringify(stdin)));
    const [wired] = [...bench.network.wired.values()];
    expect(wired?.pod).toBeUndefined();
    expect(wired?.mac).toBe('02:11:22:33:44:55');
  });
});
