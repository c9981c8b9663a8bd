import { spawn } from 'node:child_process';
import { SeineError } from '../../base/errors/seine-error.ts';
import { loadPageFiles } from '../../ui/server/page-files.ts';
import { startUiServer, type UiServer } from '../../ui/server/ui-server.ts';
import { safeText } from '../escape.ts';
import { exitCodes } from '../exit-codes.ts';
import { usersAccess } from '../fleet/kubeconfig.ts';
import type { ProcessVariables } from '../fleet/kubeconfig-files.ts';
import type { Terminal } from '../terminal.ts';
import { bundleActions, bundleRoutes, readShownBundles } from './bundle-routes.ts';
import { ClusterConnection } from './cluster-connection.ts';
import { limitHeap } from './heap-limits.ts';
import type { UiFlags } from './ui-flags.ts';
import { actionsOf, routesOf } from './ui-routes.ts';

/** Time without a request after which the page ends (ms). */
const IDLE_MS = 60 * 60_000;

/** Serves the page until it is interrupted, or idle. @returns the exit code */
export async function serveUi(flags: UiFlags, terminal: Terminal, env: ProcessVariables): Promise<number> {
  limitHeap();
  try {
    const page = await openUi(flags, env);
    terminal.line(page.url);
    terminal.remark('The address is valid once, on this host. Ctrl-C ends the page.');
    if (flags.open) openBrowser(page.url, env);
    process.once('SIGINT', page.close).once('SIGTERM', page.close);
    await page.ended;
    return exitCodes.ok;
  } catch (thrown) {
    const error = SeineError.from(thrown, 'seinectl ui');
    if (error.code === 'INVARIANT') throw error;
    terminal.remark(safeText(`seinectl: ${error.rawMessage}`));
    return error.code === 'INVALID_INPUT' ? exitCodes.usage : exitCodes.unreachable;
  }
}

/** Starts the page. @throws SeineError `INVALID_INPUT` for the kubeconfig or a bundle, `UNAVAILABLE` for the port */
export async function openUi(flags: UiFlags, env: ProcessVariables, idleMs = IDLE_MS): Promise<UiServer> {
  if (flags.bundle) return await openBundles(flags.bundle, flags.port, idleMs);
  const access = usersAccess(flags, env);
  const { kubeconfig, context, agentNamespace } = flags;
  const connection = new ClusterConnection({
    ...{ name: context ?? access.server.host, access, agentNamespace, env },
    ...(kubeconfig === undefined ? {} : { kubeconfig }),
    ...(context === undefined ? {} : { context }),
  });
  const server = await startUiServer({
    routes: routesOf(connection),
    actions: actionsOf(connection),
    files: loadPageFiles(),
    port: flags.port,
    idleMs,
  });
  void server.ended.then(() => connection.close());
  return server;
}

/** Starts the page about support bundles: nothing of the kubeconfig is read, and no connection is opened. */
async function openBundles(paths: readonly string[], port: number, idleMs: number): Promise<UiServer> {
  const shown = await readShownBundles(paths);
  return await startUiServer({ routes: bundleRoutes(shown), actions: bundleActions(shown), files: loadPageFiles(), port, idleMs });
}

/** Opens the address where there is a browser. Its failure is none of the page: the address is printed. */
function openBrowser(url: string, env: ProcessVariables): void {
  const program = process.platform === 'darwin' ? 'open' : 'xdg-open';
  if (program === 'xdg-open' && (env['DISPLAY'] ?? env['WAYLAND_DISPLAY'] ?? '') === '') return;
  spawn(program, [url], { stdio: 'ignore', detached: true })
    .on('error', () => undefined)
    .unref();
}
