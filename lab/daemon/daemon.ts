import type { Server } from 'node:http';
import { SeineError } from '../../src/base/errors/seine-error.ts';
import { createLog, type Log } from '../../src/base/log/log.ts';
import { livingProcess, removeFile, writePidFile } from '../machine/files.ts';
import { agentProgram } from '../machine/installation.ts';
import { processOf } from '../machine/process.ts';
import { labPaths } from '../plan/names.ts';
import type { LabPlan } from '../plan/plan.ts';
import { type ControlRoutes, serveControl } from './control.ts';
import { Lab } from './lab.ts';

const routeDeadlineMs = 60_000;

/**
 * The background process of a lab: API server, kubelets, outside network. Runs until SIGTERM or SIGINT. A lab that fails to start remains
 * as it is, for inspection, until `down`.
 *
 * @throws SeineError `REFUSED` if this lab has one already
 */
export async function runDaemon(plan: LabPlan, program: string = agentProgram()): Promise<void> {
  const log = createLog('info');
  const paths = labPaths(plan.dir);
  if (livingProcess(paths.daemonPid)) throw new SeineError('REFUSED', `the lab in ${plan.dir} has a daemon already`);
  const self = processOf(process.pid);
  if (self) writePidFile(paths.daemonPid, self);
  const stop = new AbortController();
  for (const name of ['SIGTERM', 'SIGINT'] as const) process.once(name, () => stop.abort());
  const lab = new Lab({ plan, agentProgram: program, log });
  const control = await serveControl(paths.control, routesOf(lab));
  await bringUp(lab, log, stop.signal);
  await untilAborted(stop.signal);
  await close(control, lab, paths.daemonPid);
}

async function bringUp(lab: Lab, log: Log, signal: AbortSignal): Promise<void> {
  try {
    await lab.start(signal);
    lab.progress.ready();
  } catch (error) {
    const { message } = SeineError.from(error, 'bring the lab up');
    log.error('the lab does not come up', { error: message, stack: error instanceof Error ? error.stack : undefined });
    lab.progress.failed(message);
  }
}

function untilAborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener('abort', () => resolve(), { once: true });
  });
}

async function close(control: Server, lab: Lab, pidFile: string): Promise<void> {
  control.closeAllConnections();
  control.close();
  await lab.close();
  removeFile(pidFile);
}

function routesOf(lab: Lab): ControlRoutes {
  const deadline = () => AbortSignal.timeout(routeDeadlineMs);
  const done = { is: 'value', value: { ok: true } } as const;
  return {
    'GET /status': async () => ({ is: 'value', value: await lab.status(deadline()) }),
    'GET /outcome': async () => ({ is: 'value', value: lab.progress.outcome }),
    'GET /progress': async () => ({
      is: 'lines',
      each: (tell, ended) =>
        lab.progress.listen((event) => {
          tell(event);
          if (event.is !== 'step') ended();
        }),
    }),
    'POST /agents/:node/:verb': async ({ node = '', verb = '' }) => {
      if (verb !== 'start' && verb !== 'stop' && verb !== 'kill') throw new SeineError('INVALID_INPUT', `unknown verb ${verb}`);
      await lab.agent(node, verb);
      return done;
    },
    'POST /apiserver/:verb': async ({ verb = '' }) => {
      if (verb !== 'start' && verb !== 'start-empty' && verb !== 'stop') throw new SeineError('INVALID_INPUT', `unknown verb ${verb}`);
      await lab.apiServer(verb, deadline());
      return done;
    },
    'POST /programs/:program/:node/:verb': async ({ program = '', node = '', verb = '' }) => {
      if (program !== 'kubelet' && program !== 'containerd') throw new SeineError('INVALID_INPUT', `unknown program ${program}`);
      if (verb !== 'start' && verb !== 'stop' && verb !== 'kill') throw new SeineError('INVALID_INPUT', `unknown verb ${verb}`);
      await lab.turn(node, program, verb, deadline());
      return done;
    },
    'POST /ovs/:node/start': async ({ node = '' }) => {
      await lab.startOvs(node, deadline());
      return done;
    },
    'POST /ovs/:node/kill/:which': async ({ node = '', which = '' }) => {
      if (which !== 'all' && which !== 'ovs-vswitchd' && which !== 'ovsdb-server')
        throw new SeineError('INVALID_INPUT', `no daemon ${which}`);
      await lab.killOvs(node, which === 'all' ? ['ovs-vswitchd', 'ovsdb-server'] : [which]);
      return done;
    },
    'POST /pods/:namespace/:name/check': async ({ namespace = '', name = '' }) => {
      await lab.check(namespace, name, deadline());
      return done;
    },
  };
}
