import { accessSync, constants, readFileSync, rmSync } from 'node:fs';
import { hostname, tmpdir } from 'node:os';
import { join } from 'node:path';
import { parse as parseYaml } from 'yaml';
import { defaultPaths } from '../../api/default-paths.ts';
import { SeineError, withoutCode } from '../../base/errors/seine-error.ts';
import { agentParts } from '../../operations/support-bundle/agent-files.ts';
import { ArchiveWriter } from '../../operations/support-bundle/archive.ts';
import { collect, usualLimits } from '../../operations/support-bundle/collect.ts';
import { historyParts } from '../../operations/support-bundle/history-files.ts';
import { kernelParts } from '../../operations/support-bundle/kernel-files.ts';
import type { Manifest, PartRecord } from '../../operations/support-bundle/manifest.ts';
import { fileParts } from '../../operations/support-bundle/node-files.ts';
import { openFlowParts } from '../../operations/support-bundle/openflow-files.ts';
import { ovsdbParts } from '../../operations/support-bundle/ovsdb-files.ts';
import type { AgentClient } from '../agent-client.ts';
import { safeLine } from '../escape.ts';
import { exitCodes } from '../exit-codes.ts';
import type { StandardOutput, Terminal } from '../terminal.ts';
import { count } from '../words.ts';

export interface CollectOptions {
  /** Path, or `-` for standard output. */
  readonly output?: string;
  /** Configuration file to read if the agent does not answer. */
  readonly config: string;
  readonly log: readonly string[];
}

const interruptions = ['SIGINT', 'SIGTERM'] as const;

interface CollectedNode {
  readonly name: string;
  readonly stateDir: string;
  readonly ovsRunDir: string;
  readonly ovsBridge: string;
  readonly agent: 'answers' | 'silent';
}

/**
 * `seinectl collect`: prints the path of the archive, or the archive itself, on standard output, and progress on standard error.
 *
 * @returns 1 if a part is incomplete
 * @throws SeineError `INVALID_INPUT` if the archive cannot be written there
 */
export async function collectBundle(
  agent: AgentClient,
  options: CollectOptions,
  terminal: Terminal,
  stdout: StandardOutput = process.stdout,
): Promise<number> {
  const isStream = options.output === '-';
  if (isStream && stdout.isTTY === true)
    throw new SeineError('INVALID_INPUT', 'an archive is nothing to be shown on a screen: redirect it, `-o - > FILE`, or name a file');
  const node = await findNode(agent, options, terminal);
  const name = `seine-${node.name}-${new Date().toISOString().replace(/[-:]|\.\d+/g, '')}`;
  const path = options.output ?? join(usualFolder(), `${name}.tar.gz`);
  const archive = new ArchiveWriter(isStream ? stdout : path, name);
  const places = {
    ...defaultPaths,
    configFile: options.config,
    stateDir: node.stateDir,
    ovsRunDir: node.ovsRunDir,
    // If Open vSwitch has its sockets elsewhere, its logs are usually there as well.
    ovsLogDir: node.ovsRunDir === defaultPaths.ovsRunDir ? defaultPaths.ovsLogDir : node.ovsRunDir,
    logs: options.log,
  };
  // The desired state of the agent and the actual state of OVS are read one directly after the other, so that they are of the same moment.
  const parts = [
    ...agentParts((question) => ask(agent, node, question)),
    ...openFlowParts(`unix:${join(node.ovsRunDir, `${node.ovsBridge}.mgmt`)}`),
    ...ovsdbParts(join(node.ovsRunDir, 'db.sock')),
    ...kernelParts(),
    ...fileParts(places),
    ...historyParts(node.stateDir, () => Date.now()),
  ];
  const onPart = (record: PartRecord): void => terminal.remark(progressLine(record));
  const interrupted = new AbortController();
  const interrupt = (): void => interrupted.abort(new SeineError('CANCELLED', 'collect was interrupted; no archive is left'));
  for (const name of interruptions) process.once(name, interrupt);
  try {
    const manifest = await collect(parts, { node: node.name, archive, limits: usualLimits, onPart }, interrupted.signal);
    await archive.close();
    if (!isStream) terminal.line(path);
    return report(manifest, terminal);
  } catch (thrown) {
    if (!isStream) rmSync(path, { force: true });
    throw thrown;
  } finally {
    for (const name of interruptions) process.off(name, interrupt);
  }
}

/** The current folder, unless it is not writable: a container's own file system is read-only. */
function usualFolder(): string {
  try {
    accessSync('.', constants.W_OK);
    return '';
  } catch {
    return tmpdir();
  }
}

async function findNode(agent: AgentClient, { config }: CollectOptions, terminal: Terminal): Promise<CollectedNode> {
  try {
    const reported = (await agent.json('/v1/config')) as Readonly<Record<string, unknown>>;
    return nodeOf(reported, 'answers');
  } catch (thrown) {
    const error = SeineError.from(thrown, 'query the agent');
    if (error.code === 'INVARIANT') throw error;
    terminal.remark(safeLine(`seinectl: no agent answers (${error.rawMessage}); collecting what is there without it`));
    return nodeOf(configurationIn(config), 'silent');
  }
}

function nodeOf(reported: Readonly<Record<string, unknown>>, agent: CollectedNode['agent']): CollectedNode {
  const text = (key: string, usual: string): string => {
    const value = reported[key];
    return typeof value === 'string' && value !== '' ? value : usual;
  };
  const name = text('nodeName', process.env['NODE_NAME'] ?? hostname().toLowerCase()).replace(/[^\w.-]/g, '_');
  return {
    name,
    stateDir: text('stateDir', defaultPaths.stateDir),
    ovsRunDir: text('ovsRunDir', defaultPaths.ovsRunDir),
    ovsBridge: text('ovsBridge', defaultPaths.ovsBridge),
    agent,
  };
}

/** Configuration as far as it can be read: its errors are in the archive. */
function configurationIn(path: string): Readonly<Record<string, unknown>> {
  try {
    const value: unknown = parseYaml(readFileSync(path, 'utf8'), { maxAliasCount: 0, logLevel: 'error' });
    return typeof value === 'object' && value !== null ? (value as Readonly<Record<string, unknown>>) : {};
  } catch {
    return {};
  }
}

async function ask(agent: AgentClient, { agent: state }: CollectedNode, path: string): Promise<string> {
  if (state === 'silent') throw new SeineError('UNAVAILABLE', 'no agent answers');
  const { status, body } = await agent.get(path);
  // The manifest records it as absent: the release of the agent has no such answer.
  if (status === 404) throw Object.assign(new Error('this agent does not have it: its release is older'), { code: 'ENOENT' });
  if (status !== 200) throw new SeineError('REFUSED', `the agent answers ${status}: ${withoutCode(body.trim())}`);
  return body;
}

function progressLine({ name, state, bytes, reason }: PartRecord): string {
  const isFine = state === 'whole' || state === 'absent';
  const what = state === 'whole' || state === 'cut' ? `${bytes} bytes` : state;
  const why = reason === undefined ? '' : `: ${withoutCode(reason)}`;
  return safeLine(`${isFine ? ' ' : '!'} ${name.padEnd(28)} ${what}${why}`);
}

function report({ parts }: Manifest, terminal: Terminal): number {
  const lacking = parts.filter(({ state }) => state === 'failed' || state === 'cut');
  terminal.remark(
    `seinectl: ${count(parts.length, 'part')}${lacking.length === 0 ? '' : `, ${lacking.length} of them failed or cut; the manifest has the reasons`}. ` +
      'Known kinds of secrets are removed; addresses and names are not.',
  );
  return lacking.length === 0 ? exitCodes.ok : exitCodes.different;
}
