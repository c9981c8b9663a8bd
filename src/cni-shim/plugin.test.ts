import { describe, expect, it } from 'vitest';
import { deletionFileName } from '../cni/deletions.ts';
import { decodeRequest, encodeReply, type WireReply } from '../cni/wire.ts';
import type { AgentCallOutcome, Host } from './host.ts';
import { runPlugin } from './plugin.ts';

const add = {
  CNI_COMMAND: 'ADD',
  CNI_CONTAINERID: 'c1',
  CNI_NETNS: '/run/netns/c1',
  CNI_IFNAME: 'eth0',
  CNI_PATH: '/opt/cni/bin',
};
const conf = JSON.stringify({ cniVersion: '1.0.0', name: 'net', type: 'seine', deadline: 10 });

/** Host whose clock advances only when the plugin sleeps or a call takes its time. */
class ScriptedHost implements Host {
  stdout = '';
  stderr = '';
  now = 1_000;
  readonly env: Readonly<Record<string, string>>;
  readonly stdin: string;
  readonly calls: { path: string; request: string; timeoutMs: number }[] = [];
  readonly saved = new Map<string, string>();
  saveFailure: string | undefined;
  readonly pinned: string[] = [];
  pinFailure: string | undefined;
  readonly #answers: ((host: ScriptedHost, timeoutMs: number) => AgentCallOutcome)[];

  constructor(
    env: Readonly<Record<string, string>>,
    stdin: string,
    answers: ((host: ScriptedHost, timeoutMs: number) => AgentCallOutcome)[] = [],
  ) {
    this.env = env;
    this.stdin = stdin;
    this.#answers = answers;
  }

  getenv(name: string): string | undefined {
    return this.env[name];
  }

  readStdin(): { text: string } {
    return { text: this.stdin };
  }

  writeStdout(text: string): void {
    this.stdout += text;
  }

  writeStderr(text: string): void {
    this.stderr += text;
  }

  /** The last answer is repeated. */
  call(path: string, request: string, timeoutMs: number): AgentCallOutcome {
    this.calls.push({ path, request, timeoutMs });
    const answer = this.#answers[Math.min(this.calls.length, this.#answers.length) - 1];
    if (!answer) throw new Error('unexpected call');
    return answer(this, timeoutMs);
  }

  monotonicMs(): number {
    return this.now;
  }

  sleep(ms: number): void {
    this.now += ms;
  }

  saveFile(folder: string, name: string, text: string): string | undefined {
    if (this.saveFailure === undefined) this.saved.set(`${folder}/${name}`, text);
    return this.saveFailure;
  }

  /** An agent has served this node since it booted. */
  readonly heads = new Map([
    ['/var/lib/seine/ipam.journal', '00000000 {"v":1,"op":"open","boot":"b-1","serial":0}'],
    ['/proc/sys/kernel/random/boot_id', 'b-1\n'],
  ]);
  readHead(path: string): string | undefined {
    return this.heads.get(path);
  }

  pinNamespace(folder: string, name: string): string | undefined {
    this.pinned.push(`${folder}/${name}`);
    return this.pinFailure;
  }
}

const replied = (reply: WireReply) => (): AgentCallOutcome => ({ kind: 'answered', reply: encodeReply(reply) });
const refused = (): AgentCallOutcome => ({ kind: 'unreachable', reason: 'Connection refused', retry: true });
const lost = (): AgentCallOutcome => ({ kind: 'lost', reason: 'Connection reset by peer', retry: true });
const hung = (host: ScriptedHost, timeoutMs: number): AgentCallOutcome => {
  host.now += timeoutMs;
  return { kind: 'late', reason: 'Connection timed out', retry: false };
};

function errorOf(host: ScriptedHost): { code: number; msg: string; cniVersion: string } {
  return JSON.parse(host.stdout) as { code: number; msg: string; cniVersion: string };
}

describe('the plugin', () => {
  it('answers VERSION by itself, with any standard input', async () => {
    const host = new ScriptedHost({ CNI_COMMAND: 'VERSION' }, '{');
    expect(await runPlugin(host)).toBe(0);
    expect(JSON.parse(host.stdout)).toEqual({
      cniVersion: '1.1.0',
      supportedVersions: ['0.1.0', '0.2.0', '0.3.0', '0.3.1', '0.4.0', '1.0.0', '1.1.0'],
    });
    expect(host.calls).toEqual([]);
  });

  it('passes the call to the agent unchanged and prints its answer', async () => {
    const host = new ScriptedHost(add, conf, [replied({ exit: 0, stdout: '{"cniVersion":"1.0.0"}' })]);
    expect(await runPlugin(host)).toBe(0);
    expect(host.stdout).toBe('{"cniVersion":"1.0.0"}');
    expect(host.calls[0]?.path).toBe('/run/seine/cni.sock');
    expect(decodeRequest(host.calls[0]?.request ?? '')).toEqual({ env: add, conf, attempt: 1, deadlineMs: 9_750 });
  });

  it("creates the namespace of pre-plugged ports next to the socket on the agent's request, after the answer, which does not depend on it", async () => {
    const host = new ScriptedHost(add, conf, [replied({ exit: 0, stdout: '{}', pinPorts: true })]);
    host.pinFailure = 'Operation not permitted';
    expect(await runPlugin(host)).toBe(0);
    expect([host.stdout, host.pinned]).toEqual(['{}', ['/run/seine/netns/ports']]);
    expect(host.stderr).toContain('no namespace for pre-plugged ports at /run/seine/netns/ports: Operation not permitted');
    const unasked = new ScriptedHost(add, conf, [replied({ exit: 0, stdout: '{}' })]);
    await runPlugin(unasked);
    expect(unasked.pinned).toEqual([]);
  });

  it('answers an invalid call without the agent', async () => {
    const host = new ScriptedHost({ ...add, CNI_IFNAME: 'a/b' }, conf);
    expect(await runPlugin(host)).toBe(1);
    expect(errorOf(host)).toMatchObject({ code: 4, msg: expect.stringContaining('CNI_IFNAME'), cniVersion: '1.0.0' });
  });

  it('retries while the agent restarts, at growing intervals', async () => {
    const host = new ScriptedHost(add, conf, [refused, refused, refused, replied({ exit: 0, stdout: '' })]);
    expect(await runPlugin(host)).toBe(0);
    expect(host.now - 1_000).toBe(10 + 20 + 40);
    expect(host.calls.map(({ request }) => decodeRequest(request).attempt)).toEqual([1, 1, 1, 1]);
  });

  it('reports that an earlier request may have been executed', async () => {
    const host = new ScriptedHost(add, conf, [lost, refused, replied({ exit: 0, stdout: '' })]);
    await runPlugin(host);
    expect(host.calls.map(({ request }) => decodeRequest(request).attempt)).toEqual([1, 2, 2]);
  });

  it('gives up at its deadline with code 11', async () => {
    const host = new ScriptedHost(add, conf, [refused]);
    expect(await runPlugin(host)).toBe(1);
    expect(errorOf(host)).toMatchObject({ code: 11, msg: expect.stringContaining('/run/seine/cni.sock: Connection refused') });
    expect(host.now - 1_000).toBeGreaterThan(9_500);
    expect(host.now - 1_000).toBeLessThanOrEqual(10_000);
  });

  it('does not repeat a call that the agent received but did not answer', async () => {
    const host = new ScriptedHost(add, conf, [hung]);
    expect(await runPlugin(host)).toBe(1);
    expect(host.calls).toHaveLength(1);
    expect(errorOf(host).code).toBe(11);
  });

  const status = { CNI_COMMAND: 'STATUS' };
  const conf11 = JSON.stringify({ cniVersion: '1.1.0', name: 'net', type: 'seine' });
  it('retries STATUS while the agent restarts: the node stays Ready', async () => {
    const host = new ScriptedHost(status, conf11, [lost, refused, refused, replied({ exit: 0, stdout: '' })]);
    expect([await runPlugin(host), host.stdout]).toEqual([0, '']);
    expect(host.now - 1_000).toBe(10 + 20 + 40);
  });

  it.each([
    ['there is no agent', refused],
    ['it hangs', hung],
  ] as const)('answers STATUS with 50 if %s, after the time of a restart or a busy node', async (_, answer) => {
    const host = new ScriptedHost(status, conf11, [answer]);
    expect(await runPlugin(host)).toBe(1);
    expect(errorOf(host).code).toBe(50);
    expect(host.now - 1_000).toBeGreaterThan(9_500);
    expect(host.now - 1_000).toBeLessThanOrEqual(10_000);
  });

  it.each(['of another boot', undefined])(
    'answers STATUS immediately if no agent has served since the host was started (%s)',
    async (head) => {
      const host = new ScriptedHost(status, conf11, [refused]);
      host.heads.delete('/var/lib/seine/ipam.journal');
      if (head !== undefined) host.heads.set('/var/lib/seine/ipam.journal', '00000000 {"v":1,"op":"open","boot":"b-0","serial":0}');
      expect(await runPlugin(host)).toBe(1);
      expect([errorOf(host).code, host.calls.length, host.now]).toEqual([50, 1, 1_000]);
    },
  );

  const notReady = replied({ exit: 1, stdout: '{"cniVersion":"1.0.0","code":11,"msg":"no vswitchd"}' });
  it.each([
    ['there is no agent', refused],
    ['the agent hangs', hung],
    ['the agent is not ready', notReady],
  ] as const)('records a DEL and succeeds if %s until the deadline', async (_, answer) => {
    const host = new ScriptedHost({ ...add, CNI_COMMAND: 'DEL' }, conf, [answer]);
    expect(await runPlugin(host)).toBe(0);
    expect(host.stdout).toBe('');
    const name = deletionFileName({ network: 'net', containerId: 'c1', ifName: 'eth0' });
    expect([...host.saved.keys()]).toEqual([`/var/lib/seine/deletions/${name}`]);
    expect(decodeRequest([...host.saved.values()][0] ?? '')).toMatchObject({ env: { CNI_COMMAND: 'DEL', CNI_CONTAINERID: 'c1' }, conf });
  });

  it('fails a DEL that can be neither executed nor recorded', async () => {
    const host = new ScriptedHost({ ...add, CNI_COMMAND: 'DEL' }, conf, [refused]);
    host.saveFailure = 'No space left on device';
    expect(await runPlugin(host)).toBe(1);
    expect(errorOf(host)).toMatchObject({ code: 11 });
  });

  it("prints the agent's error of a DEL unchanged", async () => {
    const stdout = '{"cniVersion":"1.0.0","code":102,"msg":"port not removed"}';
    const host = new ScriptedHost({ ...add, CNI_COMMAND: 'DEL' }, conf, [replied({ exit: 1, stdout })]);
    expect(await runPlugin(host)).toBe(1);
    expect(host.stdout).toBe(stdout);
    expect(host.saved.size).toBe(0);
  });

  it('reports an answer that cannot be parsed', async () => {
    const host = new ScriptedHost(add, conf, [() => ({ kind: 'answered', reply: '{"v":1,"exit":"no"}' })]);
    expect(await runPlugin(host)).toBe(1);
    expect(errorOf(host).code).toBe(106);
  });

  it('prints JSON even for its own bugs', async () => {
    const host = new ScriptedHost(add, conf);
    expect(await runPlugin(host)).toBe(1);
    expect(errorOf(host)).toMatchObject({ code: 100 });
  });
});
