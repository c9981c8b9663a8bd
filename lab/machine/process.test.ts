import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { expect, it } from 'vitest';
import { endProcesses, isRunning, labMark, markedProcesses, processOf, run, runAnyway, signalProcess } from './process.ts';

const signal = new AbortController().signal;

function started(script: string, env: Record<string, string> = {}): { pid: number; ended: Promise<unknown> } {
  const child = spawn('sh', ['-c', script], { env: { ...process.env, ...env }, stdio: ['ignore', 'ignore', 'ignore'] });
  return { pid: child.pid ?? -1, ended: once(child, 'exit') };
}

it('returns output and exit code of a command', async () => {
  expect(await runAnyway('sh', ['-c', 'cat; echo oh >&2; exit 3'], { input: 'in' }, signal)).toEqual({
    code: 3,
    stdout: 'in',
    stderr: 'oh\n',
  });
  await expect(run('sh', ['-c', 'echo oh >&2; exit 3'], {}, signal)).rejects.toThrow('exit code 3: oh');
  await expect(run('/no/such/program', [], {}, signal)).rejects.toMatchObject({ code: 'REFUSED' });
});

it('ends a command on the signal, and reports it', async () => {
  await expect(run('sleep', ['1000'], {}, AbortSignal.timeout(50))).rejects.toMatchObject({ code: 'CANCELLED' });
});

it('distinguishes a process from a later one with its pid', async () => {
  const { pid, ended } = started('exec sleep 1000');
  const id = processOf(pid);
  if (id === undefined) throw new Error('it did not start');
  const laterOne = { pid, startTime: id.startTime + 1 };
  expect([isRunning(id), isRunning(laterOne), signalProcess(laterOne, 'SIGKILL')]).toEqual([true, false, false]);
  expect(signalProcess(id, 'SIGKILL')).toBe(true);
  await ended;
  expect([isRunning(id), signalProcess(id, 'SIGKILL'), processOf(pid)]).toEqual([false, false, undefined]);
});

it('finds processes that inherited the mark of a lab, also indirectly, and no others', async () => {
  const lab = 'test-of-marks';
  const marked = started('sleep 1000 & sleep 1000', { [labMark]: lab });
  const other = started('sleep 1000', { [labMark]: `${lab}-other` });
  const found = await expect
    .poll(() => markedProcesses(lab))
    .toHaveLength(3)
    .then(() => markedProcesses(lab));
  expect(found.map(({ pid }) => pid)).toContain(marked.pid);
  expect(found.map(({ pid }) => pid)).not.toContain(other.pid);
  await endProcesses([...found, ...markedProcesses(`${lab}-other`)], 1_000);
  await Promise.all([marked.ended, other.ended]);
});

it('kills a process that ignores SIGTERM', async () => {
  const { pid, ended } = started('trap "" TERM; while :; do sleep 0.05; done');
  const id = processOf(pid);
  await endProcesses(id ? [id] : [], 200);
  expect(processOf(pid)).toBeUndefined();
  await ended;
});
