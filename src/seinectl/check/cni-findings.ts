import { join } from 'node:path';
import type { CheckName, Finding } from '../../api/check.ts';
import { type CniFacts, ownChain, ownPlugin, type PluginFacts } from './cni-facts.ts';
import { missingFileReason } from './cni-files.ts';

const noPods = 'no pod can start on this node; running pods keep their network';
const reinstall = 'kubectl -n seine-system rollout restart daemonset/seine-agent    # reinstalls both';
/** CNI code for a plugin and an agent without a common protocol version. */
const MISUNDERSTOOD = 106;

/** Findings about the node's CNI files, as a runtime will read them. */
export function assessCni(facts: CniFacts): readonly Finding[] {
  return [...assessConfiguration(facts), ...assessPlugins(facts), ...assessBuild(facts), ...assessStatus(facts)];
}

function assessConfiguration({ files, confDir, agent }: CniFacts): readonly Finding[] {
  const chain = ownChain(files ?? []);
  if (!files || !chain) {
    const others = (files ?? []).map(({ name }) => name).join(', ');
    const what = !files
      ? `there is no ${confDir}`
      : `no file in ${confDir} names the plugin ${ownPlugin}${others === '' ? '' : `; there is ${others}`}`;
    return [
      problem('cni.config', { what, effect: others === '' ? noPods : 'pods get another network than Seine’s, or none', remedy: reinstall }),
    ];
  }
  const path = join(confDir, chain.file);
  const findings = [
    ...assessEarlier(files, confDir, chain.file),
    ...assessSocket(chain.ours.agentSocket ?? '/run/seine/cni.sock', path, agent?.cniSocket),
    ...assessMode(chain.mode, path),
  ];
  return findings.length > 0
    ? findings
    : [{ check: 'cni.config', state: 'ok', what: `${path}: ${chain.plugins.map(({ type }) => type).join(' → ')}` }];
}

/** Runtimes use the first file by name; most stop at one that they cannot read. */
function assessEarlier(files: NonNullable<CniFacts['files']>, confDir: string, ours: string): readonly Finding[] {
  return files
    .slice(
      0,
      files.findIndex(({ name }) => name === ours),
    )
    .map(({ name, content }) =>
      problem('cni.config', {
        what: `${join(confDir, name)} precedes ${ours} by name, and ${'problem' in content ? content.problem : `has the network "${content.network}" of ${content.plugins.map(({ type }) => type).join(' → ')}`}`,
        effect:
          'problem' in content
            ? `runtimes stop at it, or skip it: ${noPods}`
            : 'new pods get that network and not Seine’s: they do not reach pods that have it',
        remedy: `mv ${quoted(join(confDir, name))} ${quoted(`${join(confDir, name)}.disabled`)}`,
      }),
    );
}

function assessSocket(configured: string, path: string, served: string | undefined): readonly Finding[] {
  if (served === undefined || configured === served) return [];
  return [
    problem('cni.config', {
      what: `${path} sends the plugin to ${configured}; the agent serves ${served}`,
      effect: noPods,
      remedy: `sed -i 's#"agentSocket": *"[^"]*"#"agentSocket": "${served}"#' ${quoted(path)}`,
    }),
  ];
}

function assessMode(mode: number, path: string): readonly Finding[] {
  if ((mode & 0o077) === 0) return [];
  return [
    {
      check: 'cni.config',
      state: 'warning',
      what: `${path} has mode 0${mode.toString(8)}`,
      effect: 'none for traffic; the CIS benchmark (1.1.9) requires that only root can read it',
      remedy: `chmod 600 ${quoted(path)}`,
    },
  ];
}

function assessPlugins({ plugins, files, binDir }: CniFacts): readonly Finding[] {
  const version = ownChain(files ?? [])?.version ?? '';
  const findings = [
    ...plugins.filter(isUnusable).map(unusable),
    ...plugins.filter((each) => !speaks(each, version)).map((each) => tooOld(each, version)),
  ];
  return findings.length > 0
    ? findings
    : [
        {
          check: 'cni.plugins',
          state: 'ok',
          what: `${plugins.map(({ type }) => type).join(', ')} in ${binDir}${version === '' ? '' : `, all speak CNI ${version}`}`,
        },
      ];
}

function isUnusable({ problem: why }: PluginFacts): boolean {
  return why !== undefined;
}

function unusable({ type, path, problem: why }: PluginFacts): Finding {
  return problem('cni.plugins', {
    what: `${path} ${why === missingFileReason ? why : `cannot be executed: ${why}`}`,
    effect: `every call of the chain fails: ${noPods}, and deleted pods are not cleaned up until it is back`,
    remedy:
      type === ownPlugin
        ? reinstall
        : `apt-get install --reinstall containernetworking-plugins && ln -s /usr/lib/cni/${type} ${quoted(path)}`,
  });
}

function speaks({ versions, problem: why }: PluginFacts, version: string): boolean {
  return why !== undefined || version === '' || versions.length === 0 || versions.includes(version);
}

function tooOld({ type, versions }: PluginFacts, version: string): Finding {
  return problem('cni.plugins', {
    what: `${type} does not support CNI ${version}, which the configuration requires; it supports ${versions.join(', ')}`,
    effect: noPods,
    remedy: reinstall,
  });
}

function assessBuild({ build, agent, plugins }: CniFacts): readonly Finding[] {
  if (!agent || plugins.some((each) => each.type === ownPlugin && isUnusable(each))) return [];
  if (build === agent.version) return [{ check: 'cni.version', state: 'ok', what: `plugin and agent are of version ${build}` }];
  return [
    {
      check: 'cni.version',
      state: 'warning',
      what: `the plugin is of version ${build ?? 'unknown: it does not report it'}, the agent of ${agent.version}`,
      effect: 'one release apart they understand each other; further apart pods may not start (code 106)',
      remedy: reinstall,
    },
  ];
}

function assessStatus({ status, files, plugins }: CniFacts): readonly Finding[] {
  if (!ownChain(files ?? []) || plugins.some((each) => each.type === ownPlugin && isUnusable(each))) return [];
  if (!status)
    return [
      { check: 'cni.status', state: 'ok', what: 'the plugin, started as a runtime starts it, reaches the agent, and pods are served' },
    ];
  return [
    problem('cni.status', {
      what: `the plugin, started like by a runtime, reports: ${status.message} (code ${status.code})`,
      effect: noPods,
      remedy: status.code === MISUNDERSTOOD ? reinstall : 'seinectl status',
    }),
  ];
}

function problem(check: CheckName, words: { readonly what: string; readonly effect: string; readonly remedy: string }): Finding {
  return { check, state: 'problem', ...words };
}

/** Quotes a path for a shell. */
function quoted(path: string): string {
  return /^[A-Za-z0-9_./-]+$/.test(path) ? path : `'${path.replaceAll("'", "'\\''")}'`;
}
