import { dirname } from 'node:path';
import { type Command, Option } from 'commander';
import { defaultPaths } from '../api/default-paths.ts';
import { SeineError } from '../base/errors/seine-error.ts';
import { silentLog } from '../base/log/log.ts';
import { AgentClient } from './agent-client.ts';
import { askedFor, type CleanupPathOptions, cleanupPathsOf, socketOf } from './cleanup-paths.ts';
import { safeText } from './escape.ts';
import { exitCodes } from './exit-codes.ts';
import type { Terminal } from './terminal.ts';

interface Flags extends CleanupPathOptions {
  readonly yes?: true;
  readonly force?: true;
}

interface NodeContext {
  /** Socket of the agent. */
  readonly socket: () => string;
  readonly terminal: Terminal;
  /** Called with the exit code of the command. */
  readonly exitWith: (work: Promise<number>) => Promise<void>;
}

const patienceMs = 120_000;

const help = `
Omitted options are read from the agent, if one answers on the socket; otherwise they have the defaults in brackets. An installation with its
socket elsewhere shares this host with another one, as a node of a lab does: options that its agent does not report are required.`;

/** `seinectl node …`: changes of the node itself. Needs no agent. */
export function addNode(root: Command, { socket, terminal, exitWith }: NodeContext): void {
  const { ovsBridge, hostGateway, cniBinDir, cniConfDir, stateDir, apiSocket, ovsRunDir } = defaultPaths;
  root
    .command('node')
    .description('work on this node itself; needs no agent')
    .command('cleanup')
    .description('show what Seine has left on this node; with --yes, remove it')
    .option('--yes', 'remove it')
    .option('--force', 'also while an agent runs, or pods are attached; these pods lose their network')
    .option('--bridge <name>', `ovsBridge of the agent (${ovsBridge})`)
    .option('--gateway <name>', `hostGateway of the agent (${hostGateway})`)
    .option('--cni-bin-dir <folder>', `folder of the runtime’s plugins (${cniBinDir})`)
    .option('--cni-conf-dir <folder>', `folder of their configuration (${cniConfDir})`)
    .option('--state-dir <folder>', `stateDir of the agent (${stateDir})`)
    .option('--run-dir <folder>', `folder of cniSocket and apiSocket (${dirname(apiSocket)})`)
    .addOption(new Option('--ovs-run-dir <folder>', `ovsRunDir of the agent (${ovsRunDir})`).env('OVS_RUNDIR'))
    .addHelpText('after', help)
    .action((flags: Flags) => exitWith(cleanup(terminal, flags, socketOf(flags, socket()), AbortSignal.timeout(patienceMs))));
}

async function cleanup(terminal: Terminal, flags: Flags, socket: string, signal: AbortSignal): Promise<number> {
  const places = cleanupPathsOf(flags, socket, await askedFor(new AgentClient(socket)));
  // Loads a native library, which no other command needs.
  const { findLeftovers } = await import('../install/cleanup.ts');
  const { items: ofInstallation, obstacles } = await findLeftovers(places, signal);
  const items = [...(await trackerLeftovers(places.folders.state)), ...ofInstallation];
  for (const obstacle of obstacles) terminal.remark(`seinectl: ${safeText(obstacle)}`);
  if (items.length === 0) terminal.remark('seinectl: nothing of Seine is on this node');
  if (flags.yes !== true) {
    for (const { what } of items) terminal.line(`would remove  ${safeText(what)}`);
    const when = obstacles.length === 0 ? 'Remove all this with' : 'When that is fixed, remove all this with';
    if (items.length > 0) terminal.remark(`Nothing has been changed. ${when}: seinectl node cleanup --yes`);
    return exitCodes.ok;
  }
  if (obstacles.length > 0 && flags.force !== true) {
    terminal.remark('Nothing has been changed. Do it all the same with: --yes --force');
    return exitCodes.different;
  }
  return await removeAll(terminal, items, signal);
}

/** Returns changes of the kernel's connection tracking by the flow log of an agent that was killed; the folder of its state has the values. */
async function trackerLeftovers(stateDir: string): Promise<Awaited<ReturnType<Find>>['items']> {
  const { TrackerAccounting, trackerParametersFile } = await import('../operations/flow-log/sources/tracker-accounting.ts');
  return new TrackerAccounting({ file: trackerParametersFile(stateDir), log: silentLog })
    .leftChanges()
    .map(({ parameter, value, restore }) => ({
      what: `change of ${parameter} by the flow log: ${value} again`,
      remove: restore,
    }));
}

/** Items that cannot be removed do not prevent the removal of the others. */
async function removeAll(terminal: Terminal, items: Awaited<ReturnType<Find>>['items'], signal: AbortSignal): Promise<number> {
  let failures = 0;
  for (const { what, remove } of items) {
    try {
      await remove(signal);
      terminal.line(`removed  ${safeText(what)}`);
    } catch (thrown) {
      failures++;
      terminal.remark(`seinectl: ${safeText(what)} stays: ${safeText(SeineError.from(thrown, 'cleanup').message)}`);
    }
  }
  if (items.length > 0)
    terminal.remark('Other kernel settings stay as they are (docs/operations.md lists them); a reboot restores those of the host.');
  return failures === 0 ? exitCodes.ok : exitCodes.different;
}

type Find = typeof import('../install/cleanup.ts').findLeftovers;
