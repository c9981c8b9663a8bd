import { existsSync, readdirSync, readFileSync, type Stats, statSync } from 'node:fs';
import { join } from 'node:path';
import type { HealthCheck, HealthCheckResult } from '../api/health/health-check.ts';
import type { FoundProblem } from '../api/problem.ts';
import { SeineError } from '../base/errors/seine-error.ts';
import { placeFile } from '../base/files/atomic-file.ts';
import { type ConfList, isForeign, parseConfList } from './conflist.ts';
import { confMode, confName, type Folders, type InstallPaths, installPathsIn, pluginMode } from './install-paths.ts';
import { chainState, repairedChain } from './own-chain.ts';

const EVERY_MS = 10_000;
/** Maximum number of consecutive repairs: a program that changes the files after each repair wins after that, for a while. */
const REPAIRS_MAX = 5;
const REPAIRS_WITHIN_MS = 10 * 60_000;
const REINSTALL = 'kubectl -n seine-system rollout restart daemonset/seine-agent    # reinstalls plugin and configuration';

interface CniCheckOptions {
  /** Folders as the agent sees them; without write access, nothing is repaired. */
  readonly folders: Folders;
  readonly nowMs?: () => number;
}

/** State of the configuration in the last check, for `seinectl status`. */
interface CniChain {
  readonly chain: readonly string[];
  readonly added: readonly string[];
}

/** Findings of one check. */
interface Findings {
  readonly problems: FoundProblem[];
  readonly repaired: string[];
}

/**
 * Checks that the container runtime still finds the installed files: the plugin, byte for byte, and its configuration. Plugins that others
 * have added to the list stay. Missing or changed files of Seine are restored, if this process may write; a running installation is not
 * touched.
 */
export class CniFiles {
  readonly #places: InstallPaths;
  readonly #folders: Folders;
  readonly #nowMs: () => number;
  #repairsMs: number[] = [];
  /** Metadata of the plugin file that was last compared byte for byte. */
  #goodPlugin = '';
  #chain: CniChain | undefined;

  constructor({ folders, nowMs = () => performance.now() }: CniCheckOptions) {
    this.#folders = folders;
    this.#places = installPathsIn(folders);
    this.#nowMs = nowMs;
  }

  /** Undefined before the first check, and if nothing of Seine is installed. */
  get chain(): CniChain | undefined {
    return this.#chain;
  }

  get healthCheck(): HealthCheck {
    return { name: 'cni', everyMs: EVERY_MS, run: async () => await Promise.resolve(this.compare()) };
  }

  /** @throws SeineError if the folders cannot be read */
  compare(): HealthCheckResult {
    const { currentPlugin, currentConf, unfinished } = this.#places;
    this.#chain = undefined;
    // install-cni has installed nothing here: another installer is responsible.
    if (!existsSync(currentPlugin) || !existsSync(currentConf)) return { problems: [] };
    if (existsSync(unfinished))
      return { problems: [problem('install', 'an installation of the CNI plugin was begun and has not ended', REINSTALL)] };
    const found: Findings = { problems: [], repaired: [] };
    this.#comparePlugin(found);
    this.#compareConf(found);
    found.problems.push(...this.#earlier());
    return found;
  }

  #comparePlugin(found: Findings): void {
    const { plugin, currentPlugin } = this.#places;
    const present = statSync(plugin, { throwIfNoEntry: false });
    if (present !== undefined && identityOf(present) === this.#goodPlugin) return;
    const wanted = readFileSync(currentPlugin);
    const fault = present === undefined ? 'is missing' : faultOfPlugin(plugin, present, wanted);
    if (fault === undefined && present) this.#goodPlugin = identityOf(present);
    if (fault !== undefined)
      this.#repair(`${plugin} ${fault}`, plugin, found, () => placeFile(plugin, { bytes: wanted, mode: pluginMode }));
  }

  #compareConf(found: Findings): void {
    const { conf, currentConf } = this.#places;
    const installed = parseConfList(readFileSync(currentConf, 'utf8'), currentConf);
    const text = existsSync(conf) ? readFileSync(conf, 'utf8') : undefined;
    if (text !== undefined && isForeign(text)) {
      found.problems.push(problem(conf, `${conf} is another network's: it has no plugin "seine"`, REINSTALL));
      return;
    }
    const present = text === undefined ? undefined : readList(text, conf);
    const state = present && chainState(installed, present);
    this.#chain = state && { chain: state.chain, added: state.added };
    const faults = state ? state.faults : [text === undefined ? 'it is missing' : 'it cannot be read'];
    if (faults.length === 0) return;
    const whole = present ? `${JSON.stringify(repairedChain(installed, present), null, 2)}\n` : readFileSync(currentConf, 'utf8');
    const place = () => placeFile(conf, { bytes: Buffer.from(whole), mode: confMode });
    this.#repair(`${conf}: ${faults.join('; ')}`, conf, found, place);
  }

  #repair(fault: string, path: string, found: Findings, place: () => void): void {
    const nowMs = this.#nowMs();
    this.#repairsMs = this.#repairsMs.filter((atMs) => nowMs - atMs < REPAIRS_WITHIN_MS);
    if (this.#repairsMs.length >= REPAIRS_MAX) {
      found.problems.push(problem(path, `${fault}; another program keeps changing it, so repair is suspended for now`));
      return;
    }
    try {
      place();
      this.#repairsMs.push(nowMs);
      found.repaired.push(fault);
    } catch (thrown) {
      const why = SeineError.from(thrown, 'restored').rawMessage;
      found.problems.push(problem(path, `${fault}; it cannot be restored from here: ${why}`, REINSTALL));
    }
  }

  /** Runtimes use the first configuration by name. */
  #earlier(): readonly FoundProblem[] {
    const { conf } = this.#folders;
    if (!existsSync(conf)) return [];
    const names = readdirSync(conf).filter((name) => /\.(conf|conflist|json)$/.test(name) && name < confName);
    return names.map((name) => {
      const path = join(conf, name);
      return problem(path, `${path} precedes ${confName}: new pods get that network`, `mv ${path} ${path}.disabled`);
    });
  }
}

function problem(about: string, message: string, remedy?: string): FoundProblem {
  return { kind: 'cni', about, message, ...(remedy === undefined ? {} : { remedy }) };
}

function faultOfPlugin(path: string, { mode }: Stats, wanted: Uint8Array): string | undefined {
  if ((mode & 0o111) !== 0o111) return 'cannot be executed';
  return readFileSync(path).equals(wanted) ? undefined : 'is not the one that was installed';
}

/** Identity of a file; `ctimeMs` cannot be set back. */
function identityOf({ dev, ino, size, mode, ctimeMs }: Stats): string {
  return [dev, ino, size, mode, ctimeMs].join();
}

function readList(text: string, path: string): ConfList | undefined {
  try {
    return parseConfList(text, path);
  } catch {
    return undefined; // Seine's own, and damaged: reported as such
  }
}
