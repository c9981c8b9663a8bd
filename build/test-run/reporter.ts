import { readdirSync, renameSync, writeFileSync } from 'node:fs';
import { relative } from 'node:path';
import { stripVTControlCharacters } from 'node:util';
import type { Reporter, SerializedError, TestCase, TestModule } from 'vitest/node';

const writeEveryMs = 250;
/** Maximum length of an error's first line; the output of the run has all of it. */
const whyMost = 200;

/** Progress of a run. Observers read this from the file that `SEINE_TEST_RECORD` names. */
interface TestRecord {
  /** Time of the last event of a test, by the clock of `process.hrtime`, which all processes share. */
  atMs: number;
  /** Maximum time until the next event (ms). */
  allowedMs: number;
  ended: boolean;
  running: { name: string; tests: string[] }[];
  passed: number;
  failed: number;
  files: { name: string; project: string; ms: number; ok: boolean }[];
  /** A line for each failed test and file, and for each error outside of them. */
  failures: string[];
  /** Network namespace → the files that ran when it was first seen. */
  namespaces: Record<string, string[]>;
}

/** A vitest reporter without output that records the progress of the run. */
export default class RecordReporter implements Reporter {
  readonly #file = process.env['SEINE_TEST_RECORD'];
  /** Running files by the id of the module: each event has its own object. */
  readonly #running = new Map<string, { name: string; tests: Set<string>; allowedMs: number }>();
  readonly #record: TestRecord = {
    atMs: 0,
    allowedMs: 0,
    ended: false,
    running: [],
    passed: 0,
    failed: 0,
    files: [],
    failures: [],
    namespaces: {},
  };
  #timer: NodeJS.Timeout | undefined;

  onTestModuleQueued(module: TestModule): void {
    this.#running.set(module.id, { name: module.relativeModuleId, tests: new Set(), allowedMs: 0 });
    this.#heard();
  }

  onTestModuleCollected(module: TestModule): void {
    const { testTimeout, hookTimeout } = module.project.config;
    const own = [...module.children.allTests()].map(({ options }) => options.timeout ?? testTimeout);
    this.#running.set(module.id, { name: module.relativeModuleId, tests: new Set(), allowedMs: Math.max(hookTimeout, ...own) });
    this.#heard();
  }

  onTestCaseReady({ module, fullName }: TestCase): void {
    this.#running.get(module.id)?.tests.add(fullName);
    this.#heard();
  }

  onTestCaseResult(test: TestCase): void {
    this.#running.get(test.module.id)?.tests.delete(test.fullName);
    const { state, errors } = test.result();
    if (state === 'passed') this.#record.passed++;
    if (state === 'failed') this.#record.failed++;
    if (state === 'failed') this.#record.failures.push(line(`${test.module.relativeModuleId} > ${test.fullName}`, errors?.[0]));
    this.#heard();
  }

  onTestModuleEnd(module: TestModule): void {
    const running = [...this.#running.values()].map(({ name }) => name);
    for (const name of networkNamespaces()) this.#record.namespaces[name] ??= running;
    this.#running.delete(module.id);
    const { collectDuration, duration, setupDuration } = module.diagnostic();
    const ms = Math.round(collectDuration + duration + setupDuration);
    this.#record.files.push({ name: module.relativeModuleId, project: module.project.name, ms, ok: module.ok() });
    for (const error of module.errors()) this.#record.failures.push(line(module.relativeModuleId, error));
    this.#heard();
  }

  onTestRunEnd(_modules: readonly TestModule[], unhandled: readonly SerializedError[]): void {
    for (const error of unhandled) this.#blame(error);
    this.#record.ended = true;
    this.#heard();
    this.#write();
  }

  /** An uncaught error, e.g. of a socket that outlived its test, counts as a failure of the file in which it occurred. */
  #blame(error: SerializedError): void {
    const path: unknown = error['VITEST_TEST_PATH'];
    const name = typeof path === 'string' ? relative(process.cwd(), path) : undefined;
    for (const file of this.#record.files) if (file.name === name) file.ok = false;
    this.#record.failures.push(line(`${name ?? 'somewhere'}, an error that no test caught`, error));
  }

  #heard(): void {
    this.#record.atMs = Number(process.hrtime.bigint() / 1_000_000n);
    this.#timer ??= setTimeout(() => this.#write(), writeEveryMs).unref();
  }

  /** Readers always read a complete file. */
  #write(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    if (this.#file === undefined) return;
    const running = [...this.#running.values()];
    this.#record.running = running.map(({ name, tests }) => ({ name, tests: [...tests] }));
    this.#record.allowedMs = Math.max(0, ...running.map(({ allowedMs }) => allowedMs));
    writeFileSync(`${this.#file}.new`, JSON.stringify(this.#record));
    renameSync(`${this.#file}.new`, this.#file);
  }
}

/** The failed test, and the beginning of the reason. */
function line(what: string, error: { readonly message: string } | undefined): string {
  const [why = ''] = stripVTControlCharacters(error?.message ?? '').split('\n');
  return why === '' ? what : `${what}: ${why.slice(0, whyMost)}`;
}

function networkNamespaces(): string[] {
  try {
    return readdirSync('/run/netns');
  } catch {
    return [];
  }
}
