import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { SeineError } from '../../src/base/errors/seine-error.ts';
import { packageRoot } from '../machine/installation.ts';
import {
  type ControlPlanePrograms,
  type KubernetesPrograms,
  type LabOptions,
  parseControlPlanePrograms,
  parseKubernetesPrograms,
} from '../plan/plan.ts';

/** Options that request a real Kubernetes. */
export interface RealOptions {
  readonly kubernetes?: string | true;
  readonly controlPlane?: string;
}

/** @throws SeineError as `builtKubernetes` */
export async function builtIfAsked({
  kubernetes,
  controlPlane,
}: RealOptions): Promise<Required<Pick<LabOptions, 'kubernetes' | 'controlPlane'>>> {
  return {
    kubernetes: kubernetes === undefined ? undefined : await builtKubernetes(kubernetes === true ? undefined : kubernetes),
    controlPlane: controlPlane === undefined ? undefined : await builtControlPlane(controlPlane),
  };
}

/**
 * The programs of a real Kubernetes, built if absent. The output of the build goes to standard error.
 *
 * @param version required version; any if absent
 * @throws SeineError `INVALID_INPUT` if there is no such version, `REFUSED` if the build failed, which has printed why
 */
async function builtKubernetes(version?: string): Promise<KubernetesPrograms> {
  needRunc();
  const built = parseKubernetesPrograms(await outputOfBuild());
  if (version !== undefined && version.replace(/^v/, '') !== built.version)
    throw new SeineError('INVALID_INPUT', `--kubernetes ${version}: only ${built.version} is built here`);
  return built;
}

/** @param version such as `1.30`; the build lists them. @throws SeineError `REFUSED` if the build failed, which has printed why */
async function builtControlPlane(version: string): Promise<ControlPlanePrograms> {
  return parseControlPlanePrograms(await outputOfBuild('--control-plane', version));
}

/** The last line of its output. */
async function outputOfBuild(...args: readonly string[]): Promise<string> {
  const build = join(packageRoot, 'build', 'kubernetes', 'build.mjs');
  if (!existsSync(build))
    throw new SeineError('INVALID_INPUT', 'a real Kubernetes is built by a checkout of the sources, and this is a package');
  return lastLine(await outputOf(process.execPath, [build, ...args]));
}

function needRunc(): void {
  const folders = (process.env['PATH'] ?? '').split(':');
  if (!folders.some((folder) => existsSync(join(folder, 'runc'))))
    throw new SeineError(
      'INVALID_INPUT',
      'a real Kubernetes needs runc: `npm run build:kubernetes` installs it, as `apt-get install runc` does',
    );
}

function outputOf(command: string, args: readonly string[]): Promise<string> {
  return new Promise((resolve, reject) => {
    const child = spawn(command, [...args], { stdio: ['ignore', 'pipe', 'inherit'] });
    let text = '';
    child.stdout.setEncoding('utf8').on('data', (chunk: string) => {
      text += chunk;
    });
    child.once('error', (cause) => reject(new SeineError('REFUSED', `run ${args.join(' ')}`, { cause })));
    child.once('close', (code) => (code === 0 ? resolve(text) : reject(new SeineError('REFUSED', 'Kubernetes was not built'))));
  });
}

function lastLine(text: string): string {
  return text.trimEnd().split('\n').at(-1) ?? '';
}
