import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { ended, runIn, startIn, until } from '../host.ts';
import { agentFlags, type Lab, root, shippedAgent } from '../lab.ts';
import type { StepKind } from '../step.ts';
import { frozen, killed, signal, startAgent } from './life.ts';
import { raising } from './raising.ts';

const withinMs = 60_000;
/** Longer than a round of the least frequent checks (docs/reliability.md). */
const frozenMs = 3_000;

export function seinectl({ tried }: Lab, ...args: readonly string[]): Promise<string> {
  const program = join(root, 'dist', 'seinectl.mjs');
  return runIn(tried.netns, process.execPath, [program, '--socket', tried.agentSocket, ...args]);
}

/** A bundle of the agent that differs only in its version. @returns its path */
function otherVersion(): { readonly file: string; readonly remove: () => void } {
  const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { version: string };
  mkdirSync(join(root, '.cache'), { recursive: true });
  // Next to the packages that it loads.
  const folder = mkdtempSync(join(root, '.cache', 'other-version-'));
  const file = join(folder, 'seine-agent.mjs');
  writeFileSync(file, readFileSync(shippedAgent, 'utf8').replaceAll(`"${version}"`, `"${version}-other"`));
  return { file, remove: () => rmSync(folder, { recursive: true, force: true }) };
}

/**
 * Uses the debugger of Node, which SIGUSR1 opens: `node` in the agent's network evaluates an expression that allocates memory, or releases
 * it.
 */
async function evaluate(lab: Lab, expression: string): Promise<void> {
  const script = `
    const [{ webSocketDebuggerUrl }] = await (await fetch('http://127.0.0.1:9229/json')).json();
    const socket = new WebSocket(webSocketDebuggerUrl);
    const ask = (id, method, params) => new Promise((resolve) => {
      socket.addEventListener('message', ({ data }) => JSON.parse(data).id === id && resolve(data));
      socket.send(JSON.stringify({ id, method, params }));
    });
    await new Promise((resolve) => socket.addEventListener('open', resolve));
    console.log(await ask(1, 'Runtime.evaluate', { expression: ${JSON.stringify(expression)}, includeCommandLineAPI: true }));
    await ask(2, 'HeapProfiler.collectGarbage', {});
    process.exit(0);`;
  const output = await runIn(lab.tried.netns, process.execPath, ['--input-type=module', '-e', script]);
  if (output.includes('exceptionDetails')) throw new Error(output);
}

export const alertsOfAgent: readonly StepKind[] = [
  raising('restarts', {
    alerts: ['SeineAgentRestarts'],
    withinMs,
    harmless: true,
    begin:
      async ({ scene: { lab } }) =>
      async () => {
        await killed(lab, 'agentPid');
        // Start times of processes are whole seconds.
        await sleep(1_000);
        await startAgent(lab);
        await lab.untilReady();
      },
  }),
  raising('memory', {
    alerts: ['SeineAgentMemory'],
    withinMs,
    harmless: true,
    begin: async ({ scene: { lab }, undo }) => {
      await signal(lab, 'agentPid', 'SIGUSR1');
      await until(
        async () => (await runIn(lab.tried.netns, 'ss', ['-Hltn'])).includes(':9229'),
        withinMs,
        () => 'no debugger listens',
      );
      undo(() => evaluate(lab, "globalThis.hoard = undefined; setTimeout(() => process.getBuiltinModule('inspector').close(), 1000)"));
      await evaluate(lab, 'globalThis.hoard = Buffer.alloc(1.6e9, 1); 0');
    },
  }),
  raising('versions differ', {
    alerts: ['SeineVersionsDiffer'],
    withinMs,
    harmless: true,
    begin: async ({ scene: { lab, alerts }, undo }) => {
      const { file, remove } = otherVersion();
      undo(remove);
      const levers = `agents/${lab.other.name}`;
      await lab.pull(`${levers}/kill`);
      undo(() => lab.pull(`${levers}/start`));
      const config = join(lab.other.rundir, 'agent.yaml');
      const agent = startIn(lab.other.netns, process.execPath, [...agentFlags(), file, '--config', config], 'ignore', {});
      undo(() => ended(agent));
      alerts?.readBeside({ place: lab.other, only: new Set(['seine_agent_info']) });
      undo(() => alerts?.readBeside(undefined));
    },
  }),
  raising('late', {
    alerts: ['SeineEventLoopLate'],
    harmless: true,
    begin:
      async ({ scene: { lab } }) =>
      () =>
        frozen(lab, 'agentPid', () => sleep(1_000)),
  }),
  raising('look overdue', {
    alerts: ['SeineHealthCheckOverdue'],
    withinMs,
    harmless: true,
    begin: async ({ scene: { lab } }) => {
      let rounds = 0;
      return () => frozen(lab, 'agentPid', () => sleep(frozenMs * ++rounds));
    },
  }),
  raising('paused', {
    alerts: ['SeineRepairPaused'],
    harmless: true,
    begin: async ({ scene: { lab }, undo }) => {
      undo(() => seinectl(lab, 'resume'));
      await seinectl(lab, 'pause', '--for', '10m');
    },
  }),
];
