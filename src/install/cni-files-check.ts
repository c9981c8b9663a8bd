import { existsSync, readdirSync, readFileSync, type Stats, statSync } from 'node:fs';
import { join } from 'node:path';
import type { Look, LookResult } from '../api/health/health-check.ts';
import type { FoundProblem } from '../api/problem.ts';
import { SeineError } from '../base/errors/seine-error.ts';
import { placeFile } from './atomic-file.ts';
import { type ConfList, isForeign, parseConfList } from './conflist.ts';
import { confMode, confName, type Folders, type InstallPaths, installPathsIn, pluginMode } from './install-paths.ts';
import { chainState, mendedChain } from './own-chain.ts';

const EVERY_MS = 10_000;
/** Maximum number of consecutive repairs: a program that changes the files after each repair wins after that, for a while. */
const REPAIRS_MAX = 5;
const REPAIRS_WITHIN_MS = 10 * 60_000;
const REINSTALL = 'kubectl -n seine-system rollout restart daemonset/seine-agent    # puts plugin and configuration in place again';

interface CniLookOptions {
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

  constructor({ folders, nowMs = () => performance.now() }: CniLookOptions) {
    this.#folders = folders;
    this.#places = installPathsIn(folders);
    this.#nowMs = nowMs;
  }

  /** Undefined before the first check, and if nothing of Seine is installed. */
  get chain(): CniChain | undefined {
    return this.#chain;
  }

  get look(): Look {
    return { name: 'cni', everyMs: EVERY_MS, look: async () => await Promise.resolve(this.compare()) };
  }

  /** @throws SeineError if the folders cannot be read */
  compare(): LookResult {
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
    if (fault !== undefined) this.#mend(`${plugin} ${fault}`, plugin, found, () => placeFile(plugin, { bytes: wanted, mode: pluginMode }));
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
    const whole = present ? `${JSON.stringify(mendedChain(installed, present), null, 2)}\n` : readFileSync(currentConf, 'utf8');
    const place = () => placeFile(conf, { bytes: Buffer.from(whole), mode: confMode });
    this.#mend(`${conf}: ${faults.join('; ')}`, conf, found, place);
  }

  #mend(fault: string, path: string, found: Findings, place: () => void): void {
    const nowMs = this.#nowMs();
    this.#repairsMs = this.#repairsMs.filter((atMs) => nowMs - atMs < REPAIRS_WITHIN_MS);
    if (this.#repairsMs.length >= REPAIRS_MAX) {
      found.problems.push(problem(path, `${fault}; another program changes it again and again, so it is not put back for now`));
      return;
    }
    try {
      place();
      this.#repairsMs.push(nowMs);
      found.repaired.push(fault);
    } catch (thrown) {
      const why = SeineError.from(thrown, 'put back').rawMessage;
      found.problems.push(problem(path, `${fault}; it cannot be put back from here: ${why}`, REINSTALL));
    }
  }

  /** Runtimes use the first configuration by name. */
  #earlier(): readonly FoundProblem[] {
    const { conf } = this.#folders;
    if (!existsSync(conf)) return [];
    const names = readdirSync(conf).filter((name) => /\.(conf|conflist|json)$/.test(name) && name < confName);
    return names.map((name) => {
      const path = join(conf, name);
      return problem(path, `${path} comes before ${confName}: new pods get that network`, `mv ${path} ${path}.disabled`);
    });
  }
}

function problem(about: string, message: string, mend?: string): FoundProblem {
  return { kind: 'cni', about, message, ...(mend === undefined ? {} : { mend }) };
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
